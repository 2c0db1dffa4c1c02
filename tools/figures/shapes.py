"""Many lengths one after the other: bytes kept, what planning a new shape costs, and first runs beside onnxruntime's."""
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

FOLDER = figure_models.BUILD / "shapes"
MOST, SEED = 4096, 20
RUNTIMES = ("forethought", "onnxruntime")


def toy_decoder(path: pathlib.Path, layers: int = 4, width: int = 32, heads: int = 2, words: int = 97) -> None:
    """A decoder of pre-norm transformer layers over token ids [1, L] with learned positions; seeded weights."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    rng = numpy.random.default_rng(SEED)
    nodes, weights = [], []

    def weight(name: str, *dims: int, scale: float = 0.2):
        weights.append(numpy_helper.from_array(rng.standard_normal(dims).astype(numpy.float32) * numpy.float32(scale), name))
        return name

    def ints(name: str, *values: int):
        weights.append(numpy_helper.from_array(numpy.array(values, numpy.int64), name))
        return name

    def add(op: str, name: str, *inputs: str, **attributes) -> str:
        nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def norm(name: str, x: str) -> str:
        centred = add("Sub", name + ".centred", x, add("ReduceMean", name + ".mean", x, "last"))
        square = add("Mul", name + ".square", centred, centred)
        deviation = add("Sqrt", name + ".deviation", add("Add", name + ".variance", add(
            "ReduceMean", name + ".mean_square", square, "last"), "epsilon"))
        scaled = add("Mul", name + ".scaled", add("Div", name + ".normal", centred, deviation), weight(name + ".w", width, scale=1))
        return add("Add", name, scaled, weight(name + ".b", width))

    def dense(name: str, x: str, a: int, b: int) -> str:
        product = add("MatMul", name + ".product", x, weight(name + ".w", a, b, scale=a ** -0.5))
        return add("Add", name, product, weight(name + ".b", b))

    ints("last", -1)
    weights.append(numpy_helper.from_array(numpy.float32(1e-5), "epsilon"))
    ints("heads", 1, -1, heads, width // heads)
    ints("joined", 1, -1, width)
    length = add("Slice", "length", add("Shape", "ids.shape", "ids"), ints("one", 1), ints("two", 2))
    positions = add("Slice", "positions", weight("position.table", MOST, width), ints("zero", 0), length)
    x = add("Add", "embedded", add("Gather", "words", weight("word.table", words, width), "ids"), positions)
    weights.append(numpy_helper.from_array(numpy.float32((width // heads) ** -0.5), "scale"))
    for layer in range(layers):
        at = f"layer{layer}."
        h = norm(at + "norm1", x)
        parts = []
        for part, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
            split = add("Reshape", at + part + ".heads", dense(at + part, h, width, width), "heads")
            parts.append(add("Transpose", at + part + ".turned", split, perm=order))
        scores = add("Mul", at + "scaled", add("MatMul", at + "scores", parts[0], parts[1]), "scale")
        mixed = add("MatMul", at + "mixed", add("Softmax", at + "weights", scores, axis=-1), parts[2])
        joined = add("Reshape", at + "joined", add("Transpose", at + "turned", mixed, perm=(0, 2, 1, 3)), "joined")
        x = add("Add", at + "attended", x, dense(at + "out", joined, width, width))
        hidden = add("Relu", at + "relu", dense(at + "up", norm(at + "norm2", x), width, 2 * width))
        x = add("Add", at + "x", x, dense(at + "down", hidden, 2 * width, width))
    logits = add("MatMul", "logits", norm("end", x), weight("head", width, words))
    graph = helper.make_graph(nodes, "toy_decoder", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "L"])],
                              [helper.make_tensor_value_info(logits, TensorProto.FLOAT, [1, "L", words])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def lengths(count: int, least: int = 1) -> list[int]:
    import numpy
    return [int(n) for n in numpy.random.default_rng(SEED).integers(least, MOST + 1, count)]


def feeds(session, length: int) -> dict:
    """As figure_shapes makes them: a length for every symbol, but 1 for a batch."""
    import numpy
    made = {}
    for a in session.get_inputs():
        dims = [d if isinstance(d, int) else 1 if i == 0 and len(a.shape) == 4 else length for i, d in enumerate(a.shape)]
        i = numpy.arange(math.prod(dims))
        value = (i * 7 % 97).astype(numpy.int64) if "int64" in a.type else numpy.sin(i.astype(numpy.float32))
        made[a.name] = value.reshape(dims)
    return made


def resident() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def walk(runtime: str, model: str, file: str, threads: int) -> dict:
    """One runtime through all lengths: resident MiB above that of the loaded model, and ms of first runs."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    package = __import__(runtime)
    options = package.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = package.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    todo = [int(n) for n in pathlib.Path(file).read_text().split()]
    session.run(None, feeds(session, min(todo)))
    start, most, seen, first, again = resident(), 0, set(), [], []
    warm = 0
    for i, length in enumerate(todo):
        given = feeds(session, length)
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            session.run(None, given)
            times.append((time.perf_counter() - begin) * 1e3)
        if length not in seen:
            first.append(times[0])
            again.append(times[1])
        seen.add(length)
        most = max(most, resident())
        if i == len(todo) // 5:
            warm = most
    return {"first": first, "again": again, "MiB": (resident() - start) / 2**20, "most MiB": (most - start) / 2**20,
            "warm MiB": (warm - start) / 2**20}


