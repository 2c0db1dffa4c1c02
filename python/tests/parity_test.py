"""The same calls on this package and on onnxruntime's, side by side: results, kinds of errors, descriptions."""
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import ADD, X, model

import forethought as ft

ort = pytest.importorskip("onnxruntime")

STRINGS = model([helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.STRING, ["n"])],
                [("y", TensorProto.STRING, ["n"])])
OPTIONAL = model([helper.make_node("Identity", ["x"], ["y"])],
                 [helper.make_tensor_sequence_value_info("x", TensorProto.INT64, None)],
                 [helper.make_tensor_sequence_value_info("y", TensorProto.INT64, None)])
DEFAULT = model([helper.make_node("Add", ["x", "w"], ["y"])],
                [("x", TensorProto.FLOAT, ["n", 2]), ("w", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, ["n", 2])],
                [helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])])
UNRANKED = model([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, None)],
                 [("y", TensorProto.FLOAT, None)])


def outcome(call):
    """What a call gives, or the name of the exception that it raises."""
    try:
        return call()
    except Exception as e:  # noqa: BLE001
        return type(e).__name__


def same(a, b) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    return type(a) is type(b) and a == b


def both(call):
    """call(module) on both; they must agree."""
    ours, theirs = outcome(lambda: call(ft)), outcome(lambda: call(ort))
    assert same(ours, theirs), f"forethought: {ours!r}; onnxruntime: {theirs!r}"


@pytest.mark.parametrize("source", [ADD, STRINGS, OPTIONAL, DEFAULT, UNRANKED],
                         ids=["add", "strings", "sequence", "default", "unranked"])
def test_descriptions(source):
    both(lambda m: [(a.name, a.type, a.shape) for a in m.InferenceSession(source).get_inputs()])
    both(lambda m: [(a.name, a.type, a.shape) for a in m.InferenceSession(source).get_outputs()])
    both(lambda m: [(a.name, a.type, a.shape) for a in m.InferenceSession(source).get_overridable_initializers()])
    both(lambda m: m.InferenceSession(source, providers=["CPUExecutionProvider"]).get_providers())


@pytest.mark.parametrize("feed", [
    {"x": X, "y": X}, {"x": X.tolist(), "y": X}, {"x": np.asfortranarray(X), "y": X[::-1]}, {"x": X[:1], "y": X},
    {"x": np.zeros((0, 3), np.float32), "y": np.zeros((0, 3), np.float32)},
    {"x": X}, {}, {"x": X, "y": X, "q": X}, {"x": X.astype(np.float64), "y": X}, {"x": X.astype(np.int32), "y": X},
    {"x": X[:, :2], "y": X}, {"x": X[0], "y": X}, {"x": 3, "y": X}, {"x": object(), "y": X}, {"x": "text", "y": X},
])
def test_feeds(feed):
    both(lambda m: m.InferenceSession(ADD).run(None, feed))


@pytest.mark.parametrize("names", [None, [], ["z"], ("z",), ["q"], ["z", "z"]])
def test_output_names(names):
    both(lambda m: m.InferenceSession(ADD).run(names, {"x": X, "y": X}))


@pytest.mark.parametrize("x", [np.array(["a", "ß"]), np.array(["a", ""], dtype=object), np.array([], dtype=object), X],
                         ids=str)
def test_strings(x):
    both(lambda m: m.InferenceSession(STRINGS).run(None, {"x": x}))


@pytest.mark.parametrize("x", [[], [np.array([1, 2])], [np.array(3), np.zeros((2, 0), np.int64)]], ids=str)
def test_sequences(x):
    both(lambda m: m.InferenceSession(OPTIONAL).run(None, {"x": x}))


@pytest.mark.parametrize("feed", [{"x": np.zeros((1, 2), np.float32)},
                                  {"x": np.zeros((1, 2), np.float32), "w": np.array([5, 6], np.float32)}])
def test_defaults(feed):
    both(lambda m: m.InferenceSession(DEFAULT).run(None, feed))


@pytest.mark.parametrize("source", [b"junkjunk", "/nope.onnx", 3, None, ADD[:20]], ids=repr)
def test_models_that_do_not_load(source):
    both(lambda m: m.InferenceSession(source).get_providers())


@pytest.mark.parametrize("call", [
    lambda m: m.SessionOptions().get_session_config_entry("nope"),
    lambda m: setattr(m.SessionOptions(), "graph_optimization_level", 3),
    lambda m: setattr(m.SessionOptions(), "enable_mem_pattern", "yes"),
    lambda m: int(m.SessionOptions().graph_optimization_level),
    lambda m: [int(v) for v in (m.GraphOptimizationLevel.ORT_DISABLE_ALL, m.GraphOptimizationLevel.ORT_ENABLE_BASIC,
                                m.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, m.GraphOptimizationLevel.ORT_ENABLE_ALL)],
    lambda m: [int(m.ExecutionMode.ORT_SEQUENTIAL), int(m.ExecutionMode.ORT_PARALLEL)],
    lambda m: m.get_device(),
    lambda m: m.InferenceSession(ADD).end_profiling(),
    lambda m: m.InferenceSession(ADD, providers=["CPUExecutionProvider"]).get_provider_options(),
])
def test_options(call):
    both(call)


