"""What a test suite is, and how its result is read: GoogleTest's JSON, pytest's JUnit XML, or a closing line."""
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

PYTEST_NOTHING_SELECTED = 5  # its exit code


@dataclasses.dataclass
class Suite:
    name: str
    argv: list[str]
    reader: str  # "gtest", "junit", "summary" (a last line "N passed, N failed, N skipped") or "exit" (one test)
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    timeout: float = 900  # seconds after which the suite is ended and counted as failed
    missing: str = ""  # why the suite cannot run, if it cannot: it then counts as one failure
    absent: str = ""  # why the suite has nothing to run here: it then counts as one skipped test
    may_be_empty: bool = False  # with a filter a suite may have nothing to run


@dataclasses.dataclass
class Result:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    failures: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # (test, output)
    note: str = ""

    def fail(self, test: str, output: str) -> "Result":
        self.failed += 1
        self.failures.append((test, output))
        return self


def run(suite: Suite, report_dir: pathlib.Path) -> Result:
    """Runs one suite to its end. A suite that is missing, crashes or runs nothing is a failure, never silence."""
    result = Result(suite.name)
    if suite.missing:
        return result.fail(suite.name, suite.missing)
    if suite.absent:
        result.skipped, result.note = 1, suite.absent
        return result
    report = report_dir / (re.sub(r"[^\w.-]", "_", suite.name) + ".report")
    report.unlink(missing_ok=True)
    argv = [arg.replace("{report}", str(report)) for arg in suite.argv]
    start = time.monotonic()
    code, output = _spawn(argv, {**os.environ, **suite.env}, suite.timeout)
    result.seconds = time.monotonic() - start
    (report_dir / (report.stem + ".log")).write_text(output)
    try:
        READERS[suite.reader](result, output, report, code)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        if code == 0:
            result.fail(suite.name, f"no readable result ({error})\n{tail(output)}")
    if suite.reader == "junit" and code == PYTEST_NOTHING_SELECTED and suite.may_be_empty:
        code = 0
    if code != 0 and result.failed == 0:
        result.fail(last_started(output) or suite.name, f"{how_it_ended(code, suite.timeout)}\n{tail(output)}")
    if result.passed + result.failed + result.skipped == 0 and not suite.may_be_empty:
        result.fail(suite.name, f"ran no test\n{tail(output)}")
    return result


def _spawn(argv: list[str], env: dict[str, str], timeout: float) -> tuple[int | None, str]:
    """Runs a program in a process group of its own; (exit code or None after a timeout, its output)."""
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return code, output.decode(errors="replace")


def how_it_ended(code: int | None, timeout: float) -> str:
    if code is None:
        return f"ended after its limit of {timeout:.0f} s"
    if code < 0:
        return f"crashed with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def tail(output: str, lines: int = 60) -> str:
    return "\n".join(output.splitlines()[-lines:])


def last_started(output: str) -> str:
    """The GoogleTest test that was running when the program ended, or nothing."""
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    done = re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\S+?)(?:,| \(|$)", output, re.MULTILINE)
    return started[-1] if started and started[-1] not in done else ""


def _read_gtest(result: Result, output: str, report: pathlib.Path, code: int | None) -> None:
    for group in json.loads(report.read_text())["testsuites"]:
        for test in group["testsuite"]:
            name = f"{group['name']}.{test['name']}"
            if test.get("failures"):
                result.fail(name, "\n".join(f["failure"] for f in test["failures"]))
            elif test["status"] == "NOTRUN" or test["result"] == "SKIPPED":
                result.skipped += 1
            else:
                result.passed += 1


def _read_junit(result: Result, output: str, report: pathlib.Path, code: int | None) -> None:
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{test.get('classname')}.{test.get('name')}"
        broken = [e for e in test if e.tag in ("failure", "error")]
        if broken:
            result.fail(name, "\n".join(filter(None, (e.text or e.get("message") for e in broken))))
        elif test.find("skipped") is not None:
            result.skipped += 1
        else:
            result.passed += 1


def _read_summary(result: Result, output: str, report: pathlib.Path, code: int | None) -> None:
    lines = output.strip().splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1] if lines else "")
    if not counts:
        raise ValueError("its last line is no 'N passed, N failed, N skipped'")
    result.passed, failed, result.skipped = map(int, counts.groups())
    named = re.findall(r"^FAIL(?:ED)? +(.*)$", output, re.MULTILINE)
    for name in named[:failed]:  # such a line says all
        result.fail(name, "")
    for i in range(result.failed, failed):
        result.fail(f"{result.name} #{i + 1}", tail(output))


def _read_exit(result: Result, output: str, report: pathlib.Path, code: int | None) -> None:
    result.passed = int(code == 0)
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)  # libFuzzer with -print_final_stats=1
    result.note = f"{int(executed.group(1)):,} executions" if executed else ""


READERS = {"gtest": _read_gtest, "junit": _read_junit, "summary": _read_summary, "exit": _read_exit}
