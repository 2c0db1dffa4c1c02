"""Compares our shape and type inference with onnx's own (strict, with data propagation) over the ONNX backend cases.

Never contradictory; where ours says less, the value is listed in inference_weaker.txt, which this keeps honest:
`inference_test.py --write` writes it anew.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import pytest

onnx = pytest.importorskip("onnx")

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release"))
TOOL = BUILD / "tools" / "forethought"
CASES = ROOT / "build" / "cases"
LIST = ROOT / "tests" / "inference_weaker.txt"

NAME = r'%("(?:[^"\\]|\\.)*"|[^\s:,=()]+)'
TYPED = re.compile(NAME + r": (seq\(.*?\)\)|optional\(.*?\)\)+|[a-z0-9]+)(\[[^\]]*\]|\?)?")
SHORT = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "BOOL": "bool", "STRING": "str",
         "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64",
         "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64"}
PLAIN = set(SHORT.values())  # what kernels take
SHORT |= {"INT2": "i2", "INT4": "i4", "UINT2": "u2", "UINT4": "u4", "FLOAT4E2M1": "f4e2m1",
          "FLOAT8E4M3FN": "f8e4m3fn", "FLOAT8E4M3FNUZ": "f8e4m3fnuz", "FLOAT8E5M2": "f8e5m2",
          "FLOAT8E5M2FNUZ": "f8e5m2fnuz", "FLOAT8E8M0": "f8e8m0"}


def operators_of_ours() -> set[str]:
    return set(re.findall(r"^OP\((\w+)\)", (ROOT / "src/ops/operators.inc").read_text(), re.MULTILINE))


def operators(graph):
    for node in graph.node:
        yield node.op_type if not node.domain else f"{node.domain}.{node.op_type}"
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from operators(body)


def said_by_onnx(model) -> dict[str, tuple[str, list | None]]:
    """name -> (type, dims or None) of all values of the main graph, from the inputs alone."""
    declared = {o.name for o in model.graph.output}
    model.graph.ClearField("value_info")
    for o in model.graph.output:
        o.ClearField("type")
    inferred = onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=True, data_prop=True)
    said = {}
    for value in [*inferred.graph.value_info, *(o for o in inferred.graph.output if o.name in declared)]:
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        tensor = value.type.tensor_type
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        said[value.name] = (SHORT.get(kind, kind.lower()), dims if tensor.HasField("shape") else None)
    return said


def said_by_us(path: pathlib.Path):
    """The same from the text form, or the error."""
    done = subprocess.run([TOOL, "dump", "--stage", "infer", path], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    said = {}
    for line in done.stdout.splitlines():
        if re.match(r"  (const )?(%|_,)", line):
            for name, kind, shape in TYPED.findall(line.split(" = ", 1)[0]):
                dims = None
                if shape != "?":
                    parts = [d.strip() for d in re.split(r",(?![^(]*\))", shape[1:-1]) if d.strip()]
                    dims = [int(d) if re.fullmatch(r"\d+", d) else None for d in parts]
                said[name.strip('"')] = (kind, dims)
    return said


def compare(name: str, ours, theirs) -> tuple[list[str], list[str]]:
    """What contradicts, and where we say less."""
    wrong, weaker = [], []
    for value, (kind, dims) in theirs.items():
        if value not in ours:
            continue
        our_kind, our_dims = ours[value]
        line = f"{name} {value}: {our_kind}{show(our_dims)} where onnx says {kind}{show(dims)}"
        if kind != "undefined" and our_kind != kind:
            wrong.append(line)
        elif dims is None:
            continue
        elif our_dims is None:
            weaker.append(line)
        elif len(our_dims) != len(dims) or any(None not in pair and pair[0] != pair[1]
                                               for pair in zip(our_dims, dims)):
            wrong.append(line)
        elif any(a is None and b is not None for a, b in zip(our_dims, dims)):
            weaker.append(line)
    return wrong, weaker


def show(dims) -> str:
    return "?" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def look_at(path: pathlib.Path) -> tuple[list[str], list[str], int]:
    name = f"{path.parent.parent.name}/{path.parent.name}"
    ours = said_by_us(path)
    model = onnx.load(path)
    try:
        theirs = said_by_onnx(model)
    except Exception as error:  # onnx refuses some of its own cases
        return ([], [], 0) if isinstance(ours, str) else ([], [], len(ours))
    if isinstance(ours, str):
        known = operators_of_ours()
        plain = all(kind in PLAIN for kind, _ in theirs.values())
        return ([f"{name}: {ours.strip()}"] if plain and set(operators(model.graph)) <= known else [], [], 0)
    lost = [f"{name} {o.name}: the output is gone" for o in model.graph.output if o.name in theirs and o.name not in ours
            and o.name not in {i.name for i in model.graph.input}]
    wrong, weaker = compare(name, ours, theirs)
    return lost + wrong, weaker, len(set(ours) & set(theirs))


def look_at_all():
    paths = sorted((CASES / "node").glob("*/model.onnx"))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(look_at, paths))
    return [line for r in results for line in r[0]], sorted(line for r in results for line in r[1]), sum(r[2] for r in results)


@pytest.fixture(scope="module")
def found():
    for needed in (TOOL, CASES):
        if not needed.exists():
            pytest.skip(f"{needed} is not there")
    return look_at_all()


def test_nothing_contradicts_onnx(found):
    wrong, _, compared = found
    assert wrong == []
    assert compared > 1000


def test_the_list_of_what_is_weaker_is_true(found):
    listed = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert found[1] == listed


def main():
    wrong, weaker, compared = look_at_all()
    print("\n".join(wrong))
    print(f"{compared} values compared, {len(wrong)} contradictory, {len(weaker)} weaker")
    if "--write" in sys.argv:
        LIST.write_text("# Values of which our inference says less than onnx's; written by inference_test.py --write.\n"
                        + "".join(line + "\n" for line in weaker))


if __name__ == "__main__":
    main()