def test_terminate():
    def call(m):
        options = m.RunOptions()
        options.terminate = True
        return m.InferenceSession(ADD).run(None, {"x": X, "y": X}, options)
    both(call)


@pytest.mark.parametrize("question", [
    lambda v: v.shape(), lambda v: v.data_type(), lambda v: v.element_type(), lambda v: v.is_tensor(),
    lambda v: v.has_value(), lambda v: v.device_name(), lambda v: v.is_sparse_tensor(), lambda v: v.is_tensor_sequence(),
    lambda v: v.tensor_size_in_bytes(), lambda v: v.data_ptr(), lambda v: v.numpy(), np.asarray,
])
def test_ort_values(question):
    both(lambda m: question(m.OrtValue.ortvalue_from_numpy(X)))


def test_binding():
    def call(m):
        session = m.InferenceSession(ADD)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_input("y", m.OrtValue.ortvalue_from_numpy(X))
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu() + [v.shape() for v in binding.get_outputs()]
    both(call)


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False


def imports(m, array, legacy=True):
    value = m.OrtValue.from_dlpack(array.__dlpack__() if legacy else array)
    return value.data_type(), value.shape(), array.size == 0 or value.data_ptr() == array.ctypes.data, value.numpy()


@pytest.mark.parametrize("array", [
    X, X[1:], X[:0], np.array(3.0), np.array([True, False]), np.arange(3, dtype=np.uint8), np.arange(4, dtype=np.float16),
    np.arange(3, dtype=np.int64).reshape(1, 3, 1), np.arange(3, dtype=np.uint32), READ_ONLY,
], ids=str)
@pytest.mark.parametrize("legacy", [True, False])
def test_dlpack_import(array, legacy):
    if array is READ_ONLY and not legacy:
        return  # their question for a legacy capsule is refused; ours is for a versioned one, which can say it
    both(lambda m: imports(m, array, legacy))


@pytest.mark.parametrize("array", [X, X[:0], np.array(3.0), np.array([True, False]), np.arange(4, dtype=np.float16)], ids=str)
def test_dlpack_export(array):
    def call(m):
        value = m.OrtValue.ortvalue_from_numpy(array)
        there = np.from_dlpack(value)
        return there, array.size == 0 or there.ctypes.data == value.data_ptr(), value.__dlpack_device__()
    both(call)


@pytest.mark.parametrize("source", [3, None, "text", object()], ids=repr)
def test_what_is_no_dlpack_tensor(source):
    both(lambda m: m.OrtValue.from_dlpack(source))


def test_a_dlpack_capsule_is_used_once():
    def call(m):
        capsule = X.__dlpack__()
        m.OrtValue.from_dlpack(capsule)
        return m.OrtValue.from_dlpack(capsule)
    both(call)


BUFFER = np.zeros((2, 3), np.float32)
WRONG_TYPE, WRONG_SHAPE = np.zeros((2, 3), np.int32), np.zeros((2, 2), np.float32)


@pytest.mark.parametrize("prepare", [
    lambda m, b: b.bind_output("z"),
    lambda m, b: b.bind_output("z", "cpu", 0, np.float32, [2, 3], BUFFER.ctypes.data),
    lambda m, b: b.bind_output("z", "cpu", 0, TensorProto.FLOAT, (2, 3), BUFFER.ctypes.data),
    lambda m, b: b.bind_ortvalue_output("z", m.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)),
    lambda m, b: (b.bind_output("z"), b.clear_binding_outputs(), b.bind_output("z")),
    lambda m, b: (b.bind_output("z"), b.bind_cpu_input("x", X[:1])),
    lambda m, b: (b.bind_output("z"), b.bind_ortvalue_input("x", m.OrtValue.from_dlpack(X))),
    lambda m, b: (b.bind_output("z"), b.bind_input("x", "cpu", 0, np.float32, [2, 3], X.ctypes.data)),
    # what is refused
    lambda m, b: None,
    lambda m, b: b.clear_binding_inputs(),
    lambda m, b: b.bind_cpu_input("q", X),
    lambda m, b: b.bind_output("q"),
    lambda m, b: b.bind_output("z", "cpu", 0, None, None, BUFFER.ctypes.data),
    lambda m, b: b.bind_output("z", "cpu", 0, np.int32, [2, 3], WRONG_TYPE.ctypes.data),
    lambda m, b: b.bind_output("z", "cpu", 0, np.float32, [2, 2], WRONG_SHAPE.ctypes.data),
    lambda m, b: b.bind_ortvalue_output("z", m.OrtValue.ortvalue_from_numpy(WRONG_TYPE)),
    lambda m, b: (b.bind_output("z"), b.bind_cpu_input("x", X.T)),
    lambda m, b: (b.bind_output("z"), b.bind_cpu_input("x", X.astype(np.int32))),
])
def test_bindings(prepare):
    def call(m):
        session = m.InferenceSession(ADD)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_cpu_input("y", X)
        prepare(m, binding)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()
    try:
        theirs = call(ort)
    except Exception as e:  # noqa: BLE001
        with pytest.raises((RuntimeError, ValueError)):  # ours are kinds of what theirs raises, or say more
            call(ft)
        assert isinstance(e, (RuntimeError, ValueError))
        return
    assert same(call(ft), theirs)


