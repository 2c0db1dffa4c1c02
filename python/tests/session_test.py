"""Sessions from Python: what onnxruntime's users expect of names, feeds, results and errors."""
import concurrent.futures
import pathlib
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import ADD, X, model

import forethought as ft


@pytest.fixture(scope="module")
def add():
    return ft.InferenceSession(ADD)


def test_names_with_line_ends_leave_an_error_on_its_line_and_are_exact_elsewhere():
    name = "x\nnew\x1b[31m\u2028"
    session = ft.InferenceSession(model([helper.make_node("Relu", [name], ["y"])], [(name, TensorProto.FLOAT, [2])],
                                        [("y", TensorProto.FLOAT, None)]))
    assert [i.name for i in session.get_inputs()] == [name]
    for feed in ({name: np.zeros(3, np.float32)}, {name: np.zeros(2, np.int8)}):
        with pytest.raises(RuntimeError) as error:
            session.run(None, feed)
        assert r"'x\nnew\x1b[31m\u2028'" in str(error.value) and len(str(error.value).splitlines()) == 1
    assert session.run(None, {name: np.ones(2, np.float32)})[0].tolist() == [1, 1]


@pytest.mark.parametrize("element", ["int4", "uint4", "float4_e2m1fn", "int2", "uint2"])
def test_what_does_nothing_takes_packed_types_and_others_are_refused_at_load(element):
    number = {"int4": 22, "uint4": 21, "float4_e2m1fn": 23, "int2": 26, "uint2": 25}[element]

    def session(op):
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g",
                                  [helper.make_tensor_value_info("x", number, [None])],
                                  [helper.make_tensor_value_info("y", number, [None])])
        opset = [helper.make_opsetid("", 25)]
        return ft.InferenceSession(helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())

    x = np.array([0, 1, 1, 0, 1], getattr(ml_dtypes, element))
    for op in ("Identity", "Transpose"):
        (y,) = session(op).run(None, {"x": x})
        assert y.dtype == x.dtype and y.astype(int).tolist() == [0, 1, 1, 0, 1]
    for op in ("Max", "Min", "Sum", "Dropout"):
        with pytest.raises(RuntimeError, match=rf"\({op}\) › input 0 .* is [a-z0-9]+, which ONNX does not allow"):
            session(op)


def test_inputs_and_outputs_are_described(add):
    assert [(a.name, a.type, a.shape) for a in add.get_inputs()] == [("x", "tensor(float)", ["n", 3]),
                                                                     ("y", "tensor(float)", [None, 3])]
    assert [(a.name, a.type) for a in add.get_outputs()] == [("z", "tensor(float)")]
    assert repr(add.get_inputs()[0]) == "NodeArg(name='x', type='tensor(float)', shape=['n', 3])"
    assert add.get_providers() == ["CPUExecutionProvider"]
    assert add.get_provider_options() == {"CPUExecutionProvider": {}}


def test_path_pathlib_and_bytes_give_the_same(tmp_path: pathlib.Path):
    path = tmp_path / "add.onnx"
    path.write_bytes(ADD)
    for source in (path, str(path), ADD, bytearray(ADD)):
        out, = ft.InferenceSession(source).run(None, {"x": X, "y": X})
        np.testing.assert_array_equal(out, X + X)


def test_outputs_can_be_named(add):
    for names in (None, [], ["z"], ("z",)):
        out, = add.run(names, {"x": X, "y": X})
        assert type(out) is np.ndarray and out.dtype == np.float32 and out.flags.writeable


@pytest.mark.parametrize("feed, error, words", [
    ({"x": X}, ValueError, "Required inputs"),
    ({"x": X, "y": X, "q": X}, ft.InvalidArgument, "no input 'q'"),
    ({"x": X.astype(np.float64), "y": X}, ft.InvalidArgument, r"wants tensor\(float\).*tensor\(double\)"),
    ({"x": X[:, :2], "y": X}, ft.InvalidArgument, r"\[2,2\]"),
    ({"x": X[0], "y": X}, ft.InvalidArgument, r"\[3\]"),
    ({"x": None, "y": X}, ft.InvalidArgument, "missing"),
    ({"x": 3, "y": X}, RuntimeError, "Unable to handle object of type <class 'int'>"),
    ({"x": X.astype("datetime64[s]"), "y": X}, ft.InvalidArgument, "no ONNX type"),
    ({"x": np.array(["a"]), "y": X}, ft.InvalidArgument, r"tensor\(string\)"),
])
def test_wrong_feeds_are_told(add, feed, error, words):
    with pytest.raises(error, match=words):
        add.run(None, feed)
    np.testing.assert_array_equal(add.run(None, {"x": X, "y": X})[0], X + X)  # still usable


