"""The list of test suites, derived from what the tree holds: rooms with unit tests, Python tests, cases, fuzz targets."""
import pathlib
import sys

from suites import Suite

TIERS = ["scalar", "avx2", "avx512"]
TIERED_ROOMS = ["kernels", "ops"]  # their unit tests run once in each instruction tier that the machine has


def machine_tiers(cpuinfo: str = "/proc/cpuinfo") -> list[str]:
    """The values of FORETHOUGHT_ISA that this machine can run, best last."""
    flags = set()
    for line in pathlib.Path(cpuinfo).read_text().splitlines():
        if line.startswith("flags"):
            flags.update(line.split(":", 1)[1].split())
            break
    tiers = ["scalar"]
    if {"avx2", "fma"} <= flags:
        tiers.append("avx2")
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        tiers.append("avx512")
    return tiers


def rooms(root: pathlib.Path) -> list[str]:
    lines = (root / "cmake" / "rooms.txt").read_text().splitlines()
    return [line.split(":")[0] for line in lines if ":" in line and not line.startswith("#")]


def unit_suites(root: pathlib.Path, build: pathlib.Path, filter: str) -> list[Suite]:
    found = []
    for room in rooms(root):
        if not any((root / "src" / room).rglob("*_test.cc")):
            continue
        binary = build / "src" / f"test_{room}"
        tiers = machine_tiers() if room in TIERED_ROOMS else [""]
        for tier in tiers:
            name = f"unit {room}" + (f" [{tier}]" if tier else "")
            argv = [str(binary), "--gtest_output=json:{report}", "--gtest_brief=0"]
            narrowed = bool(filter) and filter not in name
            if narrowed:
                argv.append(f"--gtest_filter=*{filter}*")
            found.append(Suite(name, argv, "gtest", env={"FORETHOUGHT_ISA": tier} if tier else {}, may_be_empty=narrowed,
                               missing="" if binary.exists() else f"{binary} was not built"))
    return found


def python_suites(root: pathlib.Path, build: pathlib.Path, filter: str) -> list[Suite]:
    found = []
    for folder in ("tools", "python", "tests"):
        if not any((root / folder).rglob("*_test.py")):
            continue
        name = f"python {folder}"
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=*_test.py",
                "--import-mode=importlib", "--junitxml={report}", str(root / folder)]
        narrowed = bool(filter) and filter not in name
        if narrowed:
            argv += ["-k", filter]
        found.append(Suite(name, argv, "junit", env={"PYTHONPATH": str(build / "python"), "PYTHONDONTWRITEBYTECODE": "1"},
                           may_be_empty=narrowed))
    return found


def collect(root: pathlib.Path, preset: str, filter: str) -> list[Suite]:
    build = root / "build" / preset
    found = []
    if filter in "lint":
        found.append(Suite("lint", [sys.executable, str(root / "tools/lint/lint.py"), "--summary"], "summary"))
    return found + unit_suites(root, build, filter) + python_suites(root, build, filter)