@pytest.mark.parametrize(("names", "feed"), [
    (None, {"x": X, "y": X}), (["z"], {"x": X, "y": X.tolist()}), (None, {"x": X}), (None, {"x": X, "y": object()}),
    (None, {"x": X, "y": X.astype(np.int32)}), (["q"], {"x": X, "y": X}),
])
def test_run_async(names, feed):
    """The same results in the callback; the same exceptions at once; errors of the run in the callback."""
    def call(m):
        done, got = threading.Event(), []
        def callback(results, user_data, error):
            got.extend([results, user_data, bool(error)])
            done.set()
        m.InferenceSession(ADD).run_async(names, feed, callback, "mine")
        assert done.wait(30)
        return got
    both(call)


@pytest.mark.parametrize("call", [
    lambda m, v: v.update_inplace(X + 1),
    lambda m, v: v.update_inplace((X + 1).T.copy().T),
    lambda m, v: v.update_inplace(m.OrtValue.ortvalue_from_numpy(X + 1)),
    lambda m, v: v.update_inplace([1]),
])
def test_update_inplace(call):
    def updated(m):
        value = m.OrtValue.ortvalue_from_numpy(X.copy())
        call(m, value)
        return value.numpy()
    both(updated)


@pytest.mark.parametrize("given", [{}, {"go": np.array(True)}], ids=["no condition", "a condition"])
def test_a_trip_count_alone_makes_the_condition_of_a_loops_body_void(given):
    """As ONNX says; onnxruntime obeys the body's condition all the same."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Not", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.FLOAT, [])])
    source = model([helper.make_node("Loop", ["m", "go" if given else "", "x"], ["y"], body=body)],
                   [("m", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [])] + [("go", TensorProto.BOOL, [])] * len(given),
                   [("y", TensorProto.FLOAT, [])])
    feed = {"m": np.array(3), "x": np.array(1, np.float32), **given}
    ours, theirs = (float(m.InferenceSession(source).run(None, feed)[0]) for m in (ft, ort))
    assert (ours, theirs) == ((2, 2) if given else (8, 2))


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions", "InferenceSession", "OrtValue", "IOBinding",
                                  "SessionIOBinding", "OrtDevice", "NodeArg", "ModelMetadata"])
def test_names_that_are_not_here_are_known(name):
    """What onnxruntime's class has and ours lacks: other devices, custom operators, adapters, tuning, sparse tensors."""
    lacking = {
        "SessionOptions": {
            "add_external_initializers", "add_external_initializers_from_files_in_memory",
            "add_free_dimension_override_by_denotation", "add_initializer", "add_provider_for_devices",
            "clear_ep_context_data_read_func", "register_custom_ops_library", "set_ep_context_data_read_func",
            "set_load_cancellation_flag", "set_provider_selection_policy", "set_provider_selection_policy_delegate"
        },
        "RunOptions": {"add_active_adapter"},
        "InferenceSession": {
            "get_input_epdevices", "get_input_memory_infos", "get_output_memory_infos",
            "get_provider_graph_assignment_info", "get_tuning_results", "release_captured_graph",
            "set_ep_dynamic_options", "set_tuning_results"
        },
        "OrtValue": {"as_sparse_tensor", "ort_value_from_sparse_tensor"},
        "IOBinding": set(), "SessionIOBinding": set(), "OrtDevice": set(),
        "NodeArg": set(),
        "ModelMetadata": set(),
    }
    theirs = {n for n in dir(getattr(ort, name)) if not n.startswith("_")}
    if name == "ModelMetadata":
        ours = dir(ft.InferenceSession(ADD).get_modelmeta())
    else:
        ours = dir(getattr(ft, name))
    assert theirs - set(ours) == lacking[name]