def test_unknown_output_is_told(add):
    with pytest.raises(ft.InvalidArgument, match="no output 'q'"):
        add.run(["q"], {"x": X, "y": X})


@pytest.mark.parametrize("source, error", [
    (b"", ft.InvalidGraph), (b"junkjunk", ft.InvalidProtobuf), (ADD[:-5], ft.InvalidProtobuf),
    ("/nope.onnx", ft.NoSuchFile), (3, TypeError),
    (model([helper.make_node("Foo", ["x"], ["z"])], [("x", TensorProto.FLOAT, [1])], [("z", TensorProto.FLOAT, [1])]),
     ft.NotImplemented),
    (model([helper.make_node("Relu", ["q"], ["z"])], [("x", TensorProto.FLOAT, [1])], [("z", TensorProto.FLOAT, [1])]),
     ft.InvalidGraph),
])
def test_wrong_models_are_told(source, error):
    with pytest.raises(error):
        ft.InferenceSession(source)


def test_unknown_provider_is_an_error_unless_fallback_was_asked_for():
    with pytest.raises(ft.ForethoughtError, match="NopeExecutionProvider"):
        ft.InferenceSession(ADD, providers=["NopeExecutionProvider"])
    session = ft.InferenceSession(ADD, providers=["NopeExecutionProvider", "CPUExecutionProvider"], allow_fallback=True)
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("providers, options", [(3, None), ("CPUExecutionProvider", None), ([3], None),
                                                (["CPUExecutionProvider"], []), (["CPUExecutionProvider"], [3])])
def test_wrong_providers_are_told(providers, options):
    with pytest.raises(ValueError, match="provider"):
        ft.InferenceSession(ADD, providers=providers, provider_options=options)


def test_contiguous_inputs_are_borrowed_and_others_copied():
    session = ft.InferenceSession(ADD)
    read_only = X.copy()
    read_only.flags.writeable = False
    session.run(None, {"x": read_only, "y": X})
    assert session.summary()["input_copies"] == 0
    # Of those with strides a sum takes rows: also backwards, with gaps, and repeated.
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, :3]
    for other in (X[::-1], X[:, ::-1], rows, np.broadcast_to(X[:1], X.shape)):
        np.testing.assert_array_equal(session.run(None, {"x": other, "y": X})[0], other + X)
    assert session.summary()["input_copies"] == 0
    windows = np.lib.stride_tricks.sliding_window_view(X.reshape(-1)[:4], 3)  # elements share places
    columns = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    for other in (columns, X.astype(">f4"), windows):
        y = np.ones(other.shape, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": other, "y": y})[0], other + y)
    assert session.summary()["input_copies"] == 3
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.float32, offset=1).reshape(X.shape)
    np.testing.assert_array_equal(session.run(None, {"x": unaligned, "y": X})[0], X + X)
    assert session.summary()["input_copies"] == 4
    np.testing.assert_array_equal(X, np.arange(6, dtype=np.float32).reshape(2, 3))


def test_lists_are_taken_for_tensors(add):
    np.testing.assert_array_equal(add.run(None, {"x": X.tolist(), "y": X})[0], X + X)


def test_empty_and_scalar_tensors():
    session = ft.InferenceSession(model([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, None)],
                                        [("y", TensorProto.FLOAT, None)]))
    for x in (np.float32(2), np.array(3, np.float32), np.zeros((0, 4), np.float32)):
        out, = session.run(None, {"x": x})
        assert out.shape == np.shape(x)
        np.testing.assert_array_equal(out, -x)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint64, np.bool_, ml_dtypes.bfloat16])
