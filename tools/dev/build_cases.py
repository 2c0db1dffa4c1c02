"""Builds the ONNX backend test cases from the installed onnx package: FOLDER/{node,simple,...}/test_x with all its data."""
import argparse
import fcntl
import json
import pathlib
import shutil
import sys
import tempfile
import time
import warnings

# Counts of the pinned release: a package that builds another set is noticed here, not by a shrinking test count.
EXPECTED = {"node": 1884, "pytorch-converted": 82, "pytorch-operator": 35, "simple": 23, "real": 9}
LAYOUT = 2  # to be raised when what this script writes changes


def to_proto(value, value_info):
    """The bare TensorProto, SequenceProto or OptionalProto that a graph's declared type calls for."""
    import onnx
    from onnx import numpy_helper
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    make = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
            "tensor_type": numpy_helper.from_array}[value_info.type.WhichOneof("value")]
    return make(value, value_info.name)


def write_case(folder: pathlib.Path, model: bytes, inputs: list, outputs: list) -> None:
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model)
    for kind, protos in (("input", inputs), ("output", outputs)):
        for i, proto in enumerate(protos):
            (data / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())


def build_node_cases(target: pathlib.Path) -> None:
    import onnx.backend.test.case.node
    for case in onnx.backend.test.case.node.collect_testcases(None):
        (inputs, outputs), = case.data_sets
        graph = case.model.graph
        write_case(target / case.name, case.model.SerializeToString(),
                   [to_proto(v, info) for v, info in zip(inputs, graph.input, strict=True)],
                   [to_proto(v, info) for v, info in zip(outputs, graph.output, strict=True)])


def build_real_case(light: pathlib.Path, source: pathlib.Path, target: pathlib.Path) -> None:
    """A light model (its weights are ConstantOfShape), its input arange(n) / n, its stored output."""
    import numpy
    import onnx
    from onnx import numpy_helper
    facts = json.loads((source / "data.json").read_text())
    name = pathlib.PurePosixPath(facts["url"]).stem
    model = (light / f"{name}.onnx").read_bytes()
    graph = onnx.load_from_string(model).graph
    given = {init.name for init in graph.initializer}
    inputs = []
    for info in graph.input:
        if info.name not in given:
            shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
            count = numpy.prod(shape)
            array = (numpy.arange(count).reshape(shape) / count).astype(numpy.float32)
            inputs.append(numpy_helper.from_array(array, info.name))
    output = onnx.TensorProto.FromString((light / f"{name}_output_0.pb").read_bytes())
    write_case(target, model, inputs, [output])
    (target / "tolerance.json").write_text(json.dumps({"rtol": facts["rtol"], "atol": facts["atol"]}) + "\n")


def build(target: pathlib.Path) -> None:
    import onnx.backend.test
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("light", "pytorch-converted", "pytorch-operator", "simple"):
        shutil.copytree(data / kind, target / kind, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for source in sorted((data / "real").iterdir()):
        if (source / "data.json").exists():
            build_real_case(data / "light", source, target / "real" / source.name)
    build_node_cases(target / "node")
    for kind, expected in EXPECTED.items():
        found = sum(1 for d in (target / kind).iterdir() if d.is_dir())
        if found != expected:
            sys.exit(f"build_cases: the onnx package gives {found} {kind} cases where {expected} are expected")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where the cases go; replaced as a whole")
    target = parser.parse_args().folder.absolute()
    from importlib.metadata import version
    stamp = f"onnx {version('onnx')}, numpy {version('numpy')}, layout {LAYOUT}\n"
    stamp_file = target / "stamp.txt"
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return
    print(f"==> Building the ONNX backend cases in {target.name}/", flush=True)
    start = time.monotonic()
    warnings.simplefilter("ignore")  # numpy warns of the overflows and NaNs that some cases are about
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            fresh.chmod(0o755)
            build(fresh)
            (fresh / "stamp.txt").write_text(stamp)
            shutil.rmtree(target, ignore_errors=True)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    print(f"    {sum(EXPECTED.values())} cases in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
