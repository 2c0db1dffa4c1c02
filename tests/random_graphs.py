"""Random small graphs of the operators that run here, with inputs to feed them: the same graph for the same seed."""
import dataclasses

import numpy as np
from onnx import TensorProto, helper

OPSET = 21
NUMBERS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE,
           np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32, np.dtype(bool): TensorProto.BOOL}


# Operators whose results are rounded. What jumps or magnifies small differences (Floor, Equal, Reciprocal and so on) is
# only put on values that are exact.
ROUNDING = {"Sigmoid", "Tanh", "Sqrt", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Softplus", "Softsign", "Erf",
            "Reciprocal", "HardSwish", "Div", "ReduceMean", "Softmax", "LogSoftmax", "AveragePool", "GlobalAveragePool"}
FRAGILE = {"Floor", "Ceil", "Reciprocal", "Sqrt", "Softplus"}


@dataclasses.dataclass
class Known:
    """A value of the graph whose type and shape are known."""
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    exact: bool = True  # no rounding on the way here: every correct runtime has the same bits


@dataclasses.dataclass
class Made:
    model: bytes
    feed: dict[str, np.ndarray]
    operators: list[str]


class Maker:
    """Adds nodes to a graph, each on values that fit; remembers type and shape of every result."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.values, self.inputs = [], [], [], []
        self.feed: dict[str, np.ndarray] = {}
        self.count = 0

    # --- choices

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def some(self, items):
        return items[self.below(len(items))]

    def shape(self, rank=None) -> tuple[int, ...]:
        rank = self.below(5) if rank is None else rank
        return tuple(int(self.rng.choice([1, 2, 3, 5, 8], p=[.2, .25, .25, .2, .1])) for _ in range(rank))

    def array(self, dtype, shape) -> np.ndarray:
        """Multiples of a quarter: their sums and products are exact, whatever the order."""
        if dtype == bool:
            return self.rng.random(shape) < .5
        whole = self.rng.integers(-8, 9, shape)
        return (whole / 4).astype(dtype) if dtype.kind == "f" else whole.astype(dtype)

    def value(self, kinds="f", rank=None, least_rank=0, exact=False) -> Known:
        """An existing value of one of these kinds, or a fresh input."""
        fits = [v for v in self.values if v.dtype.kind in kinds and len(v.shape) >= least_rank
                and (rank is None or len(v.shape) == rank) and (v.exact or not exact)]
        if fits and self.rng.random() < .85:
            return self.some(fits[-6:])
        kind = self.some(kinds)
        dtype = np.dtype({"f": self.some([np.float32] * 3 + [np.float64]), "i": self.some([np.int64, np.int32]),
                          "b": bool}[kind])
        return self.input(dtype, self.shape(rank if rank is not None else least_rank + self.below(5 - least_rank)))

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def input(self, dtype, shape) -> Known:
        v = Known(self.name(), np.dtype(dtype), tuple(shape))
        self.feed[v.name] = np.asarray(self.array(v.dtype, v.shape))
        declared = [d if self.rng.random() < .5 else f"{v.name}_{i}" for i, d in enumerate(v.shape)]
        self.inputs.append(helper.make_tensor_value_info(v.name, NUMBERS[v.dtype], declared))
        self.values.append(v)
        return v

    def constant(self, array: np.ndarray) -> str:
        name = self.name()
        self.initializers.append(helper.make_tensor(name, NUMBERS[array.dtype], array.shape, array.tobytes(), raw=True))
        return name

    def ints(self, *numbers) -> str:
        return self.constant(np.array(numbers, np.int64))

    def weight(self, dtype, shape) -> str:
        return self.constant(self.array(np.dtype(dtype), shape))

    def partner(self, v: Known, exact=False) -> Known:
        """A value that broadcasts with v: one that exists, or a fresh one of v's shape with some dims 1 or left out."""
        fits = [o for o in self.values if o.dtype == v.dtype and _broadcast(o.shape, v.shape) is not None
                and (o.exact or not exact)]
        if fits and self.rng.random() < .5:
            return self.some(fits)
        shape = tuple(d if self.rng.random() < .7 else 1 for d in v.shape)[self.below(len(v.shape) + 1):]
        return self.input(v.dtype, shape)

    def add(self, op: str, inputs, dtype, shape, **attributes) -> Known:
        names = [i.name if isinstance(i, Known) else i for i in inputs]
        exact = op not in ROUNDING and all(i.exact for i in inputs if isinstance(i, Known))
        out = Known(self.name(), np.dtype(dtype), tuple(int(d) for d in shape), exact)
        self.nodes.append(helper.make_node(op, names, [out.name], **attributes))
        self.values.append(out)
        return out

    # --- families

    def unary(self):
        x = self.value()
        op = self.some(["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Sqrt", "Floor", "Ceil", "Identity", "LeakyRelu", "Elu",
                        "Selu", "HardSigmoid", "Softplus", "Softsign", "Erf", "Reciprocal", "HardSwish", "Clip"])
        if op in ("Erf", "HardSwish", "LeakyRelu", "Elu", "Selu", "Softsign", "Softplus", "HardSigmoid") and x.dtype != np.float32:
            op = "Relu"
        if op in FRAGILE and not x.exact:
            op = "Abs"
        if op == "Clip":
            low, high = np.array(-1, x.dtype), np.array(1.5, x.dtype)
            return self.add(op, [x, self.constant(low), self.constant(high)], x.dtype, x.shape)
        return self.add(op, [x], x.dtype, x.shape)

    def binary(self):
        x = self.value("ffi")
        y = self.partner(x)
        ops = ["Add", "Sub", "Mul", "Min", "Max"] + (["Div"] if x.dtype.kind == "f" and x.exact and y.exact else [])
        args = [x, y] if self.below(2) else [y, x]
        return self.add(self.some(ops), args, x.dtype, _broadcast(x.shape, y.shape))

    def compare(self):
        x = self.value("fi", exact=True)
        y = self.partner(x, exact=True)
        return self.add("Equal", [x, y], bool, _broadcast(x.shape, y.shape))

    def logic(self):
        x = self.value("b")
        return self.add("Not", [x], bool, x.shape)

    def where(self):
        x = self.value("fi")
        y = self.partner(x)
        shape = _broadcast(x.shape, y.shape)
        condition = self.input(bool, shape[self.below(len(shape) + 1):])
        return self.add("Where", [condition, x, y], x.dtype, shape)

    def cast(self):
        x = self.value("fib")
        to = self.some([t for t in NUMBERS if x.exact or t.kind == "f"])
        return self.add("Cast", [x], to, x.shape, to=NUMBERS[to])

    def transpose(self):
        x = self.value("fib", least_rank=2)
        order = self.rng.permutation(len(x.shape)).tolist()
        return self.add("Transpose", [x], x.dtype, [x.shape[i] for i in order], perm=order)

    def reshape(self):
        x = self.value("fib", least_rank=1)
        size = int(np.prod(x.shape))
        kind = self.below(4)
        if kind == 0:
            return self.add("Flatten", [x], x.dtype, (x.shape[0], size // x.shape[0]) if x.shape[0] else (0, 0), axis=1)
        if kind == 1:
            axis = self.below(len(x.shape) + 1)
            return self.add("Unsqueeze", [x, self.ints(axis)], x.dtype, x.shape[:axis] + (1,) + x.shape[axis:])
        if kind == 2 and 1 in x.shape:
            axis = x.shape.index(1)
            return self.add("Squeeze", [x, self.ints(axis - len(x.shape))], x.dtype, x.shape[:axis] + x.shape[axis + 1:])
        divisor = self.some([d for d in range(1, size + 1) if size % d == 0]) if size else 1
        return self.add("Reshape", [x, self.ints(divisor, -1)], x.dtype, (divisor, size // divisor))

    def slice(self):
        x = self.value("fib", least_rank=1)
        axis = self.below(len(x.shape))
        step = self.some([1, 1, 2, -1, -2])
        start, end = int(self.rng.integers(-9, 9)), int(self.rng.integers(-9, 9))
        shape = list(x.shape)
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
        if 0 in shape:
            start, end, step, shape[axis] = 0, 2**31, 1, x.shape[axis]
        return self.add("Slice", [x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)], x.dtype, shape)

    def concat(self):
        x = self.value("fib", least_rank=1)
        axis = self.below(len(x.shape))
        other = list(x.shape)
        other[axis] = 1 + self.below(4)
        y = self.input(x.dtype, other)
        args = [x, y] if self.below(2) else [y, x, y]
        total = sum(a.shape[axis] for a in args)
        return self.add("Concat", args, x.dtype, [*x.shape[:axis], total, *x.shape[axis + 1:]], axis=axis - len(x.shape))

    def split(self):
        x = self.value("fib", least_rank=1)
        axis = max(range(len(x.shape)), key=lambda a: x.shape[a])
        if x.shape[axis] < 2:
            return self.unary()
        first = 1 + self.below(x.shape[axis] - 1)
        parts = [Known(self.name(), x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1:]), x.exact)
                 for n in (first, x.shape[axis] - first)]
        self.nodes.append(helper.make_node("Split", [x.name, self.ints(first, x.shape[axis] - first)],
                                           [p.name for p in parts], axis=axis))
        self.values += parts
        return parts[0]

    def gather(self):
        x = self.value("fib", least_rank=1)
        axis = self.below(len(x.shape))
        which = self.rng.integers(-x.shape[axis], x.shape[axis], self.shape(self.below(3)))
        return self.add("Gather", [x, self.constant(np.asarray(which, np.int64))], x.dtype,
                        x.shape[:axis] + which.shape + x.shape[axis + 1:], axis=axis)

    def expand(self):
        x = self.value("fib")
        if self.below(2):
            repeats = [1 + self.below(2) for _ in x.shape]
            if x.shape:
                return self.add("Tile", [x, self.ints(*repeats)], x.dtype, [d * r for d, r in zip(x.shape, repeats)])
        target = [2, *(d if d != 1 else 3 for d in x.shape)]
        return self.add("Expand", [x, self.ints(*target)], x.dtype, target)

    def pad(self):
        x = self.value("f", least_rank=1)
        mode = self.some(["constant", "edge", "reflect"])
        most = 1 if mode != "reflect" else min(1, min(x.shape) - 1)
        begin, end = ([self.below(most + 1) for _ in x.shape] for _ in range(2))
        return self.add("Pad", [x, self.ints(*begin, *end)], x.dtype,
                        [b + d + e for b, d, e in zip(begin, x.shape, end)], mode=mode)

    def reduce(self):
        x = self.value("f", least_rank=1)
        axes = sorted(self.rng.choice(len(x.shape), 1 + self.below(len(x.shape)), replace=False).tolist())
        keep = self.below(2)
        shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
        op = self.some(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
        return self.add(op, [x, self.ints(*axes)], x.dtype, shape, keepdims=keep)

    def softmax(self):
        x = self.value("f", least_rank=1)
        return self.add(self.some(["Softmax", "LogSoftmax"]), [x], x.dtype, x.shape, axis=self.below(len(x.shape)))

    def matmul(self):
        x = self.value("f", least_rank=2)
        n = 1 + self.below(6)
        if len(x.shape) == 2 and self.below(2):
            flip = self.below(2)
            w = self.weight(x.dtype, (n, x.shape[1]) if flip else (x.shape[1], n))
            return self.add("Gemm", [x, w, self.weight(x.dtype, (n,))], x.dtype, (x.shape[0], n), transB=flip, alpha=.5)
        return self.add("MatMul", [x, self.weight(x.dtype, (x.shape[-1], n))], x.dtype, (*x.shape[:-1], n))

    def picture(self) -> Known:
        fits = [v for v in self.values if v.dtype == np.float32 and len(v.shape) == 4 and min(v.shape[2:]) >= 3]
        if fits:
            return self.some(fits[-3:])
        return self.input(np.float32, (1 + self.below(2), self.some([1, 3, 4, 8, 16]), 4 + self.below(6), 4 + self.below(6)))

    def convolution(self):
        x = self.picture()
        group = self.some([1, 1, x.shape[1]])
        channels = group * self.some([1, 2, 4, 8])
        kernel, stride, pad = self.some([1, 3]), self.some([1, 1, 2]), self.below(2)
        w = self.weight(x.dtype, (channels, x.shape[1] // group, kernel, kernel))
        out = [(d + 2 * pad - kernel) // stride + 1 for d in x.shape[2:]]
        y = self.add("Conv", [x, w, self.weight(x.dtype, (channels,))], x.dtype, (x.shape[0], channels, *out), group=group,
                     kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        if self.below(2):
            scale, bias, mean = (self.weight(x.dtype, (channels,)) for _ in range(3))
            variance = self.constant(self.rng.choice([.25, 1, 4], channels).astype(x.dtype))
            y = self.add("BatchNormalization", [y, scale, bias, mean, variance], x.dtype, y.shape, epsilon=0.)
        if self.below(2):
            y = self.add(self.some(["Relu", "Sigmoid", "HardSwish"]), [y], x.dtype, y.shape)
        if y.shape == x.shape and self.below(2):
            y = self.add("Add", [y, x], x.dtype, x.shape)
        return y

    def pool(self):
        x = self.picture()
        if self.below(3) == 0:
            return self.add(self.some(["GlobalAveragePool", "GlobalMaxPool"]), [x], x.dtype, (*x.shape[:2], 1, 1))
        stride, op = 1 + self.below(2), self.some(["MaxPool", "AveragePool"])
        out = [(d + 2 - 3) // stride + 1 for d in x.shape[2:]]
        return self.add(op, [x], x.dtype, (*x.shape[:2], *out), kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)

    def shape_arithmetic(self):
        x = self.value("fib", least_rank=1)
        dims = self.add("Shape", [x], np.int64, (len(x.shape),))
        return self.add("ConstantOfShape", [dims], np.float32, x.shape,
                        value=helper.make_tensor("one", TensorProto.FLOAT, [1], [1.5]))

    FAMILIES = ["unary"] * 4 + ["binary"] * 4 + ["compare", "logic", "where", "cast", "transpose", "reshape", "slice", "concat",
                                                "split", "gather", "expand", "pad", "reduce", "softmax", "matmul"] + [
                                                    "convolution"] * 2 + ["pool", "shape_arithmetic"]


def _broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def make(seed: int, most_nodes: int = 8) -> Made:
    """The graph of this seed: up to `most_nodes` steps; every value that nobody reads is an output, and some others."""
    maker = Maker(seed)
    for _ in range(1 + maker.below(most_nodes)):
        if sum(int(np.prod(v.shape)) for v in maker.values) > 200_000:
            break
        getattr(maker, maker.some(Maker.FAMILIES))()
    used = {name for node in maker.nodes for name in node.input}
    made = {name for node in maker.nodes for name in node.output}
    outputs = [v for v in maker.values if v.name in made and (v.name not in used or maker.rng.random() < .2)]
    graph = helper.make_graph(
        maker.nodes, f"random_{seed}", [i for i in maker.inputs if i.name in used],
        [helper.make_tensor_value_info(v.name, NUMBERS[v.dtype], [None] * len(v.shape)) for v in outputs], maker.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    feed = {name: array for name, array in maker.feed.items() if name in used}
    return Made(model.SerializeToString(), feed, [node.op_type for node in maker.nodes])
