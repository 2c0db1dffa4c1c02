"""Time of a clean build without compiler cache, sizes of what it makes and loads, files and lines by folder."""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_table  # noqa: E402

SOURCES = {".h", ".cc", ".inc", ".py", ".cmake"}


def clean_build_seconds() -> dict[str, float]:
    """Configures and builds the release preset in a fresh folder, with the compiler cache off."""
    folder = ROOT / "build" / "figure-build"
    shutil.rmtree(folder, ignore_errors=True)
    env = {**os.environ, "CCACHE_DISABLE": "1"}
    options = (ROOT / "build" / "release" / ".options").read_text().split()
    times = {}
    for name, argv in (("configure", ["cmake", "--preset", "release", "-B", str(folder), *options]),
                       ("compile and link", ["ninja", "-C", str(folder)])):
        start = time.monotonic()
        subprocess.run(argv, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times[name] = time.monotonic() - start
    shutil.rmtree(folder)
    return times


def stripped_bytes(library: pathlib.Path) -> int:
    copy = ROOT / "build" / "stripped.tmp"
    subprocess.run(["strip", "-o", str(copy), str(library)], check=True)
    size = copy.stat().st_size
    copy.unlink()
    return size


def library_rows(library: pathlib.Path) -> list[dict]:
    """The library, stripped, and every shared library it loads."""
    rows = [{"library": library.name, "bytes": stripped_bytes(library), "of": "ours, stripped"}]
    for line in subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout.splitlines():
        if m := re.search(r"=> (/\S+)", line):
            path = pathlib.Path(m.group(1)).resolve()
            rows.append({"library": path.name, "bytes": path.stat().st_size, "of": "loaded"})
    return rows


def folder_rows() -> list[dict]:
    """Tracked source files and their lines, code and tests apart, by folder."""
    counts = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"):
        path = pathlib.PurePath(name)
        if path.suffix not in SOURCES or not (ROOT / name).is_file():
            continue
        folder = "/".join(path.parts[:2]) if path.parts[0] in ("src", "tools") else path.parts[0]
        test = path.stem.endswith(("_test", "_bench")) or path.parts[0] == "tests"
        at = counts[folder if len(path.parts) > 1 else "."]
        at[2 if test else 0] += 1
        at[3 if test else 1] += (ROOT / name).read_text(errors="replace").count("\n")
    rows = [{"folder": f, "files": a, "lines": b, "test files": c, "test lines": d}
            for f, (a, b, c, d) in sorted(counts.items())]
    return rows + [{"folder": "all", **{k: sum(r[k] for r in rows) for k in list(rows[0])[1:]}}] if rows else rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-build", action="store_true", help="leave out the clean build, which takes minutes")
    args = parser.parse_args()
    facts = {f"{k} s": round(v, 1) for k, v in ({} if args.no_build else clean_build_seconds()).items()}
    libraries = sorted((ROOT / "build" / "release").glob("**/libforethought.so*"))
    found = [p for p in libraries if not p.is_symlink()]
    for row in library_rows(found[0]) if found else []:
        facts[f"{row['library']} bytes ({row['of']})"] = row["bytes"]
    figure_table.show("build", folder_rows(), facts)


if __name__ == "__main__":
    main()
