#!/usr/bin/env python3
"""Writes the seeds of fuzz_reader: small models that together touch every part of the file format.

    make_reader_corpus.py [FOLDER]      (needs the packages onnx and numpy)
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper


def tensor(name, array):
    return numpy_helper.from_array(np.array(array), name)


def graph(nodes, inputs, outputs, initializers=(), **more):
    infos = [[h.make_tensor_value_info(n, t, s) for n, t, s in side] for side in (inputs, outputs)]
    return h.make_graph(nodes, "g", *infos, initializer=list(initializers), **more)


def model(g, opset=17, ir=8, functions=(), domains=()):
    opsets = [h.make_opsetid("", opset), *[h.make_opsetid(d, 1) for d in domains]]
    m = h.make_model(g, opset_imports=opsets, functions=list(functions), ir_version=ir, producer_name="s")
    return m


X, Y = ("x", T.FLOAT, [2, "N"]), ("y", T.FLOAT, None)


def seeds():
    n = h.make_node
    w = tensor("w", np.array([1, 2], np.float32))
    yield "add", model(graph([n("Add", ["x", "w"], ["y"])], [X], [Y], [w]))
    typed = h.make_tensor("w", T.INT64, [3], [1, -1, 1 << 40])
    yield "typed", model(graph([n("Reshape", ["x", "w"], ["y"])], [X], [Y], [typed]))
    half = h.make_tensor("w", T.FLOAT16, [2], [1.0, 2.0])
    strings = h.make_tensor("s", T.STRING, [2], [b"a", b"bc"])
    nibbles = h.make_tensor("q", T.INT4, [3], [1, -2, 3])
    yield "types", model(graph([n("Cast", ["w"], ["y"], to=1)], [X], [Y], [half, strings, nibbles]), 21, 10)
    old = [n("Mul", ["x", "w"], ["a"], broadcast=1, axis=0), n("BatchNormalization", ["a", "w", "w", "w", "w"], ["b"], is_test=1)]
    old += [n("Clip", ["b"], ["c"], max=6.0), n("Softmax", ["c"], ["d"]), n("Slice", ["d"], ["y"], starts=[0], ends=[1])]
    yield "old", model(graph(old, [X, ("w", T.FLOAT, [2])], [Y], [w]), 6, 3)
    up = [n("Upsample", ["x"], ["a"], scales=[1.0, 2.0]), n("Dropout", ["a"], ["y", "m"]), n("Pad", ["y"], ["z"], pads=[0, 0, 1, 1], value=2.0)]
    yield "old7", model(graph(up, [X], [("z", T.FLOAT, None)]), 7, 4)
    then = graph([n("Add", ["x", "w"], ["t"])], [], [("t", T.FLOAT, None)])
    other = graph([n("Identity", ["x"], ["e"])], [], [("e", T.FLOAT, None)])
    branch = n("If", ["c"], ["y"], then_branch=then, else_branch=other)
    yield "if", model(graph([branch], [("c", T.BOOL, []), X], [Y], [w]))
    body = graph([n("Add", ["v", "w"], ["vo"]), n("Identity", ["co"], ["k"])],
                 [("i", T.INT64, []), ("co", T.BOOL, []), ("v", T.FLOAT, None)],
                 [("k", T.BOOL, []), ("vo", T.FLOAT, None), ("vo2", T.FLOAT, None)])
    body.node.append(n("Neg", ["vo"], ["vo2"]))
    yield "loop", model(graph([n("Loop", ["", "c", "x"], ["y", "z"], body=body)], [("c", T.BOOL, []), X], [Y, ("z", T.FLOAT, None)], [w]))
    inner = h.make_function("l", "f", ["a"], ["b"], [n("Constant", [], ["k"]), n("Add", ["a", "k"], ["b"])],
                            [h.make_opsetid("", 17)], attributes=["v"])
    ref = inner.node[0].attribute.add(name="value_float", ref_attr_name="v", type=onnx.AttributeProto.FLOAT)
    assert ref.ref_attr_name
    outer = h.make_function("l", "g", ["a", "u"], ["b", "a"], [n("f", ["a"], ["b"], domain="l", v=2.0)],
                            [h.make_opsetid("l", 1)])
    yield "functions", model(graph([n("g", ["x"], ["y", "z"], domain="l")], [X], [Y, ("z", T.FLOAT, None)]), functions=[inner, outer], domains=["l"])
    yield "bodies", model(graph([n("Elu", ["x"], ["a"]), n("HardSwish", ["a"], ["b"]), n("Shrink", ["b"], ["y"])], [X], [Y]))
    sequence = [n("SequenceConstruct", ["x", "w"], ["s"]), n("SequenceAt", ["s", "i"], ["y"])]
    yield "sequence", model(graph(sequence, [X], [Y, ], [w, tensor("i", np.array(0, np.int64))]))
    sparse = h.make_sparse_tensor(tensor("v", np.array([5], np.float32)), tensor("", np.array([3], np.int64)), [2, 2])
    yield "sparse", model(graph([n("Constant", [], ["k"], sparse_value=sparse), n("Add", ["x", "k"], ["y"])], [X], [Y]))
    outside = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[2], data_location=T.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "8")):
        outside.external_data.add(key=key, value=value)
    yield "external", model(graph([n("Add", ["x", "w"], ["y"])], [X], [Y], [outside]))
    shuffled = [n("Neg", ["a"], ["y"]), n("Split", ["x"], ["a", "", "b"], split=[1, 1, 1]), n("ReduceSum", ["b"], ["r"], axes=[0])]
    yield "order", model(graph(shuffled, [X], [Y], value_info=[h.make_tensor_value_info("a", T.FLOAT, [1])]), 11, 6)


def main():
    default = pathlib.Path(__file__).parent / "corpus" / "fuzz_reader"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds():
        (folder / f"{name}.onnx").write_bytes(seed.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
