"""Runs every test suite of the project, or those that a filter names, and ends with 'N passed, N failed, N skipped'."""
import argparse
import concurrent.futures
import os
import pathlib
import sys
import threading

import catalogue
import suites

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Progress:
    """One line for each finished suite; on a terminal also a line that says what is running now."""

    def __init__(self, total: int):
        self.total, self.done, self.running = total, 0, []
        self.live = sys.stdout.isatty()
        self.lock = threading.Lock()

    def _show_running(self) -> None:
        if self.live:
            text = f"  [{self.done}/{self.total}] running: {', '.join(self.running)}"
            print(f"\r\033[K{text[:os.get_terminal_size().columns - 1]}", end="", flush=True)

    def start(self, name: str) -> None:
        with self.lock:
            self.running.append(name)
            self._show_running()

    def finish(self, r: suites.Result) -> None:
        with self.lock:
            self.running.remove(r.name)
            self.done += 1
            note = f"  ({r.note})" if r.note else ""
            word = "FAILED" if r.failed else "ok"
            counts = f"{r.passed} passed, {r.failed} failed, {r.skipped} skipped"
            clear = "\r\033[K" if self.live else ""
            if r.passed + r.failed + r.skipped:  # a filter may have left a suite nothing to run
                print(f"{clear}  {word:6} {r.name}: {counts}, {r.seconds:.1f} s{note}", flush=True)
            if self.running:
                self._show_running()


def run_all(wanted: list[suites.Suite], jobs: int, report_dir: pathlib.Path) -> list[suites.Result]:
    progress = Progress(len(wanted))

    def one(suite: suites.Suite) -> suites.Result:
        progress.start(suite.name)
        result = suites.run(suite, report_dir)
        progress.finish(result)
        return result

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, wanted))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only suites and tests whose name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="suites that run at once")
    parser.add_argument("--preset", default="release", help="the build to test")
    parser.add_argument("--list", action="store_true", help="name the suites and run nothing")
    parser.add_argument("--targets", action="store_true", help="name the programs of the build that they run, and run nothing")
    args = parser.parse_args()

    wanted = catalogue.collect(catalogue.Scope(ROOT, args.preset, args.filter))
    if args.list:
        print("\n".join(s.name + (f"  (missing: {s.missing})" if s.missing else "") for s in wanted))
        return 0
    if args.targets:
        print("\n".join(catalogue.targets(ROOT / "build" / args.preset, wanted)))
        return 0
    report_dir = ROOT / "build" / args.preset / "reports"
    report_dir.mkdir(parents=True, exist_ok=True)
    results = run_all(wanted, max(1, args.jobs), report_dir)

    passed, failed, skipped = (sum(getattr(r, k) for r in results) for k in ("passed", "failed", "skipped"))
    for r in results:
        for test, output in r.failures:
            name = r.name if test == r.name else f"{r.name}: {test}"
            print(f"FAILED {name}" + (f"\n{output.rstrip()}\n" if output else ""))
    if args.filter and passed + failed + skipped == 0:
        print(f"no suite and no test has '{args.filter}' in its name")
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