def test_types_pass_through(dtype):
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session = ft.InferenceSession(model([helper.make_node("Transpose", ["x"], ["y"])], [("x", number, [2, 3])],
                                        [("y", number, [3, 2])]))
    x = np.arange(6).reshape(2, 3).astype(dtype)
    out, = session.run(None, {"x": x})
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(out, x.T)


def test_strings():
    session = ft.InferenceSession(model([helper.make_node("Transpose", ["x"], ["y"])],
                                        [("x", TensorProto.STRING, ["a", "b"])], [("y", TensorProto.STRING, None)]))
    for x in (np.array([["a", "ßé"], ["", "dd"]]), np.array([["a", "ßé"], ["", "dd"]], dtype=object)):
        out, = session.run(None, {"x": x})
        assert out.dtype == object
        assert out.tolist() == [["a", ""], ["ßé", "dd"]]
    with pytest.raises(ft.InvalidArgument, match="must be str"):
        session.run(None, {"x": np.array([[1, 2]], dtype=object)})


def test_sequences():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    index = helper.make_tensor("i", TensorProto.INT64, [], [1])
    session = ft.InferenceSession(model(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"]), helper.make_node("SequenceInsert", ["s", "y"], ["t"])],
        [sequence], [("y", TensorProto.FLOAT, None), helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None)],
        [index]))
    items = [np.ones((2,), np.float32), np.arange(3, dtype=np.float32)]
    y, t = session.run(None, {"s": items})
    items[0][:] = 7  # the results are no views of what was fed
    np.testing.assert_array_equal(y, items[1])
    assert isinstance(t, list) and len(t) == 3
    np.testing.assert_array_equal(t[0], np.ones((2,), np.float32))
    with pytest.raises(ft.InvalidArgument, match="a list"):
        session.run(None, {"s": items[0]})


def test_inputs_with_defaults_can_be_left_out():
    session = ft.InferenceSession(model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [2]), ("w", TensorProto.FLOAT, [2])],
        [("y", TensorProto.FLOAT, [2])], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])]))
    assert [a.name for a in session.get_inputs()] == ["x"]
    assert [a.name for a in session.get_overridable_initializers()] == ["w"]
    x = np.zeros(2, np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [1, 2]
    assert session.run(None, {"x": x, "w": x})[0].tolist() == [0, 0]


def test_results_of_constants_are_the_callers_own():
    constant = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    session = ft.InferenceSession(model([helper.make_node("Identity", ["w"], ["y"]),
                                         helper.make_node("Identity", ["x"], ["z"])],
                                        [("x", TensorProto.FLOAT, [2])],
                                        [("y", TensorProto.FLOAT, [2]), ("z", TensorProto.FLOAT, [2])], [constant]))
    x = np.zeros(2, np.float32)
    y, z = session.run(None, {"x": x})
    y[:], z[:] = 9, 9
    assert x.tolist() == [0, 0]
    assert session.run(None, {"x": x})[0].tolist() == [1, 2]


def test_metadata():
    raw = onnx.load_model_from_string(ADD)
    raw.producer_name, raw.model_version, raw.domain, raw.doc_string = "maker", 7, "org.x", "what it does"
    helper.set_model_props(raw, {"alphabet": "abc"})
    meta = ft.InferenceSession(raw.SerializeToString()).get_modelmeta()
    assert (meta.producer_name, meta.version, meta.domain, meta.description) == ("maker", 7, "org.x", "what it does")
    assert meta.graph_name == "g" and meta.custom_metadata_map == {"alphabet": "abc"}


def test_options_are_checked_and_kept():
    options = ft.SessionOptions()
    options.graph_optimization_level = ft.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False
    options.add_session_config_entry("k", "v")
    with pytest.raises(TypeError):
        options.plan_mode = 3
    with pytest.raises(TypeError):
        options.graph_optimization_level = 3
    with pytest.raises(TypeError):
        options.intra_op_num_threads = True
    with pytest.raises(RuntimeError):
        options.get_session_config_entry("nope")
    session = ft.InferenceSession(ADD, options)
    options.intra_op_num_threads = 2
    assert session.get_session_options().intra_op_num_threads == 1
    assert session.get_session_options().get_session_config_entry("k") == "v"
    np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], X + X)


