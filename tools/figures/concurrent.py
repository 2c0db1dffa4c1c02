"""Eight threads, 1,000 runs each on one session: equal outputs, throughput beside onnxruntime, waits for locks."""
import argparse
import json
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
sys.path.insert(0, str(ROOT / "tools" / "figures"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

THREADS, RUNS, TURNS = 8, 1000, 4  # each runtime's runs are made in as many turns, by turns
MOST_MS = 10_000  # that one measure is to take: a model whose runs take long gets fewer, as the table shows


def scaled(feeds: dict, thread: int) -> dict:
    """Other floats for each thread, as the C++ side has them."""
    import numpy
    return {n: (v * numpy.float32(1 - thread / 16) if v.dtype == numpy.float32 else v) for n, v in feeds.items()}


def load(runtime: str, folder: pathlib.Path):
    """A call and the feeds of each thread. All settings are the defaults."""
    package = __import__(runtime)
    session = package.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    import numpy
    names = [i.name for i in session.get_inputs()]
    feeds = {name: numpy.load(folder / "case_0" / f"input_{i}.npy") for i, name in enumerate(names)}
    return (lambda f: session.run(None, f)), [scaled(feeds, t) for t in range(THREADS)]


def one_turn(call, feeds: list, expected: list, runs: int) -> tuple[float, int]:
    """Seconds, and how many runs gave other bits than alone."""
    wrong = [0] * THREADS

    def serve(t: int) -> None:
        for _ in range(runs):
            got = call(feeds[t])
            wrong[t] += any(a.tobytes() != b.tobytes() for a, b in zip(got, expected[t], strict=True))

    threads = [threading.Thread(target=serve, args=(t,)) for t in range(THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start, sum(wrong)


def from_python(folder: pathlib.Path, runs: int) -> dict:
    result = {}
    loaded = {}
    for runtime in ("forethought", "onnxruntime"):
        try:
            call, feeds = load(runtime, folder)
            loaded[runtime] = call, feeds, [[o.copy() for o in call(f)] for f in feeds]
            one_turn(*loaded[runtime], 2)
            result[runtime] = {"seconds": 0.0, "wrong": 0}
        except Exception as e:  # a model that a runtime refuses is shown as such
            result[runtime] = {"error": str(e).splitlines()[0]}
    for _ in range(TURNS):
        for runtime, args in loaded.items():
            seconds, wrong = one_turn(*args, runs // TURNS)
            result[runtime]["seconds"] += seconds
            result[runtime]["wrong"] += wrong
    return result


def throughput_row(folder: pathlib.Path, runs: int, facts: dict) -> dict | None:
    probe, error = figure_models.program("concurrent", folder, THREADS, 4)
    if probe is None:
        facts[f"not run: {folder.name}"] = error
        return None
    runs = max(TURNS, min(runs, int(MOST_MS / (probe["ms"] / probe["runs"] * THREADS))))
    row = {"model": folder.name, "runs": THREADS * runs}
    for mode, column in (("run", "C++"), ("async", "C++ async")):
        ours, error = figure_models.program("concurrent", folder, THREADS, runs, mode)
        if ours is None:
            facts[f"not run: {folder.name}"] = error
            return None
        row |= {f"{column} runs/s": ours["runs"] / ours["ms"] * 1e3, f"{column} equal": ours["wrong"] == 0}
        suffix = "" if mode == "run" else " async"
        row |= {f"lock waits{suffix}": ours["lock waits"], f"lock ms{suffix}": ours["lock ms"],
                f"lock share{suffix} %": 100 * ours["lock ms"] / (ours["ms"] * THREADS)}
    done = subprocess.run([sys.executable, __file__, "--python", str(folder), str(runs)], capture_output=True, text=True)
    if done.returncode != 0:
        facts[f"not run from Python: {folder.name}"] = done.stderr.strip().splitlines()[-1]
        return None
    measured = json.loads(done.stdout.splitlines()[-1])
    for runtime, short in (("forethought", "Python"), ("onnxruntime", "ort")):
        m = measured[runtime]
        if "error" in m:
            facts[f"{runtime} does not run {folder.name}"] = m["error"]
            row |= {f"{short} runs/s": float("nan"), f"{short} equal": False}
            continue
        row |= {f"{short} runs/s": THREADS * (runs // TURNS) * TURNS / m["seconds"], f"{short} equal": m["wrong"] == 0}
    row["x ort"] = row["Python runs/s"] / row["ort runs/s"]
    return row


def main() -> None:
    if sys.argv[1:2] == ["--python"]:
        return print(json.dumps(from_python(pathlib.Path(sys.argv[2]), int(sys.argv[3]))))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only models whose name contains this")
    parser.add_argument("--runs", type=int, default=RUNS)
    args = parser.parse_args()
    facts = {"throughput": f"{THREADS} threads on one session, {args.runs} runs each (fewer where a measure would take more "
                           f"than {MOST_MS // 1000} s), inputs of their own; x ort: our runs/s from Python over "
                           "onnxruntime's; lock waits: times that a thread found one of our mutexes "
                           "taken, and how long it waited for them"}
    rows = []
    for folder in figure_models.pack():
        if args.filter in folder.name and (row := throughput_row(folder, args.runs, facts)):
            rows.append(row)
    figure_table.show("concurrent", rows, facts | {
        "equal everywhere": all(v for r in rows for k, v in r.items() if k.endswith("equal")),
        "slower than onnxruntime": ", ".join(r["model"] for r in rows if r["x ort"] < 1) or "none",
        "most of the time that threads waited for locks, %": max((r["lock share %"] for r in rows), default=0),
        "the same of runs behind callers, %": max((r["lock share async %"] for r in rows), default=0)})


if __name__ == "__main__":
    main()