def peer_row(model: pathlib.Path, file: pathlib.Path, threads: int, runtime: str) -> dict | None:
    argv = [sys.executable, __file__, "--walk", runtime, str(model), str(file), str(threads)]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    w = json.loads(done.stdout.splitlines()[-1])
    extra = [a - b for a, b in zip(w["first"], w["again"], strict=True)]
    return {"first ms": statistics.median(w["first"]), "again ms": statistics.median(w["again"]),
            "extra ms": statistics.median(extra), "MiB after warm-up": w["warm MiB"], "MiB at most": w["most MiB"],
            "MiB at the end": w["MiB"]}


def main() -> None:
    if sys.argv[1:2] == ["--walk"]:
        return print(json.dumps(walk(*sys.argv[2:5], int(sys.argv[5]))))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only models whose name contains this")
    parser.add_argument("--count", type=int, default=1000, help="lengths")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    decoder = FOLDER / "toy_decoder.onnx"
    toy_decoder(decoder)
    models = [(decoder, 1)] + [(folder / "model.onnx", 8) for folder in figure_models.demo()]
    rows, facts = [], {"columns": "ms of a first run at a length and of the same again (medians), what the first cost more; "
                                  "resident MiB above that after load and one run; each runtime in a process of its own"}
    for model, least in models:
        name = model.stem if model.stem != "model" else model.parent.name
        if args.filter not in name:
            continue
        file = FOLDER / f"{name}.lengths.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(map(str, lengths(args.count, least))))
        ours, error = figure_models.program("shapes", model, file, args.threads)
        if ours is None:
            facts[f"not run: {name}"] = error
            continue
        facts |= {f"{name}: {key}": value for key, value in summary(ours).items()}
        for runtime in RUNTIMES:
            if row := peer_row(model, file, args.threads, runtime):
                rows.append({"model": name, "runtime": runtime} | row)
    figure_table.show("shapes", rows, facts)


def summary(m: dict) -> dict:
    def spread(q: dict) -> str:
        return f"p50 {q['p50']:.3f}, p99 {q['p99']:.3f}, max {q['max']:.3f}"

    def of(kept: int, most: int) -> str:
        return f"{kept:,} of {most:,} ({kept / max(1, most):.3f}x)"
    grown = m["kept"] - m["kept after warm-up"] - max(0, m["largest plan"] - m["largest plan at warm-up"])
    return {"lengths, different": f"{m['lengths']:,}, {m['different']:,}", "graph values": m["values"],
            "bytes kept, of the largest single plan": of(m["kept"], m["largest plan"]),
            "bytes that grew after warm-up beyond a larger plan": max(0, grown),
            "bytes that the I/O arena keeps, of the largest outputs of a run": of(m["kept by the I/O arena"], m["largest outputs"]),
            "heap and page calls of ours in a repeated shape": m["calls of a repeated shape"],
            "heap and page calls of ours in one turn of eight shapes, each seen seven others ago": m["calls of shapes by turns"],
            "ms to plan a new shape": spread(m["planning ms"]),
            "ms to plan a new shape, per 1,000 values": spread(m["planning ms per 1000 values"]),
            "ms to make its kernel instances": spread(m["instances ms"]),
            "ms of its first run": spread(m["first run ms"]),
            "page faults of its first run": "p50 {p50:,.0f}, p99 {p99:,.0f}, max {max:,.0f}".format(**m["first run page faults"]),
            "steps": ", ".join(f"{k} {v:,}" for k, v in m["steps"].items()),
            "plans": ", ".join(f"{k} {v:,}" for k, v in m["plans"].items()),
            "instances": ", ".join(f"{k} {v:,}" for k, v in m["instances"].items())}


if __name__ == "__main__":
    main()
