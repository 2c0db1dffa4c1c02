"""Tests of the list of suites: what a build with sanitizers runs of the Python package."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import catalogue  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def suites(preset: str, wanted: str):
    scope = catalogue.Scope(ROOT, preset, wanted)
    return catalogue.targets(scope.build, catalogue.collect(scope)), catalogue.python_suites(scope)


def test_the_python_package_runs_under_asan_and_its_module_is_built_for_it():
    targets, found = suites("asan-ubsan", "python python")
    assert "forethought_python" in targets and [s.name for s in found] == ["python python"]
    env, argv = found[0].env, found[0].argv
    assert "libasan" in env["LD_PRELOAD"].split()[0] and env["ASAN_OPTIONS"].endswith(":detect_leaks=0")
    assert env["PYTHONPATH"] == str(ROOT / "build" / "asan-ubsan" / "python")
    left_out = [arg.removeprefix("--ignore=") for arg in argv if arg.startswith("--ignore=")]
    assert left_out and all(pathlib.Path(file).exists() for file in left_out)
    for needed in ("session_test.py", "memory_test.py", "lifetime_test.py", "dlpack_test.py"):
        assert (ROOT / "python" / "tests" / needed).exists() and not any(file.endswith(needed) for file in left_out)


def test_python_is_not_run_under_tsan_and_plainly_in_a_release():
    assert suites("tsan", "python")[1] == []
    assert all("LD_PRELOAD" not in s.env for s in suites("release", "python")[1])
