"""Models of a node or two, made in the tests."""
import numpy as np
import onnx
from onnx import TensorProto, helper


def model(nodes, inputs, outputs, initializers=(), opset=21, **kwargs) -> bytes:
    """A model's bytes; inputs and outputs are (name, element type, shape) or ValueInfoProto."""
    def info(v):
        return v if isinstance(v, onnx.ValueInfoProto) else helper.make_tensor_value_info(*v)
    graph = helper.make_graph(nodes, "g", [info(v) for v in inputs], [info(v) for v in outputs], list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **kwargs)
    return made.SerializeToString()


ADD = model([helper.make_node("Add", ["x", "y"], ["z"])],
            [("x", TensorProto.FLOAT, ["n", 3]), ("y", TensorProto.FLOAT, [None, 3])],
            [("z", TensorProto.FLOAT, None)])
X = np.arange(6, dtype=np.float32).reshape(2, 3)

# next = h + x, y = 10 next: a state that can turn.
STATE = model([helper.make_node("Add", ["h", "x"], ["next"]), helper.make_node("Mul", ["next", "ten"], ["y"])],
              [("h", TensorProto.FLOAT, [3]), ("x", TensorProto.FLOAT, [3])],
              [("next", TensorProto.FLOAT, [3]), ("y", TensorProto.FLOAT, [3])],
              [helper.make_tensor("ten", TensorProto.FLOAT, [], [10])])
