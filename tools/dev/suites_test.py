"""Tests that the test driver counts honestly: crashes, hangs, missing programs and empty suites are failures."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import catalogue  # noqa: E402
import suites  # noqa: E402


def script(code: str, reader: str, **more) -> suites.Suite:
    return suites.Suite("s", [sys.executable, "-c", code, "{report}"], reader, **more)


def counts(r: suites.Result) -> tuple[int, int, int]:
    return r.passed, r.failed, r.skipped


GTEST = {"testsuites": [{"name": "G", "testsuite": [
    {"name": "a", "status": "RUN", "result": "COMPLETED"},
    {"name": "b", "status": "RUN", "result": "COMPLETED", "failures": [{"failure": "b broke"}]},
    {"name": "c", "status": "RUN", "result": "SKIPPED"},
    {"name": "d", "status": "NOTRUN", "result": "SUPPRESSED"}]}]}
WRITE_GTEST = f"import sys; open(sys.argv[1], 'w').write({json.dumps(json.dumps(GTEST))}); sys.exit(1)"

JUNIT = ('<testsuites><testsuite><testcase classname="m" name="a"/><testcase classname="m" name="b"><failure>b broke'
         '</failure></testcase><testcase classname="m" name="c"><skipped/></testcase><testcase classname="m" name="d">'
         '<error message="d broke"/></testcase></testsuite></testsuites>')
WRITE_JUNIT = f"import sys; open(sys.argv[1], 'w').write({JUNIT!r}); sys.exit(1)"
CRASH = "import os; print('[ RUN      ] G.x', flush=True); os.abort()"

# (code, reader, expected counts, part of the failures' text)
CASES = [
    (WRITE_GTEST, "gtest", (1, 1, 2), "b broke"),
    (WRITE_JUNIT, "junit", (1, 2, 1), "d broke"),
    (CRASH, "gtest", (0, 1, 0), "SIGABRT"),
    ("pass", "gtest", (0, 1, 0), "no readable result"),
    ("pass", "junit", (0, 1, 0), "no readable result"),
    ("pass", "summary", (0, 1, 0), "no readable result"),
    ("print('3 passed, 0 failed, 2 skipped')", "summary", (3, 0, 2), ""),
    ("print('FAILED x'); print('3 passed, 2 failed, 0 skipped'); exit(1)", "summary", (3, 2, 0), "3 passed"),
    ("print('FAIL  x: y'); print('3 passed, 1 failed, 0 skipped'); exit(1)", "summary", (3, 1, 0), ""),
    ("print('3 passed, 0 failed, 0 skipped'); exit(1)", "summary", (3, 1, 0), "exit code 1"),
    ("print('0 passed, 0 failed, 0 skipped')", "summary", (0, 1, 0), "ran no test"),
    ("exit(0)", "exit", (1, 0, 0), ""),
    ("exit(77)", "exit", (0, 1, 0), "exit code 77"),
]


@pytest.mark.parametrize("code, reader, expected, text", CASES)
def test_counts(tmp_path, code, reader, expected, text):
    result = suites.run(script(code, reader), tmp_path)
    assert counts(result) == expected
    assert text in "".join(output for _, output in result.failures)


def test_a_crash_names_the_test_that_was_running(tmp_path):
    assert suites.run(script(CRASH, "gtest"), tmp_path).failures[0][0] == "G.x"


def test_a_summary_names_what_failed(tmp_path):
    code = "print('FAIL  x: y'); print('FAILED z'); print('3 passed, 2 failed, 0 skipped'); exit(1)"
    assert [test for test, _ in suites.run(script(code, "summary"), tmp_path).failures] == ["x: y", "z"]


def test_a_hang_is_ended_and_fails(tmp_path):
    result = suites.run(script("import time; time.sleep(60)", "exit", timeout=0.2), tmp_path)
    assert counts(result) == (0, 1, 0) and "limit" in result.failures[0][1]


def test_a_program_that_was_not_built_fails(tmp_path):
    scope = catalogue.Scope(tmp_path, "release")
    suite = catalogue.program(scope, "s", tmp_path / "nowhere", [], "gtest")
    assert counts(suites.run(suite, tmp_path)) == (0, 1, 0)


def test_what_is_absent_counts_as_skipped(tmp_path):
    assert counts(suites.run(script("exit(1)", "exit", absent="no models here"), tmp_path)) == (0, 0, 1)


def test_models_are_unpacked_once(tmp_path):
    import lzma
    import unpack_models
    for name, data in (("a/model.onnx", b"A"), ("b/model.onnx.xz", lzma.compress(b"B")), ("c/other", b"")):
        (tmp_path / "pack" / name).parent.mkdir(parents=True)
        (tmp_path / "pack" / name).write_bytes(data)
    (tmp_path / "pack" / "b" / "case_0").mkdir()
    for _ in range(2):
        assert unpack_models.unpack(tmp_path / "pack", tmp_path / "out") == 2
    assert (tmp_path / "out/a/model.onnx").read_bytes() == b"A"
    assert (tmp_path / "out/b/model.onnx").read_bytes() == b"B"
    assert (tmp_path / "out/b/case_0").is_dir() and not (tmp_path / "out/b/model.onnx.xz").exists()


def test_a_report_of_an_earlier_run_is_not_read(tmp_path):
    suites.run(script(WRITE_GTEST, "gtest"), tmp_path)
    assert counts(suites.run(script("pass", "gtest"), tmp_path)) == (0, 1, 0)


def test_nothing_selected_is_no_failure_under_a_filter(tmp_path):
    code = "import sys; open(sys.argv[1], 'w').write('<testsuites/>'); sys.exit(5)"
    assert counts(suites.run(script(code, "junit", may_be_empty=True), tmp_path)) == (0, 0, 0)
    assert counts(suites.run(script(code, "junit"), tmp_path)) == (0, 1, 0)


def test_tiers_follow_the_processor(tmp_path):
    info = tmp_path / "cpuinfo"
    for flags, expected in [("fpu", ["scalar"]), ("avx2 fma", ["scalar", "avx2"]), ("avx2", ["scalar"]),
                            ("avx2 fma avx512f avx512bw avx512dq avx512vl", ["scalar", "avx2", "avx512"])]:
        info.write_text(f"flags\t: {flags}\n")
        assert catalogue.machine_tiers(str(info)) == expected


def test_a_room_with_tests_always_has_a_suite(tmp_path):
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake" / "rooms.txt").write_text("base:\nthreading: base\n")
    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src" / "base" / "a_test.cc").touch()
    found = catalogue.unit_suites(catalogue.Scope(tmp_path, "release"))
    assert [s.name for s in found] == ["unit base"] and "was not built" in found[0].missing


def test_targets_are_the_programs_that_the_suites_run(tmp_path):
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake" / "rooms.txt").write_text("base:\nkernels: base\nthreading: base\n")
    for room in ("base", "kernels", "threading"):
        (tmp_path / "src" / room).mkdir(parents=True)
        (tmp_path / "src" / room / "a_test.cc").touch()
    for preset, expected in [("asan-ubsan", ["test_base", "test_kernels", "test_threading"]), ("tsan", ["test_threading"])]:
        scope = catalogue.Scope(tmp_path, preset)
        assert catalogue.targets(scope.build, catalogue.collect(scope)) == expected
