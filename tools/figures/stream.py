"""A model several times larger than its memory limit: weights resident, unpacked, streamed and packed on disk, beside onnxruntime."""
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

LAYERS, SIZE, ROWS, THREADS = 64, 1024, 64, 2
LIMIT = 32 << 20
ROUNDS = 2  # processes a way, by turns


def write_model(folder: pathlib.Path) -> pathlib.Path:
    """x: f32[64,1024] through 64 products with a weight of 4 MiB each, 256 MiB in a file of external data."""
    import numpy
    import onnx
    from onnx import TensorProto, helper
    path = folder / "model.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(5)
    weights, nodes, x, size = [], [], "x", SIZE * SIZE * 4
    with open(folder / "model.data", "wb") as data:
        for i in range(LAYERS):
            data.write((rng.standard_normal((SIZE, SIZE), numpy.float32) * 0.045).tobytes())
            w = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "model.data"), ("offset", str(i * size)), ("length", str(size))):
                w.external_data.add(key=key, value=value)
            weights.append(w)
            nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
            x = f"r{i}"
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, SIZE])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, [ROWS, SIZE])], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


# Of each: the runtime, its config entries, and its limit.
PACKS = "session.packed_weights_path"
WAYS = {
    "resident": ("forethought", {"session.weights": "resident"}, 0),
    "resident, unpacked": ("forethought", {"session.weights": "resident", "session.disable_prepacking": "1"}, 0),
    "streamed, unpacked": ("forethought", {}, LIMIT),
    "streamed, packing to disk": ("forethought", {PACKS: "new"}, LIMIT),
    "streamed, packed on disk": ("forethought", {PACKS: "kept"}, LIMIT),
    "resident, packed on disk": ("forethought", {PACKS: "kept", "session.weights": "resident"}, 0),
    "onnxruntime": ("onnxruntime", {}, 0),
    "onnxruntime, unpacked": ("onnxruntime", {"session.disable_prepacking": "1"}, 0),
}


# --- one way, in a process of its own


def status(key: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def forget_peak() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def worker(way: str, model: str, packs: str) -> dict:
    import numpy
    runtime, config, limit = WAYS[way]
    package = __import__(runtime)
    options = package.SessionOptions()
    options.intra_op_num_threads = THREADS
    if limit:
        options.memory_limit = limit
    for key, value in config.items():
        options.add_session_config_entry(key, f"{packs}/{value}" if key == PACKS else value)
    x = {"x": numpy.random.default_rng(9).standard_normal((ROWS, SIZE), numpy.float32)}
    base = status("VmRSS")
    forget_peak()
    start = time.perf_counter()
    session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    out = {"load": (time.perf_counter() - start) * 1e3, "load peak": status("VmHWM") - base, "loaded": status("VmRSS") - base}
    start = time.perf_counter()
    y = session.run(None, x)[0]
    out["first run"] = (time.perf_counter() - start) * 1e3
    forget_peak()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        y = session.run(None, x)[0]
        times.append((time.perf_counter() - start) * 1e3)
    out["run"] = statistics.median(times)
    out["run peak"] = status("VmHWM") - base
    out["sum"] = float(numpy.abs(y).sum())
    if runtime == "forethought":
        out["window"] = session.summary()["weights_window"]
        out["accounted"] = session.memory_stats()["peak"]
        out["reason"] = session.memory_report()["weights"]
    return out


# --- the figure


def measure(way: str, model: pathlib.Path, packs: pathlib.Path) -> dict:
    if WAYS[way][1].get(PACKS) == "new":
        shutil.rmtree(packs / "new", ignore_errors=True)
    done = subprocess.run([sys.executable, __file__, "--worker", way, str(model), str(packs)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"stream: {way}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        print(json.dumps(worker(*sys.argv[2:])))
        return
    folder = figure_models.BUILD / "stream"
    model = write_model(folder)
    packs = folder / "packs"
    shutil.rmtree(packs, ignore_errors=True)
    packs.mkdir()
    measure("streamed, packed on disk", model, packs)  # packs once
    measured: dict[str, list[dict]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            measured[way].append(measure(way, model, packs))
    rows = []
    for way, all_rounds in measured.items():
        middle = {key: statistics.median(m[key] for m in all_rounds)
                  for key in ("load", "load peak", "loaded", "first run", "run", "run peak")}
        last = all_rounds[-1]
        rows.append({"weights": way, "load ms": middle["load"], "first run ms": middle["first run"], "run ms": middle["run"],
                     "highest MB at load": middle["load peak"] / 1e6, "MB after it": middle["loaded"] / 1e6,
                     "highest MB in runs": middle["run peak"] / 1e6,
                     "accounted MB": last["accounted"] / 1e6 if "accounted" in last else "-",
                     "window MB": last["window"] / 1e6 if "window" in last else "-"})
    shutil.rmtree(packs)
    runs = {row["weights"]: row["run ms"] for row in rows}
    ours = {way: [m["sum"] for m in all_rounds] for way, all_rounds in measured.items() if not way.startswith("onnxruntime")}
    one = next(iter(ours.values()))[0]
    facts = {"model": f"{LAYERS} products of {ROWS} rows with {SIZE * SIZE * 4 / 2**20:.0f} MiB each, "
                      f"{LAYERS * SIZE * SIZE * 4 / 2**20:.0f} MiB of weights; limit where streamed: {LIMIT / 2**20:.0f} MiB",
             "same sums in all ways": all(s == one for sums in ours.values() for s in sums),
             "how, under the limit": measured["streamed, unpacked"][-1]["reason"],
             "losses": ", ".join(f"{way}: {ms / runs['onnxruntime']:.2f} of onnxruntime's time" for way, ms in runs.items()
                                 if not way.startswith("onnxruntime") and ms > runs["onnxruntime"]) or "none",
             "megabytes": "resident memory of the process above what it had with the package imported; pages of files count"
                          " while they are mapped in, although the system may take them back at any time",
             "cold files": "not shown: the files are in the page cache; from a disk, what is streamed is read at each run"}
    figure_table.show("stream", rows, facts)


if __name__ == "__main__":
    main()
