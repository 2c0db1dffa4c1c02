"""The models that figures measure, each a folder with model.onnx and case_0/input_I.npy, and the programs they run."""
import json
import os
import pathlib
import subprocess

import unpack_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "build" / "cases"
PACK = ROOT.parent / "shared" / "models"
BUILD = ROOT / "build" / "figures"
LAYOUT = 2  # to be raised when what this module writes changes


def light_files() -> list[pathlib.Path]:
    """The nine light models of the onnx package as they are: their weights are constant fills."""
    return sorted((CASES / "light").glob("*.onnx"))


def short(path: pathlib.Path) -> str:
    return path.stem.removeprefix("light_").removeprefix("bvlc_")


def _roles(graph) -> dict[str, tuple[str, int]]:
    """For each value: the operator and input slot that reads it, looking through views; ends of residual branches
    (a BatchNormalization before a Sum) and of the net (before Softmax) are told apart."""
    readers = {}
    for node in reversed(graph.node):
        after = readers.get(node.output[0], ("", 0))
        for slot, name in enumerate(node.input):
            if node.op_type in ("Unsqueeze", "Reshape"):
                readers[name] = after
            elif (node.op_type, after[0]) in (("BatchNormalization", "Sum"), ("Gemm", "Softmax")):
                readers[name] = (f"{node.op_type} before {after[0]}", slot)
            else:
                readers[name] = (node.op_type, slot)
    return readers


def _weights(rng, role: tuple[str, int], dims: list[int]):
    """Values that keep activations of a deep net near 1, and its logits, as trained ones do: a Softmax of large logits
    is 0 and 1 whatever the net computes."""
    import numpy
    op, slot = role
    if role == ("BatchNormalization before Sum", 1):
        return rng.uniform(0.1, 0.3, dims).astype(numpy.float32)
    op, _, after = op.partition(" before ")
    if op in ("Conv", "Gemm") and slot == 1:
        fan_in = numpy.prod(dims[1:]) if op == "Conv" else dims[-1]
        depthwise = op == "Conv" and dims[1] == 1  # no Relu that halves the variance follows these
        gain = 0.2 if after == "Softmax" else 0.7 if depthwise else 1.0
        return rng.standard_normal(dims, numpy.float32) * numpy.float32(gain * (2.0 / fan_in) ** 0.5)
    if (op, slot) in (("BatchNormalization", 1), ("BatchNormalization", 4)) or op == "Mul":
        return rng.uniform(0.7, 1.3, dims).astype(numpy.float32)
    return rng.standard_normal(dims, numpy.float32) * numpy.float32(0.05)


def randomize(source: pathlib.Path, folder: pathlib.Path, seed: int) -> None:
    """Writes the light model with seeded random weights in place of its constant fills, and a random input."""
    import numpy
    import onnx
    from onnx import numpy_helper
    rng = numpy.random.default_rng(seed)
    model = onnx.load(source)
    graph = model.graph
    roles = _roles(graph)
    given = {init.name: init for init in graph.initializer}
    kept, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        dims = [int(d) for d in numpy_helper.to_array(given[node.input[0]])]
        values = _weights(rng, roles.get(node.output[0], ("", 0)), dims)
        weights.append(numpy_helper.from_array(values, node.output[0]))
    read = {name for node in kept for name in node.input}
    initializers = [init for init in graph.initializer if init.name in read] + weights
    feeds = [info for info in graph.input if info.name not in given]
    for field, items in (("node", kept), ("initializer", initializers), ("input", feeds)):
        del getattr(graph, field)[:]
        getattr(graph, field).extend(items)
    model.ir_version = max(model.ir_version, 4)  # from here on constants need not be inputs
    case = folder / "case_0"
    case.mkdir(parents=True, exist_ok=True)
    for i, info in enumerate(feeds):
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        numpy.save(case / f"input_{i}.npy", rng.standard_normal(shape, numpy.float32))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def random_light() -> list[pathlib.Path]:
    """Folders of the light models with random weights: about 1.4 GB under build/figures, made once."""
    folders = []
    for seed, source in enumerate(light_files()):
        folder = BUILD / "light" / short(source)
        stamp = folder / "stamp.txt"
        wanted = f"{LAYOUT} {source.stat().st_size}"
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"Writing {folder.relative_to(ROOT)}", flush=True)
            randomize(source, folder, seed)
            stamp.write_text(wanted)
        folders.append(folder)
    return folders


def pack() -> list[pathlib.Path]:
    """Folders of the pack of real models; none where ../shared/models does not exist."""
    folder = ROOT / "build" / "models"
    if PACK.is_dir():
        unpack_models.unpack(PACK, folder)
    return sorted(p.parent for p in folder.glob("*/model.onnx"))


def demo() -> list[pathlib.Path]:
    """The demo's text recogniser with a random line of 320 pixels; none where ./dev demo has not fetched it."""
    import numpy
    source = ROOT / "build" / "demo" / "PP-OCRv6_rec_small.onnx"
    if not source.exists():
        return []
    folder = BUILD / "demo" / source.stem
    (folder / "case_0").mkdir(parents=True, exist_ok=True)
    model = folder / "model.onnx"
    if not model.exists():
        model.symlink_to(source)
        rng = numpy.random.default_rng(1)
        numpy.save(folder / "case_0" / "input_0.npy", rng.uniform(-1, 1, (1, 3, 48, 320)).astype(numpy.float32))
    return [folder]


def program(name: str, *args, env: dict | None = None) -> tuple[dict | None, str]:
    """Runs build/release/tools/figure_NAME; (its JSON, what it said on standard error), or (None, the error)."""
    argv = [str(ROOT / "build" / "release" / "tools" / f"figure_{name}"), *map(str, args)]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        return None, (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
