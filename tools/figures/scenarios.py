"""Five ways to use a session and what each asks of memory, beside onnxruntime on the same models."""
import ctypes
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

RUNTIMES = {"forethought": "_core.", "onnxruntime": "onnxruntime_pybind11_state."}  # and how their libraries' names begin
THREADS, WARM_UP = 2, 8
CALLS = ROOT / "build" / "release" / "tools" / "libfigure_calls.so"


# --- the models


def write_net(path: pathlib.Path, small_output: bool) -> pathlib.Path:
    """Rows of 256 numbers to rows of 4,096, through five layers as wide; the rows come out, or one number."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    rng = numpy.random.default_rng(5)
    weights = [numpy_helper.from_array(rng.standard_normal((256, 4096), numpy.float32) / 16, "w"),
               numpy_helper.from_array(numpy.array([0], numpy.int64), "axis")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["b"]),
             helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]), helper.make_node("Softmax", ["c"], ["d"]),
             helper.make_node("Transpose", ["d"], ["wide"], perm=[1, 0])]
    output = ("wide", [None, 4096])
    if small_output:
        nodes.append(helper.make_node("ReduceMax", ["wide"], ["small"], keepdims=0))
        output = ("small", [])
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 256])],
                              [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])], weights)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


# --- one scenario of one runtime, in a process of its own


class Meter:
    """Counts what happens between start and stop."""

    def __init__(self, library: str):
        self.library = library.encode()
        self.calls = ctypes.CDLL(str(CALLS))
        self.base = resident()

    def start(self) -> None:
        self.times: list[float] = []
        self.faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.calls.figure_calls_start(self.library)

    def run(self, call) -> object:
        start = time.perf_counter()
        result = call()
        self.times.append((time.perf_counter() - start) * 1e3)
        return result

    def stop(self) -> dict:
        own, helpers = (ctypes.c_int64 * 4)(), (ctypes.c_int64 * 4)()
        self.calls.figure_calls_stop(self.library, own, helpers)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self.faults
        runs = len(self.times)
        return {"runs": runs, "ms": statistics.median(self.times), "faults": faults / runs, "allocations": own[0] / runs,
                "maps": own[2] / runs, "helpers": (helpers[0] + helpers[2]) / runs, "resident": resident() - self.base,
                "peak": highest() - self.base}


def status(key: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def resident() -> int:
    return status("VmRSS")


def highest() -> int:
    return status("VmHWM")


def worker(runtime: str, scenario: str, wide: str, small: str) -> dict:
    import numpy
    package = __import__(runtime)
    options = package.SessionOptions()
    options.intra_op_num_threads = THREADS
    rng = numpy.random.default_rng(9)
    meter = Meter(RUNTIMES[runtime])  # what the packages themselves take is not counted
    session = package.InferenceSession(small if scenario in ("small", "burst") else wide, options,
                                       providers=["CPUExecutionProvider"])
    feeds = {rows: {"x": rng.standard_normal((rows, 256), numpy.float32)} for rows in (16, 64, 100, 256, 1024)}
    shapes = (16, 256, 100, 64) if scenario == "alternating" else (256,)
    shrink = package.RunOptions()
    if runtime == "onnxruntime":
        shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    kept: list = []

    def once(rows: int):
        return session.run(None, feeds[rows])

    for _ in range(WARM_UP):
        for rows in shapes:
            once(rows)
    burst = None
    if scenario == "burst":
        before = resident() - meter.base
        for _ in range(2):
            once(1024)
        after = resident() - meter.base
        if runtime == "onnxruntime":
            session.run(None, feeds[256], shrink)
        else:
            session.trim()
        burst = {"before": before, "after the burst": after, "after trim": resident() - meter.base}
        once(256)
    meter.start()
    for i in range(200):
        result = meter.run(lambda: once(shapes[i % len(shapes)]))
        if scenario == "kept":
            kept.append(result)
        del result
    measured = meter.stop()
    if runtime == "forethought":
        measured["stats"] = session.memory_stats()
    if burst:
        measured["burst"] = burst
    return measured


# --- the figure

SCENARIOS = {
    "dropped": "outputs of 4 MB dropped at once",
    "kept": "200 outputs of 4 MB kept",
    "small": "intermediates of 4 MB, one number out",
    "alternating": "four shapes by turns",
    "burst": "trim after a burst of 4 times the size",
}


def mb(count: int) -> float:
    return count / 1e6


def measure(runtime: str, scenario: str, wide: pathlib.Path, small: pathlib.Path) -> dict:
    argv = [sys.executable, __file__, "--worker", runtime, scenario, str(wide), str(small)]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(CALLS)})
    if done.returncode != 0:
        sys.exit(f"scenarios: {runtime}, {scenario}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        print(json.dumps(worker(*sys.argv[2:])))
        return
    wide = write_net(figure_models.BUILD / "scenarios" / "wide.onnx", False)
    small = write_net(figure_models.BUILD / "scenarios" / "small.onnx", True)
    rows, facts = [], {}
    for scenario, text in SCENARIOS.items():
        for runtime in RUNTIMES:
            m = measure(runtime, scenario, wide, small)
            stats = m.get("stats")  # onnxruntime has none
            rows.append({"scenario": text, "runtime": runtime, "ms": m["ms"], "faults a run": m["faults"],
                         "heap calls a run": m["allocations"], "map calls a run": m["maps"],
                         "helpers' calls a run": m["helpers"], "resident MB": mb(m["resident"]), "highest MB": mb(m["peak"]),
                         "live MB": mb(stats["live"]) if stats else "-", "retained MB": mb(stats["retained"]) if stats else "-",
                         "peak MB": mb(stats["peak"]) if stats else "-"})
            if "burst" in m:
                facts[f"resident MB around the burst, {runtime}"] = ", ".join(f"{k} {mb(v):.1f}" for k, v in m["burst"].items())
    facts["heap and map calls"] = "of the runtime's own library, from Python; helpers are oneDNN, oneTBB and OpenMP"
    facts["resident and highest"] = "of the process, above what it had with the package imported"
    figure_table.show("scenarios", rows, facts)


if __name__ == "__main__":
    main()
