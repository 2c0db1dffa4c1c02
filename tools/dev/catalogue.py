"""The list of test suites, derived from what the tree holds: rooms with unit tests, Python tests, cases, fuzz targets."""
import dataclasses
import pathlib
import subprocess
import sys

import unpack_models
from suites import Suite

NOT_UNDER_ASAN = ["backend_test.py", "parity_test.py", "real_models_test.py"]  # whole suites of models, peers, large models
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


def threaded_rooms(root: pathlib.Path) -> list[str]:
    """The rooms with threads: threading, what may include it, devices, and the memory that frames and runs share."""
    lines = (root / "cmake" / "rooms.txt").read_text().splitlines()
    return ["memory", "device"] + [line.split(":")[0] for line in lines if "threading" in line and not line.startswith("#")]


@dataclasses.dataclass
class Scope:
    """What to collect suites for: a tree, one of its builds, and the filter ("" for everything)."""
    root: pathlib.Path
    preset: str
    filter: str = ""

    @property
    def build(self) -> pathlib.Path:
        return self.root / "build" / self.preset

    def wants(self, name: str) -> bool:
        return self.filter in name

    def environment(self) -> dict[str, str]:
        """What the sanitizers of a build read; empty for the other builds."""
        folder = self.root / "tools" / "dev"
        if self.preset == "asan-ubsan":
            return {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1",
                    "UBSAN_OPTIONS": "print_stacktrace=1", "LSAN_OPTIONS": f"suppressions={folder / 'lsan.supp'}"}
        if self.preset == "tsan":
            return {"TSAN_OPTIONS": f"suppressions={folder / 'tsan.supp'}:second_deadlock_stack=1"}
        return {}


def program(scope: Scope, name: str, path: pathlib.Path, args: list[str], reader: str, **more) -> Suite:
    """A suite that runs a program of the build; one that was not built is a failure."""
    env = {**scope.environment(), **more.pop("env", {})}
    missing = "" if path.exists() else f"{path} was not built"
    timeout = 1200 if scope.preset == "release" else 5400
    return Suite(name, [str(path), *args], reader, env=env, missing=missing, timeout=timeout, **more)


def unit_suites(scope: Scope) -> list[Suite]:
    """The unit tests of each room; with a filter that names no suite, the tests it names in every suite."""
    found = []
    wanted_rooms = threaded_rooms(scope.root) if scope.preset == "tsan" else rooms(scope.root)
    for room in wanted_rooms:
        if not any((scope.root / "src" / room).rglob("*_test.cc")):
            continue
        for tier in machine_tiers() if room in TIERED_ROOMS else [""]:
            name = f"unit {room}" + (f" [{tier}]" if tier else "")
            narrowed = not scope.wants(name)
            args = ["--gtest_output=json:{report}"] + ([f"--gtest_filter=*{scope.filter}*"] if narrowed else [])
            found.append(program(scope, name, scope.build / "src" / f"test_{room}", args, "gtest", may_be_empty=narrowed,
                                 env={"FORETHOUGHT_ISA": tier} if tier else {}))
    return found


def random_suites(scope: Scope) -> list[Suite]:
    """Many more random graphs than the unit tests take: about two minutes on two cores."""
    name = "random graphs"
    if scope.preset != "release" or not scope.wants(name):
        return []
    args = ["--gtest_output=json:{report}", "--gtest_filter=RandomGraphs.Check28*"]
    return [program(scope, name, scope.build / "src" / "test_session", args, "gtest", env={"FORETHOUGHT_RANDOM_GRAPHS": "10000"})]


def conformance_suites(scope: Scope) -> list[Suite]:
    """The ONNX backend cases, at the first and the last optimisation level, in each instruction tier."""
    source = scope.root / "tests" / "conformance"
    if scope.preset == "tsan" or not any(source.glob("*.cc")):
        return []
    found = []
    for level in ("disabled", "all"):
        # Instrumented scalar convolutions would take hours; the unit tests of the kernels cover them.
        for tier in machine_tiers() if scope.preset == "release" else machine_tiers()[-1:]:
            name = f"conformance {level} [{tier}]"
            narrowed = not scope.wants(name)
            args = [str(scope.root / "build" / "cases"), "--expected", str(source / "expected.txt"), "--level", level]
            args += ["--filter", scope.filter] if narrowed else []
            found.append(program(scope, name, scope.build / "tests" / "conformance", args, "summary",
                                 may_be_empty=narrowed, env={"FORETHOUGHT_ISA": tier}))
        # Watched by the shadow, and planned for other sizes; the large models would take minutes.
        for name, flag in ((f"conformance {level} in the shadow", "--shadow"), (f"conformance {level} of open dims", "--open-dims")):
            narrowed = not scope.wants(name)
            args = [str(scope.root / "build" / "cases"), "--expected", str(source / "expected.txt"), "--level", level, flag,
                    "--kinds", "node,pytorch-converted,pytorch-operator,simple"]
            args += ["--filter", scope.filter] if narrowed else []
            found.append(program(scope, name, scope.build / "tests" / "conformance", args, "summary", may_be_empty=narrowed))
    return found


