"""Speed, load time and memory of real and light models beside onnxruntime and OpenVINO, losses included."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

RUNTIMES = {"forethought": "ours", "onnxruntime": "ort", "openvino": "ov"}  # and their names in the table
PEERS = ("onnxruntime", "openvino")
ROUNDS, PAUSE, BLOCK, WARM_UP = 5, 0.15, 0.25, 2  # idle threads of a runtime that has just run spin through the pause


def pin(threads: int) -> None:
    """Before any runtime is imported: they count the cores that they may use when they load."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        sys.exit(f"only {len(cores)} cores may be used here")
    os.sched_setaffinity(0, set(cores[:threads]))


def load(runtime: str, model: str, threads: int):
    """A function from feeds by name to outputs, and the names of the inputs to feed. Speed settings are the defaults."""
    if runtime == "openvino":
        import openvino
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                    "INFERENCE_PRECISION_HINT": "f32"}  # as the others: no arithmetic in a smaller type
        request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
        names = [i.get_any_name() for i in request.model_inputs]
        return (lambda feeds: list(request.infer(feeds, share_inputs=True, share_outputs=True).values())), names
    package = __import__(runtime)
    options = package.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return (lambda feeds: session.run(None, feeds)), [i.name for i in session.get_inputs()]


def feeds_of(folder: pathlib.Path, names: list[str]) -> dict:
    import numpy
    return {name: numpy.load(folder / "case_0" / f"input_{i}.npy") for i, name in enumerate(names)}


def difference(got: list, expected: list) -> float:
    """The largest difference of any output, over that output's largest value."""
    import numpy
    return max((float(numpy.abs(numpy.asarray(a, float) - numpy.asarray(b, float)).max() /
                      (numpy.abs(numpy.asarray(b, float)).max() or 1)) for a, b in zip(got, expected, strict=True)
                if a.size), default=0.0)


def time_all(folder: pathlib.Path, threads: int) -> dict:
    """Milliseconds of a run in each runtime, in short blocks by turns."""
    pin(threads)
    calls, errors, outputs, times = {}, {}, {}, {r: [] for r in RUNTIMES}
    for runtime in RUNTIMES:
        try:
            call, names = load(runtime, str(folder / "model.onnx"), threads)
            feeds = feeds_of(folder, names)
            outputs[runtime] = [o.copy() for o in call(feeds)]
            for _ in range(WARM_UP):
                call(feeds)
            calls[runtime] = (call, feeds)
        except Exception as e:  # a model that a runtime refuses is shown as such
            errors[runtime] = str(e).splitlines()[0] if str(e) else type(e).__name__
    for _ in range(ROUNDS):
        for runtime, (call, feeds) in calls.items():
            time.sleep(PAUSE)
            end = time.perf_counter() + BLOCK
            while True:
                start = time.perf_counter()
                call(feeds)
                now = time.perf_counter()
                times[runtime].append((now - start) * 1e3)
                if now >= end:
                    break
    differs = {r: difference(outputs[r], outputs["onnxruntime"]) for r in outputs if "onnxruntime" in outputs}
    return {"times": times, "errors": errors, "differs": differs}


def weigh(folder: pathlib.Path, threads: int, runtime: str) -> dict:
    """Milliseconds to load, and the most memory above that of the imported package, over load and two runs."""
    import resource
    pin(threads)
    import numpy  # noqa: F401
    __import__(runtime)
    before = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    start = time.perf_counter()
    call, names = load(runtime, str(folder / "model.onnx"), threads)
    loaded = time.perf_counter()
    feeds = feeds_of(folder, names)
    call(feeds)
    call(feeds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"load": (loaded - start) * 1e3, "MiB": (peak - before) / 2**20}


def child(*args) -> dict | None:
    done = subprocess.run([sys.executable, __file__, *map(str, args)], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def row_of(folder: pathlib.Path, threads: int, facts: dict) -> dict | None:
    timed = child("--time", folder, threads)
    if timed is None or "forethought" in timed["errors"]:
        facts[f"not run: {folder.name}"] = timed["errors"]["forethought"] if timed else f"no {threads} cores"
        return None
    for runtime, error in timed["errors"].items():
        facts[f"{runtime} does not run {folder.name}"] = error
    row = {"model": folder.name, "threads": threads}
    for runtime, short in RUNTIMES.items():
        ms = timed["times"][runtime] or [math.nan]
        row |= {f"{short} min": min(ms), f"{short} median": statistics.median(ms)}
    for peer in PEERS:
        row[f"x {RUNTIMES[peer]}"] = row[f"{RUNTIMES[peer]} min"] / row["ours min"]
    for runtime, short in RUNTIMES.items():
        weight = child("--weigh", folder, threads, runtime) or {"load": math.nan, "MiB": math.nan}
        row |= {f"{short} {key}": value for key, value in weight.items()}
    row["differs"] = f"{timed['differs'].get('forethought', math.nan):.1e}"
    return row


def summarise(rows: list[dict], convolution_nets: set[str], facts: dict) -> None:
    for peer in PEERS:
        for threads in sorted({r["threads"] for r in rows}):
            for title, chosen in (("all models", rows),
                                  ("the light models", [r for r in rows if r["model"] in convolution_nets])):
                ratios = {r["model"]: r[f"x {RUNTIMES[peer]}"] for r in chosen
                          if r["threads"] == threads and not math.isnan(r[f"x {RUNTIMES[peer]}"])}
                if not ratios:
                    continue
                mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
                worst = min(ratios, key=ratios.get)
                facts[f"{peer}'s time over ours, {threads} threads, {title}"] = \
                    f"geometric mean {mean:.3f}, worst {ratios[worst]:.3f} ({worst})"
            lost = sorted(r["model"] for r in rows if r["threads"] == threads and r[f"x {RUNTIMES[peer]}"] < 1)
            facts[f"slower than {peer}, {threads} threads"] = ", ".join(lost) or "none"


def main() -> None:
    if sys.argv[1:2] == ["--time"]:
        return print(json.dumps(time_all(pathlib.Path(sys.argv[2]), int(sys.argv[3]))))
    if sys.argv[1:2] == ["--weigh"]:
        return print(json.dumps(weigh(pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only models whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    light = figure_models.random_light()
    folders = [f for f in light + figure_models.pack() + figure_models.demo() if args.filter in f.name]
    rows, facts = [], {"columns": "ms of a run from Python (minimum, median); x: the peer's minimum over ours, so that above "
                                  "1 we are faster; load ms; peak MiB above the imported package; largest difference "
                                  "from onnxruntime's result, relative to its largest value"}
    for folder in folders:
        for threads in args.threads:
            if row := row_of(folder, threads, facts):
                rows.append(row)
    summarise(rows, {f.name for f in light}, facts)
    figure_table.show("peers", rows, facts)


if __name__ == "__main__":
    main()