def test_a66_every_mode_of_planning_gives_the_same():
    rng = np.random.default_rng(3)
    widths = (64, 40, 8, 64, 24, 56, 16)
    weights = [numpy_helper.from_array(rng.standard_normal((m, n), dtype=np.float32), f"w{k}")
               for k, (m, n) in enumerate(zip(widths, widths[1:]))]
    chain = model([helper.make_node("MatMul", [f"t{k}", f"w{k}"], [f"t{k + 1}"]) for k in range(6)],
                  [("t0", TensorProto.FLOAT, [32, 64])], [("t6", TensorProto.FLOAT, [32, 16])], weights)
    x, made = rng.standard_normal((32, 64), dtype=np.float32), {}
    for mode in ("packed", "exact", "slots", "off"):
        options = ft.SessionOptions()
        options.plan_mode = mode
        session = ft.InferenceSession(chain, options)
        made[mode] = session.run(None, {"t0": x})[0], session.memory_plan()
    assert all(np.array_equal(made["packed"][0], y) for y, _ in made.values())
    peaks = {mode: plan["peak"] for mode, (_, plan) in made.items()}
    assert peaks["packed"] <= peaks["slots"] < peaks["off"]
    assert made["slots"][1]["slots"] == 2 and made["packed"][1]["slots"] == 0
    options.plan_mode = "half"
    with pytest.raises(ft.InvalidArgument, match="packed, exact, slots, off"):
        ft.InferenceSession(ADD, options)


def test_free_dimensions_are_bound():
    options = ft.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    session = ft.InferenceSession(ADD, options)
    assert session.get_inputs()[0].shape == [2, 3]
    with pytest.raises(ft.InvalidArgument):
        session.run(None, {"x": X[:1], "y": X[:1]})


def test_terminate_stops_a_run_and_leaves_the_session_usable(add):
    options = ft.RunOptions()
    options.terminate = True
    with pytest.raises(ft.Fail, match="cancelled"):
        add.run(None, {"x": X, "y": X}, options)
    options.terminate = False
    np.testing.assert_array_equal(add.run(None, {"x": X, "y": X}, options)[0], X + X)


def test_async(add):
    done = threading.Event()
    got = []
    add.run_async(None, {"x": X, "y": X}, lambda *args: (got.append(args), done.set()), "mine")
    assert done.wait(30)
    (results, user_data, error), = got
    np.testing.assert_array_equal(results[0], X + X)
    assert (user_data, error) == ("mine", "")


def test_a_shape_that_comes_with_a_run_is_checked():
    bytes_ = model([helper.make_node("Reshape", ["x", "s"], ["y"])],
                   [("x", TensorProto.FLOAT, ["n"]), ("s", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, None)])
    session = ft.InferenceSession(bytes_)
    x = np.arange(3, dtype=np.float32)
    for wanted in ([3], [-1], [0]):
        assert session.run(None, {"x": x, "s": np.array(wanted)})[0].shape == (3,)
    for wanted in ([5], [-7], [2]):
        with pytest.raises(ft.InvalidArgument):
            session.run(None, {"x": x, "s": np.array(wanted)})


def test_text_in_models_that_is_no_utf8_hides_nothing():
    made = ADD.replace(b"Add", b"A\xe9d")
    with pytest.raises(ft.NotImplemented, match="A\N{REPLACEMENT CHARACTER}d .*no such operator"):
        ft.InferenceSession(made)
    named = onnx.load_from_string(ADD)
    named.producer_name, named.graph.name = "prod_", "graph_"
    session = ft.InferenceSession(named.SerializeToString().replace(b"prod_", b"pr\xe9d_").replace(b"graph_", b"gr\xe9ph_"))
    assert session.get_modelmeta().producer_name == "pr\N{REPLACEMENT CHARACTER}d_"
    assert session.get_modelmeta().graph_name == "gr\N{REPLACEMENT CHARACTER}ph_"


def test_the_interpreter_waits_for_callbacks_that_go_on():
    script = """
import threading, time, sys
sys.path[:0] = %r
from small_models import ADD, X
import forethought as ft
started, ending = threading.Event(), threading.Event()
def callback(*_):
    started.set(); ending.wait(); time.sleep(0.2); print("callback ends", flush=True)
ft.InferenceSession(ADD).run_async(None, {"x": X, "y": X}, callback, None)
started.wait(); print("script ends", flush=True); ending.set()
""" % [str(pathlib.Path(__file__).parent), *sys.path]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["script ends", "callback ends", ""]), done.stderr


