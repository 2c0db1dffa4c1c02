"""Light models with random weights: constant fills become seeded initializers, nothing else changes."""
import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import figure_models  # noqa: E402


def light_model(path: pathlib.Path) -> None:
    fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.02])
    shape = lambda name, dims: numpy_helper.from_array(numpy.array(dims, numpy.int64), name)  # noqa: E731
    nodes = [helper.make_node("ConstantOfShape", ["w_shape"], ["w"], value=fill),
             helper.make_node("ConstantOfShape", ["s_shape"], ["s"], value=fill),
             helper.make_node("Conv", ["x", "w"], ["c"]),
             helper.make_node("Unsqueeze", ["s"], ["u"], axes=[1, 2]),
             helper.make_node("Mul", ["c", "u"], ["y"])]
    initializers = [shape("w_shape", [4, 3, 1, 1]), shape("s_shape", [4])]
    feeds = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 5])]
    feeds += [helper.make_tensor_value_info(i.name, TensorProto.INT64, list(i.dims)) for i in initializers]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 5, 5])]
    graph = helper.make_graph(nodes, "light", feeds, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3), path)


def test_fills_become_random_weights(tmp_path):
    light_model(tmp_path / "light.onnx")
    for name in ("one", "two"):
        figure_models.randomize(tmp_path / "light.onnx", tmp_path / name, seed=7)
    assert (tmp_path / "one" / "model.onnx").read_bytes() == (tmp_path / "two" / "model.onnx").read_bytes()
    model = onnx.load(tmp_path / "one" / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [n.op_type for n in model.graph.node] == ["Conv", "Unsqueeze", "Mul"]
    weights = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    assert set(weights) == {"w", "s"} and weights["w"].shape == (4, 3, 1, 1)
    assert len(numpy.unique(weights["w"])) == 12
    assert (weights["s"] >= 0.7).all() and (weights["s"] <= 1.3).all()  # found through Unsqueeze to be a factor
    assert [i.name for i in model.graph.input] == ["x"]
    assert numpy.load(tmp_path / "one" / "case_0" / "input_0.npy").shape == (1, 3, 5, 5)


def test_another_seed_gives_other_weights(tmp_path):
    light_model(tmp_path / "light.onnx")
    figure_models.randomize(tmp_path / "light.onnx", tmp_path / "one", seed=1)
    figure_models.randomize(tmp_path / "light.onnx", tmp_path / "two", seed=2)
    assert (tmp_path / "one" / "model.onnx").read_bytes() != (tmp_path / "two" / "model.onnx").read_bytes()
