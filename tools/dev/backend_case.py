"""One ONNX backend case in Python: its model and data as NumPy values, and ONNX's rule for comparing outputs with it."""
import dataclasses
import json
import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

RTOL, ATOL = 1e-3, 1e-7


@dataclasses.dataclass
class Case:
    name: str
    model_bytes: bytes
    inputs: list  # NumPy arrays, lists (sequences) or None, in the order of the graph's inputs that are no initialisers
    outputs: list
    rtol: float = RTOL
    atol: float = ATOL


def load(folder: pathlib.Path) -> Case:
    data = (folder / "model.onnx").read_bytes()
    graph = onnx.load_from_string(data).graph
    given = {i.name for i in graph.initializer}
    fed = [i for i in graph.input if i.name not in given]
    values = folder / "test_data_set_0"
    bounds = json.loads((folder / "tolerance.json").read_text()) if (folder / "tolerance.json").exists() else {}
    present = [i for i in range(len(fed)) if (values / f"input_{i}.pb").exists()]
    return Case(f"{folder.parent.name}/{folder.name}", data, [_read(values / f"input_{i}.pb", fed[i].type) for i in present],
                [_read(values / f"output_{i}.pb", info.type) for i, info in enumerate(graph.output)], **bounds)


def _read(path: pathlib.Path, declared: onnx.TypeProto):
    data = path.read_bytes()
    kind = declared.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def difference(case: Case, outputs: list) -> str:
    """Why the outputs are not what the case expects, or "" if they are."""
    if len(outputs) != len(case.outputs):
        return f"{len(outputs)} outputs where {len(case.outputs)} are expected"
    for i, (got, want) in enumerate(zip(outputs, case.outputs)):
        if why := value_difference(got, want, case.rtol, case.atol):
            return f"output {i}: {why}"
    return ""


def value_difference(got, want, rtol: float = RTOL, atol: float = ATOL) -> str:
    """Same structure, shape and type; strings equal; else |got - want| <= atol + rtol * |want|, NaN equal to NaN."""
    if want is None or isinstance(want, (list, tuple)):
        if want is None or got is None or not isinstance(got, (list, tuple)):
            return "" if want is None and got is None else f"{type(got).__name__} where {type(want).__name__} is expected"
        if len(got) != len(want):
            return f"a sequence of {len(got)} where one of {len(want)} is expected"
        return next((f"element {i}: {why}" for i, (g, w) in enumerate(zip(got, want))
                     if (why := value_difference(g, w, rtol, atol))), "")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape} where {want.shape} is expected"
    if want.dtype.kind in "OUS":
        return "" if np.array_equal(got.astype(object), want.astype(object)) else "other strings"
    if got.dtype != want.dtype:
        return f"type {got.dtype} where {want.dtype} is expected"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    if want.dtype.kind in "iub":
        wide = want.dtype if want.dtype.itemsize == 8 else np.int64
    close = np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=want.dtype.kind not in "iub")
    return "" if close.all() else f"{int((~close).sum())} of {close.size} elements differ"