def model_suites(scope: Scope) -> list[Suite]:
    """The pack of real models with stored outputs, at every level; the pack is no part of the tree and may be absent."""
    pack = scope.root.parent / "shared" / "models"
    folder = scope.root / "build" / "models"
    source = scope.root / "tests" / "conformance"
    if scope.preset != "release" or not any(source.glob("*.cc")):
        return []
    names = [f"models {level}" for level in ("disabled", "basic", "extended", "all")]
    wanted = [name for name in names if scope.wants(name)]
    if wanted and pack.is_dir():
        unpack_models.unpack(pack, folder)
    return [program(scope, name, scope.build / "tests" / "conformance",
                    [str(folder), "--expected", str(source / "models.txt"), "--level", name.split()[1]], "summary",
                    absent="" if pack.is_dir() else "no ../shared/models here") for name in wanted]


def python_tests(folder: pathlib.Path) -> list[pathlib.Path]:
    return [f for f in folder.rglob("*.py") if f.stem.endswith("_test") or f.stem.startswith("test_")]


def interpreter_under_asan(scope: Scope) -> dict[str, str]:
    """What lets a plain Python load an instrumented module: the library comes first, and C++ exceptions with it; objects
    have blocks of their own. Python itself never gives all its memory back, so leaks are not looked for."""
    libraries = [subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
                 for name in ("libasan.so", "libstdc++.so")]
    env = scope.environment()
    return {**env, "ASAN_OPTIONS": env["ASAN_OPTIONS"] + ":detect_leaks=0", "LD_PRELOAD": " ".join(libraries), "PYTHONMALLOC": "malloc"}


def python_suites(scope: Scope) -> list[Suite]:
    found = []
    asan = scope.preset == "asan-ubsan"  # the package alone: what the other folders test runs elsewhere
    for folder in ("tools", "python", "tests", "demo") if scope.preset == "release" else ("python",) if asan else ():
        if not python_tests(scope.root / folder):
            continue
        name = f"python {folder}"
        narrowed = not scope.wants(name)
        if narrowed and " " in scope.filter:  # no test has such a name, and pytest would take it for an expression
            continue
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=*_test.py test_*.py",
                "-o", "junit_family=xunit2", "--import-mode=importlib", "--junitxml={report}", str(scope.root / folder)]
        argv += ["-k", scope.filter] if narrowed else []
        argv += [f"--ignore={scope.root / folder / 'tests' / file}" for file in NOT_UNDER_ASAN] if asan else []
        env = {"PYTHONPATH": str(scope.build / "python"), "PYTHONDONTWRITEBYTECODE": "1",
               "FORETHOUGHT_BUILD": str(scope.build)}
        env |= interpreter_under_asan(scope) if asan else {}
        found.append(Suite(name, argv, "junit", env=env, may_be_empty=narrowed, timeout=5400 if asan else 900))
    return found


def fuzz_suites(scope: Scope) -> list[Suite]:
    """A minute of each fuzz target, from its committed inputs and what earlier runs on this machine found."""
    found = []
    fuzz_build = scope.root / "build" / "fuzz"
    for source in sorted((scope.root / "fuzz").glob("fuzz_*.cc")) if scope.preset == "release" else []:
        if not scope.wants(source.stem):
            continue
        grown, finds = fuzz_build / "corpus" / source.stem, fuzz_build / "finds"
        for folder in (grown, finds):
            folder.mkdir(parents=True, exist_ok=True)
        args = ["-max_total_time=60", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
                f"-artifact_prefix={finds}/{source.stem}-", str(grown)]
        committed = scope.root / "fuzz" / "corpus" / source.stem
        args += [str(committed)] if committed.is_dir() else []
        found.append(program(scope, f"fuzz {source.stem}", fuzz_build / "fuzz" / source.stem, args, "exit"))
    return found


def lint_suites(scope: Scope) -> list[Suite]:
    if scope.preset != "release" or not scope.wants("lint"):
        return []
    return [Suite("lint", [sys.executable, str(scope.root / "tools" / "lint" / "lint.py"), "--summary"], "summary")]


def collect(scope: Scope) -> list[Suite]:
    """All suites of the scope, the long ones first so that they overlap with the rest."""
    kinds = (fuzz_suites, random_suites, conformance_suites, model_suites, python_suites, lint_suites, unit_suites)
    return [suite for kind in kinds for suite in kind(scope)]


def targets(build: pathlib.Path, wanted: list[Suite]) -> list[str]:
    """The programs of a build that suites run, by the names that its build files know them by."""
    programs = {pathlib.Path(s.argv[0]).name for s in wanted if pathlib.Path(s.argv[0]).is_relative_to(build)}
    python = any(s.env.get("PYTHONPATH") == str(build / "python") for s in wanted)
    modules = {"forethought_python", "forethought_failing_new"} if python else set()
    return sorted(programs | modules)