def test_the_optimized_model_is_saved_and_loads(tmp_path: pathlib.Path):
    options = ft.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    ft.InferenceSession(ADD, options)
    out, = ft.InferenceSession(tmp_path / "saved.onnx").run(None, {"x": X, "y": X})
    np.testing.assert_array_equal(out, X + X)


def test_many_loads_save_under_one_name(tmp_path: pathlib.Path):
    path = tmp_path / "saved.onnx"
    path.write_bytes(b"old")
    path.chmod(0o600)
    options = ft.SessionOptions()
    options.optimized_model_filepath = path
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for loaded in [threads.submit(ft.InferenceSession, ADD, options) for _ in range(40)]:
            loaded.result()
    assert [p.name for p in tmp_path.iterdir()] == ["saved.onnx"] and path.stat().st_mode & 0o7777 == 0o600
    out, = ft.InferenceSession(path).run(None, {"x": X, "y": X})
    np.testing.assert_array_equal(out, X + X)


def test_profile_has_an_event_for_each_step(tmp_path: pathlib.Path):
    import json
    options = ft.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "p_")
    session = ft.InferenceSession(ADD, options)
    session.run(None, {"x": X, "y": X})
    session.run(None, {"x": X, "y": X})
    events = json.loads(pathlib.Path(session.end_profiling()).read_text())
    assert len(events) == 2 and all(e["dur"] >= 0 for e in events)
    assert ft.InferenceSession(ADD).end_profiling() == ""


def test_what_the_runtime_decided(add):
    facts = add.summary()
    assert facts["nodes_in_file"] == 1 and facts["load_ms"] > 0
    plan = add.memory_plan({"x": [2, 3], "y": [2, 3]})
    assert plan["lower_bound"] <= plan["peak"] and plan["kernels"][0]["kernel"] and plan["steps"][0]["name"]
    assert {v["name"]: v["dims"] for v in plan["values"]}["x"] == [2, 3]
    assert "step #0" in add.plan_text({"x": [2, 3], "y": [2, 3]})
    with pytest.raises(ft.InvalidArgument, match="not fixed"):
        add.memory_plan()
    decided = add.stages()
    assert [s["stage"] for s in decided["stages"]][0] == "import"
    assert [p["provider"] for p in decided["placements"]] == ["CPUExecutionProvider"]


def test_module_names():
    assert ft.get_available_providers() == ["CPUExecutionProvider"]
    assert ft.get_device() == "CPU"
    assert ft.get_version_string() == ft.__version__
    ft.set_default_logger_severity(2)
    with pytest.raises(RuntimeError):
        ft.set_default_logger_severity(9)
    from forethought.capi import onnxruntime_pybind11_state as state
    assert state.InvalidArgument is ft.InvalidArgument


FORKED = {
    "does nothing": "",
    "drops the session": "del session",
    "runs": "assert (session.run(None, feed)[0] == X + X).all()",
    "is told why no callback can come": """
try:
    session.run_async(None, feed, lambda *_: os._exit(3), None)
except ft.InvalidArgument as e:
    assert "forked after the session's first run_async" in str(e) and "load a session here" in str(e), e
else:
    os._exit(4)""",
    "uses one of its own": """
session, done = ft.InferenceSession(ADD), threading.Event()
session.run_async(None, feed, lambda *_: done.set(), None)
assert done.wait(60)""",
}


@pytest.mark.parametrize("what", FORKED)
def test_a_process_that_is_forked_after_run_async(what):
    script = """
import os, signal, sys, threading
sys.path[:0] = %r
from small_models import ADD, X
import forethought as ft
options, feed, done = ft.SessionOptions(), {"x": X, "y": X}, threading.Event()
options.idle_trim_ms = 60_000
session = ft.InferenceSession(ADD, options)
session.run_async(None, feed, lambda *_: done.set(), None)
done.wait()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(100)
%s
sys.exit(17)
""" % ([str(pathlib.Path(__file__).parent), *sys.path], FORKED[what])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 17, (done.returncode, done.stderr)
