"""The rules of the lint. Each takes the tree and yields findings; RULES at the end lists them."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

CXX = {".h", ".cc"}
COMMENT_START = {".h": "//", ".cc": "//", ".inc": "//", ".cmake": "#", ".sh": "#", ".txt": "#", ".py": ('"""', "#")}


@dataclass
class Tree:
    """The files that the rules look at: paths relative to root, with text on demand."""
    root: pathlib.Path
    files: list[str]
    cache: pathlib.Path | None = None  # where results that depend on one file's bytes alone are kept
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(errors="replace")
        return self.texts[path]

    def with_suffix(self, *suffixes: str) -> list[str]:
        return [f for f in self.files if pathlib.PurePath(f).suffix in suffixes]


@dataclass
class Finding:
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def code_only(text: str) -> str:
    """C++ text with comments and string contents blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()) if m.group()[0] in "/R" else '""', text)


def is_test(path: str) -> bool:
    stem = pathlib.PurePath(path).stem
    return stem.endswith(("_test", "_bench")) or stem.startswith(("test_", "bench_"))


# --- formatting -------------------------------------------------------------------------------------------------------


def formatting(tree: Tree) -> Iterator[Finding]:
    """C++ files are as clang-format 14 with .clang-format leaves them."""
    tool = shutil.which("clang-format-14")
    if not tool:
        yield Finding(".clang-format", 1, "clang-format-14 is not installed: ./dev setup")
        return
    style = (tree.root / ".clang-format").read_bytes()
    cache_file = tree.cache / "formatted.json" if tree.cache else None
    known = set(json.loads(cache_file.read_text())) if cache_file and cache_file.exists() else set()
    keys = {f: hashlib.sha256(style + (tree.root / f).read_bytes()).hexdigest() for f in tree.with_suffix(*CXX)}
    todo = [f for f, key in keys.items() if key not in known]

    def check(path: str) -> list[int]:
        out = subprocess.run([tool, "--dry-run", path], cwd=tree.root, capture_output=True, text=True)
        return [int(n) for n in re.findall(r":(\d+):\d+: warning: code should be clang-formatted", out.stderr)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = {f: lines for f, lines in zip(todo, pool.map(check, todo)) if lines}
    if cache_file:
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        cache_file.write_text(json.dumps(sorted(key for f, key in keys.items() if f not in wrong)))
    for f, lines in wrong.items():
        yield Finding(f, lines[0], f"{len(lines)} places are not as clang-format leaves them: ./dev format")


# --- includes ---------------------------------------------------------------------------------------------------------


def allowed_includes(table: str) -> dict[str, set[str]]:
    """cmake/rooms.txt as {room: rooms it may include, itself among them}."""
    allowed = {}
    for line in table.splitlines():
        if ":" in line and not line.startswith("#"):
            room, others = line.split(":")
            allowed[room] = {room, *others.split()}
    return allowed


def includes(tree: Tree) -> Iterator[Finding]:
    """A file of src/ROOM includes only the rooms that cmake/rooms.txt allows it, by its path from src/."""
    allowed = allowed_includes(tree.text("cmake/rooms.txt"))
    for path in tree.with_suffix(".h", ".cc", ".inc"):
        parts = pathlib.PurePath(path).parts
        if parts[0] != "src":
            continue
        room = parts[1]
        if room not in allowed:
            yield Finding(path, 1, f"the room '{room}' is not in cmake/rooms.txt")
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not m:
                continue
            target = m.group(1)
            other = target.split("/")[0]
            if "/" not in target or ".." in target:
                yield Finding(path, number, f'"{target}": write the path from src/')
            elif other in allowed and other not in allowed[room]:
                yield Finding(path, number, f"{room}/ may not include {other}/ (cmake/rooms.txt)")


# --- names ------------------------------------------------------------------------------------------------------------

LOWER_SNAKE = re.compile(r"[a-z0-9][a-z0-9_]*(\.[a-z0-9]+)*|__init__\.pyi?|__main__\.py|_[a-z0-9_]+\.pyi?")


def names(tree: Tree) -> Iterator[Finding]:
    """Source files and their folders are lower_snake; C++ files end in .h or .cc."""
    for path in tree.files:
        pure = pathlib.PurePath(path)
        if pure.suffix in {".cpp", ".cxx", ".hpp", ".hxx", ".hh", ".C"}:
            yield Finding(path, 1, "C++ files end in .h or .cc")
        if pure.suffix in {".h", ".cc", ".inc", ".py"} and not LOWER_SNAKE.fullmatch(pure.name):
            yield Finding(path, 1, "file names are lower_snake")
        if pure.parts[0] == "src":
            for folder in pure.parts[1:-1]:
                if not LOWER_SNAKE.fullmatch(folder):
                    yield Finding(path, 1, f"the folder '{folder}' is not lower_snake")


# --- words ------------------------------------------------------------------------------------------------------------

HEAVY_HEADERS = re.compile(r"#\s*include\s*<(iostream|regex|ranges)>")
HEADER_ONLY_IN_CC = re.compile(r"#\s*include\s*<(fmt/(?!core\.h)|nlohmann/|spdlog/)")
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|aligned_alloc|posix_memalign)\s*\("
                       r"|\bnew\s+[\w:<>]+\s*\[|\bmake_(unique|shared)(_for_overwrite)?<[^>]*\[\]>"
                       r"|\bstd::vector<\s*(float|double|Half|BFloat16|u?int(8|16|32)_t|std::byte|char)\s*>\s+\w+\s*[({=]")
FULL_PATH = re.compile(r"(?<![\w./-])/(work|home|root|Users)/\w")


def words(tree: Tree) -> Iterator[Finding]:
    """Heavy headers and std::call_once stay out of src/, fmt and JSON out of headers, payload allocation out of kernels,
    machine paths out of all."""
    for path in tree.files:
        pure = pathlib.PurePath(path)
        if pure.suffix in {".png", ".pb", ".npy", ".onnx", ".xz"} or path.startswith("fuzz/corpus/"):
            continue
        text = tree.text(path)
        for number, line in enumerate(text.splitlines(), 1):
            if FULL_PATH.search(line):
                yield Finding(path, number, "names a path of one machine")
        if pure.parts[0] != "src" or pure.suffix not in CXX or is_test(path):
            continue
        for number, line in enumerate(code_only(text).splitlines(), 1):
            if m := HEAVY_HEADERS.search(line):
                yield Finding(path, number, f"<{m.group(1)}> is slow to compile or sets up at start: not in src/")
            if "std::call_once" in line:
                yield Finding(path, number, "std::call_once hangs after an exception: Once of base/once.h does not")
            if pure.suffix == ".h" and (m := HEADER_ONLY_IN_CC.search(line)):
                yield Finding(path, number, f"<{m.group(1)}…> belongs in .cc files only")
            if pure.parts[1] == "kernels" and (m := ALLOCATES.search(line)):
                yield Finding(path, number, f"'{m.group().strip()}': kernels get their memory from the caller")


# --- operators --------------------------------------------------------------------------------------------------------

OPERATOR_LIST = "src/ops/operators.inc"


def operators(tree: Tree) -> Iterator[Finding]:
    """operators.inc is sorted, a test names each of its operators, and plan/ and exec/ name none."""
    if OPERATOR_LIST not in tree.files:
        return
    listed = {}  # name: line
    for number, line in enumerate(tree.text(OPERATOR_LIST).splitlines(), 1):
        if m := re.match(r"OP\((\w+)\)", line):
            if listed and m.group(1) <= max(listed):
                yield Finding(OPERATOR_LIST, number, f"{m.group(1)} is not in sorted order")
            listed[m.group(1)] = number
    tested = set()
    for path in tree.files:
        if path.endswith("_test.cc"):
            tested.update(re.findall(r"\w+", tree.text(path)))
    for name, number in listed.items():
        if name not in tested:
            yield Finding(OPERATOR_LIST, number, f"no test names {name}")
    for path in tree.with_suffix(*CXX):
        if not path.startswith(("src/plan/", "src/exec/")) or is_test(path):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for name in re.findall(r'"(\w+)"', line):
                if name in listed:
                    yield Finding(path, number, f'"{name}": the planner and the executor know no operators by name')


# --- comments and knobs -----------------------------------------------------------------------------------------------


def first_lines(tree: Tree) -> Iterator[Finding]:
    """The first line of a source file is a comment that says what the file is; a .cc file may leave that to its .h file."""
    for path in tree.files:
        pure = pathlib.PurePath(path)
        start = COMMENT_START.get(pure.suffix)
        if start is None or path == "CMakeLists.txt":
            continue
        if pure.suffix == ".cc" and str(pure.with_suffix(".h")) in tree.files:
            continue
        text = tree.text(path)
        line = text.splitlines()[1 if text.startswith("#!") else 0] if text.strip() else ""
        if not text.strip() and pure.name == "__init__.py":
            continue
        words_in = line.lstrip('/#" ').split()
        if not line.startswith(start) or len(words_in) < 3:
            yield Finding(path, 1, "the first line is no comment that says what the file is")


def knob_page(tree: Tree) -> Iterator[Finding]:
    """docs/knobs.md is what src/base/knobs.inc makes of it."""
    import knobs_page
    if tree.text("docs/knobs.md") != knobs_page.page(tree.text("src/base/knobs.inc")):
        yield Finding("docs/knobs.md", 1, "is out of date: python3 tools/lint/knobs_page.py")


# --- size: a warning only ---------------------------------------------------------------------------------------------


def long_files(tree: Tree) -> Iterator[Finding]:
    """Files aim at 400 lines, kernels and tests at 700."""
    for path in tree.with_suffix(".h", ".cc", ".py"):
        limit = 700 if path.startswith("src/kernels/") or is_test(path) else 400
        count = tree.text(path).count("\n")
        if count > limit:
            yield Finding(path, count, f"has {count} lines; about {limit} is the aim")


RULES = [formatting, includes, names, words, operators, first_lines, knob_page]
WARNINGS = [long_files]
