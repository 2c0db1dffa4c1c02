"""Applies the code blocks of docs/howto in a scratch tree, compiles them against the built libraries and runs their tests."""
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release"))
PAGES = {"add_an_operator": "ops", "add_a_kernel": "kernels", "add_a_fusion": "passes"}  # page: the room whose test program takes the test in


def blocks(page: str) -> list[tuple[str, str, bool]]:
    """(file, text, whether the text is a line to insert) of each C++ block that names a file."""
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text()
    found = re.findall(r"^```cpp (src/\S+)( \+)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page}.md has no block that names a file"
    return [(path, body, bool(plus)) for path, plus, body in found]


def insert_sorted(text: str, line: str) -> str:
    """A list of one entry a line, with one more in its place."""
    lines = text.splitlines(keepends=True)
    entries = [i for i, old in enumerate(lines) if old.startswith(line.split("(")[0])]
    at = next((i for i in entries if lines[i] > line), entries[-1] + 1)
    return "".join([*lines[:at], line, *lines[at:]])


def apply(page: str, scratch: pathlib.Path) -> list[str]:
    """Writes the page's files under scratch; returns the sources to compile: its own, and those that read a changed list."""
    sources, lists = [], []
    for path, body, is_line in blocks(page):
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_line:
            assert body not in (ROOT / path).read_text(), f"{body.strip()} is in {path} already: the page needs another example"
            target.write_text(insert_sorted((ROOT / path).read_text(), body))
            lists.append(path.removeprefix("src/"))
        else:
            assert not (ROOT / path).exists(), f"{path} exists already: the page needs another example"
            target.write_text(body)
            sources += [path] if path.endswith(".cc") else []
    readers = [str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.cc") if not p.name.endswith("_test.cc") and
               any(f'"{name}"' in p.read_text() for name in lists)]
    return sources + readers


def compile_line(room: str, source: str, scratch: pathlib.Path) -> tuple[list[str], pathlib.Path]:
    """The build's own command for a file of that kind, turned to another source and to headers of the scratch tree first."""
    is_test = source.endswith("_test.cc")
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    model = next(e for e in entries if f"/src/{room}/" in e["file"] and e["file"].endswith("_test.cc") == is_test)
    args = shlex.split(model["command"])
    out = scratch / (source.replace("/", "_") + ".o")
    args[args.index("-o") + 1] = str(out)
    args[args.index("-c") + 1] = str(scratch / source if (scratch / source).exists() else ROOT / source)
    first = next(i for i, a in enumerate(args) if a.startswith("-I"))
    args.insert(first, f"-I{scratch / 'src'}")
    return args, out


def link_line(target: str, objects: list[pathlib.Path], program: pathlib.Path, keep: str) -> list[str]:
    """How the build links a program, with our objects beside those of its own whose names end in `keep`."""
    shown = subprocess.run(["ninja", "-C", str(BUILD), "-t", "commands", "-s", target], capture_output=True, text=True, check=True)
    line = next(text for text in reversed(shown.stdout.splitlines()) if f"-o {target}" in text)
    args = [a for a in shlex.split(line) if a not in (":", "&&")]
    args[args.index("-o") + 1] = str(program)
    kept = [a for a in args if not a.endswith(".o") or a.endswith(keep)]
    return [*kept[:1], *map(str, objects), *kept[1:]]


def run(args: list[str], **more) -> subprocess.CompletedProcess:
    done = subprocess.run(args, capture_output=True, text=True, timeout=600, **more)
    assert done.returncode == 0, shlex.join(args) + "\n" + done.stdout[-3000:] + done.stderr[-3000:]
    return done


@functools.cache
def applied(page: str) -> tuple[pathlib.Path, dict[str, pathlib.Path]]:
    """The scratch tree of a page and its compiled sources, by path."""
    scratch = ROOT / "build" / "howto" / page
    shutil.rmtree(scratch, ignore_errors=True)
    objects = {}
    for source in apply(page, scratch):
        args, objects[source] = compile_line(PAGES[page], source, scratch)
        run(args, cwd=BUILD)
    return scratch, objects


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_it_stands(page):
    scratch, objects = applied(page)
    program = scratch / "test"
    run(link_line(f"src/test_{PAGES[page]}", list(objects.values()), program, "_testing.cc.o"), cwd=BUILD)
    tests = sum(len(re.findall(r"^TEST\(", body, re.MULTILINE)) for _, body, _ in blocks(page))
    shown = run([str(program)]).stdout
    assert tests > 0 and f"[  PASSED  ] {tests} test" in shown, shown


def test_the_operator_passes_the_cases_it_unlocks():
    cases = ROOT / "build" / "cases"
    if not cases.exists():
        pytest.skip("build/cases is not there: ./dev test makes it")
    text = (ROOT / "docs" / "howto" / "add_an_operator.md").read_text()
    names = re.search(r"^```text tests/conformance/expected.txt\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1).split()
    states = (ROOT / "tests" / "conformance" / "expected.txt").read_text()
    for name in names:
        assert f"open {name}\n" in states, f"{name} is not open"
        states = states.replace(f"open {name}\n", f"pass {name}\n")
    scratch, objects = applied("add_an_operator")
    (scratch / "expected.txt").write_text(states)
    program = scratch / "conformance"
    run(link_line("tests/conformance", [o for s, o in objects.items() if not s.endswith("_test.cc")], program, ".o"), cwd=BUILD)
    command = re.search(r"^    build/release/(tests/conformance .* --verbose)$", text, re.MULTILINE).group(1)
    args = command.replace("tests/conformance/expected.txt", str(scratch / "expected.txt")).split()[1:]
    shown = run([str(program), *args], cwd=ROOT).stdout
    assert f"{len(names)} passed, 0 failed, 0 skipped" in shown, shown


@pytest.mark.parametrize("page", PAGES)
def test_code_is_formatted(page):
    """As clang-format leaves it, so that a page shows what ./dev format gives."""
    tool = shutil.which("clang-format-14") or pytest.skip("clang-format-14 is not installed")
    for path, body, is_line in blocks(page):
        if not is_line:
            done = run([tool, f"--assume-filename={ROOT / path}"], input=body)
            assert done.stdout == body, f"{path} in {page}.md"
