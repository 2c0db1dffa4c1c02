"""Loops, scans and nested branches: allocations and copies of a repeated run, and time a trip beside onnxruntime."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

TRIPS, WIDTH, RUNS = 1000, 16, 40


def _models() -> dict[str, tuple]:
    """By name: nodes and initializers of the graph, its inputs (name, array), its outputs (name, type, shape)."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper
    F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    node, info = helper.make_node, helper.make_tensor_value_info
    half = numpy_helper.from_array(numpy.float32(0.5), "half")
    last = numpy_helper.from_array(numpy.int64(TRIPS - 1), "last")
    x = ("x", numpy.linspace(-1, 1, WIDTH, dtype=numpy.float32))
    xs = ("xs", numpy.linspace(-1, 1, TRIPS * WIDTH, dtype=numpy.float32).reshape(TRIPS, WIDTH))
    trips, yes = ("m", numpy.int64(TRIPS)), ("yes", numpy.bool_(True))
    heads = [info("i", I, []), info("c", B, []), info("s", F, [WIDTH])]
    step = [node("Mul", ["s", "half"], ["t"]), node("Add", ["t", "x"], ["so"])]
    keep = node("Identity", ["c"], ["co"])
    ends = [node("Equal", ["i", "last"], ["done"]), node("Not", ["done"], ["co"])]
    state, flag, piece = info("so", F, [WIDTH]), info("co", B, []), info("z", F, [WIDTH])
    graph = helper.make_graph
    inner = lambda name, op: graph([node(op, ["s"], [name])], name, [], [info(name, F, [WIDTH])])  # noqa: E731
    branch = graph([node("If", ["yes"], ["p"], then_branch=inner("p1", "Neg"), else_branch=inner("p2", "Exp"))], "p",
                   [], [info("p", F, [WIDTH])])
    flips = [node("If", ["yes"], ["so"], then_branch=branch, else_branch=inner("q", "Tanh")), keep]
    counted = graph([*step, keep], "body", heads, [flag, state])
    awaited = graph([*step, *ends], "body", heads, [flag, state])
    stacked = graph([*step, keep, node("Neg", ["so"], ["z"])], "body", heads, [flag, state, piece])
    grown = graph([*step, *ends, node("Neg", ["so"], ["z"])], "body", heads, [flag, state, piece])
    slices = graph([node("Mul", ["s", "half"], ["t"]), node("Add", ["t", "e"], ["so"]), node("Neg", ["so"], ["z"])],
                   "body", [info("s", F, [WIDTH]), info("e", F, [WIDTH])], [state, piece])
    branches = graph(flips, "body", heads, [flag, state])
    y, all_z = ("y", F, [WIDTH]), ("all", F, [None, WIDTH])
    loop = lambda m, body, *z: node("Loop", [m, "yes", "x"], ["y", *z], body=body)  # noqa: E731
    return {
        "Loop": ([loop("m", counted)], [half], [x, trips, yes], [y]),
        "Loop, condition ends it": ([loop("", awaited)], [half, last], [x, yes], [y]),
        "Loop, stacks a known number": ([loop("m", stacked, "all")], [half], [x, trips, yes], [y, all_z]),
        "Loop, stacks until a condition": ([loop("", grown, "all")], [half, last], [x, yes], [y, all_z]),
        "Scan": ([node("Scan", ["x", "xs"], ["y", "all"], body=slices, num_scan_inputs=1)], [half], [x, xs],
                 [y, all_z]),
        "If in If in Loop": ([loop("m", branches)], [], [x, trips, yes], [y]),
    }


def write(name: str, parts: tuple) -> pathlib.Path:
    import numpy
    import onnx
    from onnx import helper
    nodes, constants, inputs, outputs = parts
    folder = figure_models.BUILD / "control" / name.replace(" ", "_").replace(",", "")
    (folder / "case_0").mkdir(parents=True, exist_ok=True)
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(numpy.asarray(v).dtype), v.shape)
             for n, v in inputs]
    made = [helper.make_tensor_value_info(*o) for o in outputs]
    model = helper.make_model(helper.make_graph(nodes, "control", given, made, constants),
                              opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "model.onnx")
    for i, (_, value) in enumerate(inputs):
        numpy.save(folder / "case_0" / f"input_{i}.npy", value)
    return folder


def time_onnxruntime(folder: pathlib.Path) -> dict:
    """In a process of its own, on one thread, inputs bound."""
    import time

    import numpy
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    feeds = {i.name: numpy.load(folder / "case_0" / f"input_{k}.npy") for k, i in enumerate(session.get_inputs())}
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    for o in session.get_outputs():
        binding.bind_output(o.name)
    times = []
    for _ in range(RUNS + 3):
        start = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        times.append(time.perf_counter_ns() - start)
    return {"ns": times[3:], "version": ort.__version__}


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--onnxruntime":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(time_onnxruntime(pathlib.Path(sys.argv[2]))))
        return
    rows, version = [], ""
    for name, parts in _models().items():
        folder = write(name, parts)
        ours, error = figure_models.program("control", folder, RUNS)
        if ours is None:
            sys.exit(f"control: {name}: {error}")
        done = subprocess.run([sys.executable, __file__, "--onnxruntime", str(folder)], check=True,
                              capture_output=True, text=True)
        theirs = json.loads(done.stdout.splitlines()[-1])
        version = theirs["version"]
        mine, peer = statistics.median(ours["ns"]) / TRIPS, statistics.median(theirs["ns"]) / TRIPS
        rows.append({"model": name, "allocations": ours["allocations"], "maps": ours["maps"],
                     "copies": ours["copies"], "copied bytes": ours["copied"], "ns a trip": mine,
                     "onnxruntime": peer, "faster by": peer / mine})
    worst = min(row["faster by"] for row in rows)
    figure_table.show("control", rows, {"trips": TRIPS, "floats a state": WIDTH, "onnxruntime version": version,
                                        "slowest against onnxruntime": worst})


if __name__ == "__main__":
    main()
