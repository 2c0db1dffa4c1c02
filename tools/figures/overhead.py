"""Time that a node and a run cost beside the arithmetic: a chain of 1,000 small adds, and a model of one node."""
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

NODES, BLOCKS = 1000, 15


def write_chain(path: pathlib.Path, nodes: int, width: int) -> pathlib.Path:
    """y = x + b + b + …, each Add a node of its own."""
    import onnx
    from onnx import TensorProto, helper
    names = ["x"] + [f"v{i}" for i in range(1, nodes)] + ["y"]
    chain = [helper.make_node("Add", [names[i], "b"], [names[i + 1]], f"add{i}") for i in range(nodes)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [width])  # noqa: E731
    graph = helper.make_graph(chain, "chain", [value("x"), value("b")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def time_onnxruntime(path: str, runs: int) -> dict:
    """In a process of its own, on one core; every optimisation off, inputs and outputs bound."""
    import time

    import numpy
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for i in session.get_inputs():
        binding.bind_ortvalue_input(i.name, ort.OrtValue.ortvalue_from_numpy(numpy.ones(i.shape, numpy.float32)))
    for o in session.get_outputs():
        binding.bind_ortvalue_output(o.name, ort.OrtValue.ortvalue_from_numpy(numpy.ones(o.shape, numpy.float32)))
    blocks = []
    for block in range(BLOCKS + 1):
        time.sleep(0.02)
        start = time.perf_counter_ns()
        for _ in range(runs):
            session.run_with_iobinding(binding)
        blocks.append((time.perf_counter_ns() - start) / runs)
    return {"ns": blocks[1:]}


def row(what: str, runtime: str, ns: list[float], per: int) -> dict:
    return {"what": what, "runtime": runtime, "min ns": min(ns) / per, "median ns": statistics.median(ns) / per}


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--onnxruntime":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(time_onnxruntime(sys.argv[2], int(sys.argv[3]))))
        return
    chain = write_chain(figure_models.BUILD / "chain.onnx", NODES, 16)
    single = write_chain(figure_models.BUILD / "single.onnx", 1, 1)
    rows = []
    for what, path, runs, per in ((f"a node of {NODES:,} adds of 16 floats", chain, 200, NODES),
                                  ("a run of one node, values bound", single, 20000, 1)):
        ours, error = figure_models.program("overhead", path, BLOCKS, runs)
        if ours is None:
            sys.exit(f"overhead: {error}")
        rows.append(row(what, "forethought", ours["ns"], per))
        done = subprocess.run([sys.executable, __file__, "--onnxruntime", str(path), str(runs)], check=True,
                              capture_output=True, text=True)
        rows.append(row(what, "onnxruntime", json.loads(done.stdout)["ns"], per))
    figure_table.show("overhead", rows, {"note": "ours from C++, onnxruntime from Python with bound values: a few "
                                                 "microseconds a run are Python's"})


if __name__ == "__main__":
    main()
