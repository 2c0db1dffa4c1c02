"""Random graphs of loops, scans, branches and sequences, nested in each other: the same graph for the same seed."""
import numpy as np
from onnx import TensorProto, helper
from random_graphs import OPSET, Made

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Maker:
    """All float values have one shape, so any statement fits anywhere; bodies read what is outside of them."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.shape = tuple(int(d) for d in self.rng.integers(1, 4, self.rng.integers(0, 3)))
        self.inputs, self.initializers, self.feed, self.count, self.operators = [], [], {}, 0, []
        self.outputs: list[tuple[str, int]] = []  # of the whole graph: name and rank

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def some(self, items):
        return items[self.below(len(items))]

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def numbers(self, shape) -> np.ndarray:
        return np.asarray(self.rng.integers(-8, 9, shape) / 4, np.float32)

    def input(self, array: np.ndarray) -> str:
        name = self.name()
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        dims = [d if self.below(2) else f"{name}_{i}" for i, d in enumerate(array.shape)]
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))
        self.feed[name] = np.asarray(array)
        return name

    def constant(self, array: np.ndarray) -> str:
        name = self.name()
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.initializers.append(helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def given(self, array) -> str:
        """An input or a constant."""
        return self.some([self.input, self.constant])(np.asarray(array))

    def node(self, nodes, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.operators.append(op)
        return names[0] if outputs == 1 else names

    def float_info(self, name: str):
        return helper.make_tensor_value_info(name, F, list(self.shape) if self.below(2) else [None] * len(self.shape))

    # --- statements: each reads values of `pool` and returns new ones

    def plain(self, nodes, pool, depth):
        if self.below(2):
            return [self.node(nodes, self.some(["Neg", "Abs", "Relu", "Identity"]), [self.some(pool)])]
        if self.below(3) == 0:
            return [self.node(nodes, "Mul", [self.some(pool), self.constant(np.float32(.5))])]
        return [self.node(nodes, self.some(["Add", "Sub", "Max", "Min"]), [self.some(pool), self.some(pool)])]

    def statements(self, nodes, pool, depth):
        """Some statements on a copy of the pool, which is returned with what they made at its end."""
        pool = list(pool)
        for _ in range(1 + self.below(3)):
            nested = [self.branch, self.loop, self.scan, self.collect] if depth > 0 and self.below(3) == 0 else [self.plain]
            pool += self.some(nested)(nodes, pool, depth - 1)
        return pool

    def chosen(self, pool, count: int):
        """Names for outputs of a body: recent values, sometimes anything, an outer value among them."""
        return [self.some(pool[-3:] if self.below(3) else pool) for _ in range(count)]

    def body(self, nodes, name, inputs, outputs):
        """Outputs of a body must be made in it, each under a name of its own: an Identity does for the others."""
        free = {n for node in nodes for n in node.output}
        names = []
        for value in outputs:
            names.append(value if value in free else self.node(nodes, "Identity", [value]))
            free.discard(value)
        return helper.make_graph(nodes, name, inputs, [self.float_info(n) for n in names])

    def branch(self, nodes, pool, depth):
        count, graphs = 1 + self.below(2), []
        for name in ("then", "other"):
            own = []
            inner = self.statements(own, pool, depth) if self.below(4) else pool
            graphs.append(self.body(own, name, [], self.chosen(inner, count)))
        made = self.node(nodes, "If", [self.given(np.bool_(self.below(2)))], count, then_branch=graphs[0],
                         else_branch=graphs[1])
        return made if count > 1 else [made]

    def loop(self, nodes, pool, depth):
        states, given, trips = 1 + self.below(2), self.below(3), self.below(6)
        heads = [self.name() for _ in range(2 + states)]
        own = []
        inner = self.statements(own, pool + heads[2:], depth)
        ends = self.below(3) == 0
        if ends:
            done = self.node(own, "Equal", [heads[0], self.given(np.int64(self.below(5)))])
            cond = self.node(own, "Not", [done])
        else:
            cond = self.node(own, "Identity", [heads[1]])
        kept = self.chosen(inner, states) + self.chosen(inner, given)
        graph = self.body(own, "trip", [], kept)
        graph.input.extend([helper.make_tensor_value_info(heads[0], I, []), helper.make_tensor_value_info(heads[1], B, []),
                            *(self.float_info(h) for h in heads[2:])])
        infos = [helper.make_tensor_value_info(cond, B, []), *graph.output]
        del graph.output[:]
        graph.output.extend(infos)
        most = "" if ends and self.below(2) else self.given(np.int64(trips))
        go = self.given(np.bool_(self.below(6) > 0)) if most == "" or self.below(2) else ""
        made = self.node(nodes, "Loop", [most, go, *(self.some(pool) for _ in range(states))], states + given, body=graph)
        made = made if states + given > 1 else [made]
        return self.stacked(nodes, made, states)

    def scan(self, nodes, pool, depth):
        states, slices, given, length = self.below(3), 1 + self.below(2), self.below(3), 1 + self.below(4)
        given += 1 if states + given == 0 else 0
        heads = [self.name() for _ in range(states + slices)]
        own = []
        inner = self.statements(own, pool + heads, depth)
        graph = self.body(own, "slice", [self.float_info(h) for h in heads],
                          self.chosen(inner, states) + self.chosen(inner, given))
        axes = [self.below(len(self.shape) + 1) for _ in range(slices)]
        scanned = [self.given(self.numbers((*self.shape[:a], length, *self.shape[a:]))) for a in axes]
        outs = {"scan_output_axes": [self.below(len(self.shape) + 1) for _ in range(given)],
                "scan_output_directions": [self.below(2) for _ in range(given)]} if given else {}
        made = self.node(nodes, "Scan", [*(self.some(pool) for _ in range(states)), *scanned], states + given, body=graph,
                         num_scan_inputs=slices, scan_input_axes=axes,
                         scan_input_directions=[self.below(2) for _ in range(slices)], **outs)
        made = made if states + given > 1 else [made]
        return self.stacked(nodes, made, states)

    def stacked(self, nodes, made, states):
        """Scan outputs leave the graph at the top; inside of bodies nobody reads them."""
        for name in made[states:]:
            if nodes is self.top:
                self.outputs.append((name, len(self.shape) + 1))
        return made[:states]

    def collect(self, nodes, pool, depth):
        """A loop that puts values into a sequence; their sum comes out."""
        trips = 1 + self.below(4)
        i, c, s = self.name(), self.name(), self.name()
        own = []
        inner = self.statements(own, pool, depth)
        more = self.node(own, "SequenceInsert", [s, self.some(inner[-2:])])
        cond = self.node(own, "Identity", [c])
        sequence = helper.make_tensor_sequence_value_info
        graph = helper.make_graph(
            own, "collect", [helper.make_tensor_value_info(i, I, []), helper.make_tensor_value_info(c, B, []),
                             sequence(s, F, None)],
            [helper.make_tensor_value_info(cond, B, []), sequence(more, F, None)])
        first = self.node(nodes, "SequenceConstruct", [self.some(pool)])
        made = self.node(nodes, "Loop", [self.given(np.int64(trips)), self.constant(np.bool_(True)), first], body=graph)
        whole = self.node(nodes, "ConcatFromSequence", [made], axis=0, new_axis=1)
        return [self.node(nodes, "ReduceSum", [whole, self.constant(np.array([0], np.int64))], keepdims=0)]


def make_batched_scan(seed: int) -> Made:
    """A Scan as opset 8 had it: a batch of everything, lengths perhaps, directions."""
    rng = np.random.default_rng(seed)
    batch, length, width = (int(rng.integers(1, 4)) for _ in range(3))
    backwards = int(rng.integers(0, 2))
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Mul", ["t", "k"], ["z"]),
         helper.make_node("Identity", ["t"], ["so"])],
        "slice", [info("s", F, [width]), info("e", F, [width])], [info("so", F, [width]), info("z", F, [width])])
    feed = {"s0": np.asarray(rng.integers(-8, 9, (batch, width)) / 4, np.float32),
            "x": np.asarray(rng.integers(-8, 9, (batch, length, width)) / 4, np.float32), "k": np.float32(.5).reshape(1)}
    inputs = [info("s0", F, [batch, width]), info("x", F, [batch, length, width]), info("k", F, [1])]
    if rng.integers(0, 2):
        feed["lengths"] = rng.integers(1, length + 1, batch)
        inputs.append(info("lengths", I, [batch]))
    node = helper.make_node("Scan", ["lengths" if "lengths" in feed else "", "s0", "x"], ["y", "all"], body=body,
                            num_scan_inputs=1, directions=[backwards])
    graph = helper.make_graph([node], f"batches_{seed}", inputs,
                              [info("y", F, [batch, width]), info("all", F, [batch, length, width])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)
    return Made(model.SerializeToString(), feed, ["Scan"])


def make(seed: int) -> Made:
    maker = Maker(seed)
    nodes = maker.top = []
    pool = [maker.input(maker.numbers(maker.shape)) for _ in range(1 + maker.below(3))]
    for _ in range(1 + maker.below(3)):
        pool += maker.some([maker.branch, maker.loop, maker.scan, maker.collect, maker.plain])(nodes, pool, 2)
    made = {name for node in nodes for name in node.output}
    finals = [v for v in pool if v in made][-3:]
    outputs = [helper.make_tensor_value_info(v, F, [None] * len(maker.shape)) for v in finals]
    outputs += [helper.make_tensor_value_info(v, F, [None] * rank) for v, rank in maker.outputs]
    if not outputs:
        nodes.append(helper.make_node("Neg", [pool[0]], ["y"]))
        outputs = [helper.make_tensor_value_info("y", F, [None] * len(maker.shape))]
    graph = helper.make_graph(nodes, f"control_{seed}", maker.inputs, outputs, maker.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return Made(model.SerializeToString(), maker.feed, maker.operators)
