"""What a caller can get wrong about memory, shapes, names and options: each is refused with what to do."""
import copy
import threading

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import ADD, STATE, X, model

import forethought as ft

BODY = helper.make_graph(
    [helper.make_node("Neg", ["v"], ["next"]), helper.make_node("Identity", ["go"], ["on"]),
     helper.make_node("Identity", ["v"], ["slice"])], "body",
    [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
     helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
    [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
     helper.make_tensor_value_info("slice", TensorProto.FLOAT, [2])])


def loop(outputs, feeds_trips=True) -> bytes:
    """A loop over BODY, which never ends by itself; with its trips as input `m`, or with none."""
    inputs = [("m", TensorProto.INT64, [])] * feeds_trips + [("x", TensorProto.FLOAT, [2])]
    return model([helper.make_node("Loop", ["m" if feeds_trips else "", "", "x"], outputs, body=BODY)], inputs,
                 [(o, TensorProto.FLOAT, None) for o in outputs if o])


ONES = np.ones(2, np.float32)


@pytest.mark.parametrize(("feed", "trips"), [({}, False), ({"m": np.array(2**63 - 1)}, True)], ids=["none", "2^63-1"])
def test_a_loop_that_never_ends_is_cancelled(feed, trips):
    session = ft.InferenceSession(loop(["y"], trips))
    options = ft.RunOptions()
    threading.Timer(0.2, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(ft.Fail, match="cancelled"):
        session.run(None, {**feed, "x": ONES}, options)
    assert session.memory_stats()["leased"] == 0


def test_trip_counts_that_cannot_be():
    session = ft.InferenceSession(loop(["y", "all"]))
    with pytest.raises(ft.InvalidArgument, match=r"'m' wants tensor\(int64\).*tensor\(uint64\)"):
        session.run(None, {"m": np.array(2**63), "x": ONES})
    with pytest.raises(ft.ForethoughtError, match="Loop.*9223372036854775807"):
        session.run(None, {"m": np.array(2**63 - 1), "x": ONES})
    y, every = session.run(None, {"m": np.array(-2**63), "x": ONES})  # what 2^63 is in 64 bits: no trip
    assert y.tolist() == [1, 1] and every.shape[0] == 0


def test_a_shape_over_its_bound_says_what_to_do():
    options = ft.SessionOptions()
    options.add_max_dimension("n", np.int64(4))
    session = ft.InferenceSession(ADD, options)
    session.run(None, {"x": np.zeros((4, 3), np.float32), "y": X[:1]})
    assert {v["name"]: v["dims"] for v in session.memory_plan({"y": [1, 3]})["values"]}["x"] == [4, 3]
    with pytest.raises(ft.InvalidArgument, match="n at most 4.*what came has 5. Load the model with a larger bound"):
        session.run(None, {"x": np.zeros((5, 3), np.float32), "y": X[:1]})


ROOM = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(("bind", "message"), [
    (lambda b: b.bind_output("z", "cpu", 0, np.int32, [2, 3], ROOM.ctypes.data), "'z' is f32.*given for it is i32"),
    (lambda b: b.bind_output("z", "cpu", 0, np.float32, [2, 2], ROOM.ctypes.data), r"\[2,3\].*\[2,2\].*give memory of that"),
    (lambda b: b.bind_output("z", "cpu", 0, np.float32, [2, 3], ROOM.ctypes.data + 2), "4 does not divide"),
    (lambda b: b.bind_output("z", "cpu", 0, np.float32, [2, -3], ROOM.ctypes.data), "impossible shape"),
    (lambda b: b.bind_output("z", "cpu", 0, np.float32, [2, 3], -8), "address of the memory is -8"),
    (lambda b: b.bind_output("z", "cpu", 0, np.float32, [2, 3], 0), "the address is 0"),
    (lambda b: b.bind_ortvalue_output("z", ft.OrtValue.ortvalue_from_numpy(ROOM[:2, ::2])),
     "is a copy, since its source has strides.*bind a contiguous array"),
    (lambda b: b.bind_ortvalue_output("z", ft.OrtValue.ortvalue_from_numpy(np.broadcast_to(np.float32(0), (2, 3)))),
     "strides|read-only"),
])
def test_memory_for_an_output_that_does_not_fit(bind, message):
    session = ft.InferenceSession(ADD)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", X)
    with pytest.raises(ft.InvalidArgument, match=message):
        bind(binding)
        session.run_with_iobinding(binding)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + X)


def test_the_same_memory_bound_twice():
    session = ft.InferenceSession(STATE)
    binding = session.io_binding()
    room = np.zeros(4, np.float32)
    for name in ("h", "x"):
        binding.bind_cpu_input(name, np.ones(3, np.float32))
    binding.bind_output("next", "cpu", 0, np.float32, [3], room.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, [3], room[1:].ctypes.data)
    with pytest.raises(ft.InvalidArgument, match="outputs 'next' and 'y' were given the same memory.*give each its own"):
        session.run_with_iobinding(binding)


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "message"), [
    (lambda o: setattr(o, "intra_op_num_threads", -2), "threads of a run is -2; it is to be from 0 to 1024"),
    (lambda o: setattr(o, "intra_op_num_threads", 2**40), "from 0 to 1024"),
    (lambda o: setattr(o, "inter_op_num_threads", -2), "inter_op_num_threads is -2; it is at least 0"),
    (lambda o: setattr(o, "plan_cache_capacity", -1), "shapes seen before is -1; it is to be from 1"),
    (lambda o: setattr(o, "memory_limit", -1), "memory limit is -1 bytes; 0 stands for none"),
    (lambda o: setattr(o, "memory_limit", 2**61), "more than any machine has"),
    (lambda o: setattr(o, "memory_limit", 2**64), "more than 64 bits hold"),
    (lambda o: setattr(o, "retain_io", -2), "I/O arena cannot keep -2 bytes"),
    (lambda o: setattr(o, "idle_trim_ms", -1), "-1 ms"),
    (lambda o: o.add_max_dimension("q", 4), "no input has a dim 'q'.*Their symbolic dims: n"),
    (lambda o: o.add_max_dimension("n", 0), "it is at least 1"),
    (lambda o: o.add_free_dimension_override_by_name("n", -1), "'n' is bound to -1; a dim is at least 0"),
    (lambda o: (o.add_max_dimension("n", 4), o.add_free_dimension_override_by_name("n", 4)), "give one of the two"),
    (lambda o: setattr(o, "optimized_model_filepath", "/nowhere/at/all.onnx"), "save the optimised model"),
    (lambda o: setattr(o, "optimized_model_filepath", "a\0b"), "holds a byte of 0"),
])
def test_options_that_cannot_be_are_the_callers_error(change, message):
    options = ft.SessionOptions()
    with pytest.raises(ft.InvalidArgument, match=message):
        change(options)
        ft.InferenceSession(ADD, options)


@pytest.mark.parametrize(("variable", "value"), [("LANES", "many"), ("THREADS", "-1"), ("PLAN", "fast"), ("LOG", "loud"),
                                                 ("ISA", "sse"), ("VALIDATE", "maybe"), ("MEMORY_LIMIT", "lots"),
                                                 ("DEVICE_MEMORY_LIMIT", "-1")])
def test_nonsense_in_the_environment_is_told(monkeypatch, variable, value):
    monkeypatch.setenv(f"FORETHOUGHT_{variable}", value)
    with pytest.raises(ft.InvalidArgument, match=f"FORETHOUGHT_{variable}.*'{value}'"):
        ft.InferenceSession(ADD)
    monkeypatch.setenv(f"FORETHOUGHT_{variable}", "")  # as good as not set
    ft.InferenceSession(ADD)


@pytest.mark.parametrize(("call", "error"), [
    (lambda s: s.memory_plan({"x": [2, 3, 4], "y": [2, 3]}), r"'x' wants tensor\(float\)\[n,3\]; .*\[2,3,4\]"),
    (lambda s: s.memory_plan({"x": [-2, 3], "y": [2, 3]}), r"'x' wants .*\[-2,3\]"),
    (lambda s: s.memory_plan({"x": [2, 4], "y": [2, 3]}), r"'x' wants .*\[2,4\]"),
    (lambda s: s.memory_plan({"q": [2, 4]}), "not fixed|no input 'q'"),
    (lambda s: s.io_binding().bind_output("z", "cpu", 1), "no device cpu:1"),
    (lambda s: ft.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 99), "element type 99"),
    (lambda s: ft.OrtValue.ortvalue_from_numpy_with_onnx_type(X, -1), "element type -1"),
    (lambda s: ft.OrtValue.ortvalue_from_numpy_with_onnx_type(X, TensorProto.STRING), "element type 8"),
    (lambda s: ft.InferenceSession(""), "the path of the model is empty"),
])
def test_shapes_devices_and_types_that_cannot_be(call, error):
    with pytest.raises(ft.InvalidArgument, match=error):
        call(ft.InferenceSession(ADD))


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(ft.NoSuchFile, match="no regular file"):
        ft.InferenceSession(tmp_path)


def test_a_path_with_a_byte_of_zero_is_no_shorter_path(tmp_path):
    (tmp_path / "m").write_bytes(ADD)
    with pytest.raises(ft.InvalidArgument, match=r"m\\x00.onnx' holds a byte of 0"):
        ft.InferenceSession(f"{tmp_path}/m\0.onnx")


def test_a_path_that_is_no_utf8(tmp_path):
    path = tmp_path / "caf\udce9.onnx"
    path.write_bytes(ADD)
    assert ft.InferenceSession(path).run(None, {"x": X, "y": X})[0].shape == (2, 3)
    options = ft.SessionOptions()
    options.optimized_model_filepath = tmp_path / "\udce9.onnx"
    ft.InferenceSession(path, options)
    assert (tmp_path / "\udce9.onnx").stat().st_size > 0


NEVER = lambda *_: pytest.fail("the callback of a run that never was")  # noqa: E731


@pytest.mark.parametrize("call", [
    lambda s: s.run_async(None, {"x": X, "y": X}, 5, None),
    lambda s: s.run_async(None, {"x": X, "y": X}, None, None),
    lambda s: s.run_async("z", {"x": X, "y": X}, NEVER, None),
    lambda s: s.run_async([5], {"x": X, "y": X}, NEVER, None),
    lambda s: s.run_async(None, [X, X], NEVER, None),
    lambda s: s.run_async(None, {"x": X, "y": X}, NEVER, None, 5),
    lambda s: s.run("z", {"x": X, "y": X}),
    lambda s: s.run([5], {"x": X, "y": X}),
    lambda s: s.run(5, {"x": X, "y": X}),
    lambda s: s.run(None, 5),
    lambda s: s.run(None, {"x": X, "y": X, 5: X}),
    lambda s: s.run(None, {"x": X, "y": X}, 5),
    lambda s: s.run_with_ort_values(None, {"x": X, "y": X}),
    lambda s: s.run_with_iobinding(5),
    lambda s: s.io_binding().bind_ortvalue_output("z", X),
    lambda s: s.io_binding().bind_ortvalue_input("x", X),
    lambda s: s.io_binding().bind_output("z", "cpu", 0, np.float32, [2, 3.0], ROOM.ctypes.data),
    lambda s: s.memory_plan({"x": [2.0, 3], "y": [2, 3]}),
    lambda s: s.memory_plan({"x": [True, 3], "y": [2, 3]}),
    lambda s: s.trim(1.5),
    lambda s: s.set_memory_limit("1M"),
    lambda s: s.set_retention(io=None),
    lambda s: ft.set_memory_limit(1.5),
    lambda s: ft.set_device_memory_limit("1M"),
    lambda s: ft.InferenceSession(ADD, 5),
    lambda s: s.memory_plan({"x": 5, "y": [2, 3]}),
    lambda s: ft.InferenceSession(ADD, disabled_optimizers="fold"),
    lambda s: ft.InferenceSession(ADD, disabled_optimizers=[5]),
    lambda s: ft.SessionOptions().add_provider(5, {}),
    lambda s: setattr(ft.RunOptions(), "terminate", 5),
    lambda s: ft.OrtValue(X),
    lambda s: ft.OrtDevice(5),
    lambda s: s.io_binding().bind_output("z", "cpu", 1.5),
    lambda s: setattr(ft.SessionOptions(), "memory_limit", 1.5),
    lambda s: ft.SessionOptions().add_max_dimension("n", 1.5),
])
def test_what_is_of_another_kind_is_a_type_error_at_once(call):
    with pytest.raises(TypeError):
        call(ft.InferenceSession(ADD))


@pytest.mark.parametrize(("options", "name", "meant"), [
    (ft.SessionOptions, "memory_limt", "memory_limit"), (ft.RunOptions, "terminat", "terminate"),
])
def test_an_option_that_is_not_there_is_an_error(options, name, meant):
    with pytest.raises(AttributeError, match=f"{options.__name__} has no '{name}'; did you mean '{meant}'"):
        setattr(options(), name, 1)
    kept = type("Mine", (options,), {})()
    kept.note = "a class of one's own may have more"
    assert copy.copy(kept).note == kept.note


@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint8])
def test_whole_numbers_of_numpy_are_taken(number):
    options = ft.SessionOptions()
    options.intra_op_num_threads, options.memory_limit = number(1), np.int64(1 << 30)
    options.retain_io, options.idle_trim_ms, options.plan_cache_capacity = number(64), number(100), number(3)
    options.log_severity_level = number(2)
    options.add_max_dimension("n", number(8))
    session = ft.InferenceSession(ADD, options)
    shape = [number(2), number(3)]
    assert session.memory_plan({"x": shape, "y": tuple(shape)})["values"]
    assert "step" in session.plan_text({"x": shape, "y": shape})
    binding = session.io_binding()
    out = np.zeros((2, 3), np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", number(0), number(1), shape, np.uint64(X.ctypes.data))
    binding.bind_output("z", "cpu", number(0), number(1), shape, np.uint64(out.ctypes.data))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, X + X)
    assert ft.OrtValue.ortvalue_from_shape_and_type(shape, number(1)).shape() == [2, 3]
    session.set_memory_limit(np.int64(1 << 30))
    session.set_retention(number(8), number(8), number(8))
    assert session.trim(number(0)) >= 0
    free = ft.SessionOptions()
    free.add_free_dimension_override_by_name("n", number(2))
    assert ft.InferenceSession(ADD, free).get_inputs()[0].shape == [2, 3]


# --- names and texts that are no UTF-8 --------------------------------------------------------------------------------


def renamed(source: bytes, **names: bytes) -> bytes:
    for name, raw in names.items():
        assert source.count(name.encode()) and len(name) == len(raw)
        source = source.replace(name.encode(), raw)
    return source


def test_names_that_are_no_utf8_are_used_as_they_show():
    made = model([helper.make_node("Add", ["input_", "other_"], ["output_"])],
                 [("input_", TensorProto.FLOAT, [2, 3]), ("other_", TensorProto.FLOAT, [2, 3])],
                 [("output_", TensorProto.FLOAT, None)])
    session = ft.InferenceSession(renamed(made, input_=b"\xe9npt_\xff", output_=b"o\xfctput_"))
    name, out = session.get_inputs()[0].name, session.get_outputs()[0].name
    assert (name, out) == ("\udce9npt_\udcff", "o\udcfctput_")
    assert r"'\udce9npt_\udcff'" in repr(session.get_inputs()[0])
    feed = {name: X, "other_": X[::-1]}
    np.testing.assert_array_equal(session.run([out], feed)[0], X + X[::-1])
    binding = session.io_binding()
    for key, value in feed.items():
        binding.bind_cpu_input(key, value)
    binding.bind_output(out)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + X[::-1])
    done, got = threading.Event(), []
    session.run_async([out], feed, lambda results, *_: (got.extend(results), done.set()), None)
    assert done.wait(30)
    np.testing.assert_array_equal(got[0], X + X[::-1])
    assert session.memory_plan({name: [2, 3]})["values"]
    with pytest.raises(ft.InvalidArgument, match="no input '\N{REPLACEMENT CHARACTER}'"):
        session.run(None, {**feed, "\udce9": X})
    with pytest.raises(UnicodeEncodeError):  # no bytes at all: half of a pair
        session.run(None, {**feed, "\ud800": X})


def test_dims_whose_names_are_no_utf8_take_numbers():
    made = model([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["dim_"])], [("y", TensorProto.FLOAT, None)])
    made = renamed(made, dim_=b"d\xefm_")
    name, = ft.InferenceSession(made).get_inputs()[0].shape
    free, most = ft.SessionOptions(), ft.SessionOptions()
    free.add_free_dimension_override_by_name(name, 2)
    most.add_max_dimension(name, 2)
    assert ft.InferenceSession(made, free).get_inputs()[0].shape == [2]
    with pytest.raises(ft.InvalidArgument, match="at most 2"):
        ft.InferenceSession(made, most).run(None, {"x": np.ones(3, np.float32)})


def test_strings_that_are_no_utf8_come_back_in():
    words = helper.make_tensor("w", TensorProto.STRING, [2], [b"caf\xe9", b"ok"])
    source = ft.InferenceSession(model([helper.make_node("Identity", ["w"], ["y"])], [], [("y", TensorProto.STRING, [2])],
                                       [words]))
    echo = ft.InferenceSession(model([helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.STRING, [2])],
                                     [("y", TensorProto.STRING, [2])]))
    out, = source.run(None, {})
    assert out.tolist() == ["caf\udce9", "ok"]
    for again in (out, out.astype("U"), np.array([b"caf\xe9", b"ok"], object), np.array([b"caf\xe9", b"ok"])):
        assert echo.run(None, {"x": again})[0].tolist() == ["caf\udce9", "ok"]
    assert ft.OrtValue.ortvalue_from_numpy(out).numpy().tolist() == ["caf\udce9", "ok"]


# --- where copies go, and what is not shared --------------------------------------------------------------------------


def strided(n: int) -> np.ndarray:
    return np.ones((n, 9), np.float32)[:, ::3]  # too far apart for a sum to read it as it lies


def test_what_has_to_be_copied_lies_in_the_io_arena():
    session = ft.InferenceSession(ADD)
    big = strided(1000)
    session.run(None, {"x": big, "y": big})
    session.trim()
    binding = session.io_binding()
    binding.bind_cpu_input("x", big)
    held = session.memory_stats()
    assert held["leased"] == 12000 and held["live"] + held["retained"] + held["padding"] == held["mapped"]
    assert [h["buffers"] for h in session.memory_report()["holders"] if h["value"] == "x" and h["role"] == "leased"] == [1]
    binding.bind_cpu_input("y", X[:1])
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], big + X[:1])
    del binding
    assert session.memory_stats()["leased"] == 0
    peak = session.memory_stats()["peak"]
    session.run(None, {"x": big, "y": strided(1000)})
    assert session.memory_stats()["peak"] >= peak and session.memory_stats()["leased"] == 0
    mapped = session.memory_stats()["mapped"]
    for _ in range(3):  # the arena's blocks serve again
        session.run(None, {"x": big, "y": big})
    assert session.memory_stats()["mapped"] == mapped


@pytest.mark.parametrize("array", [
    strided(2), strided(2).T.copy().T, strided(2).astype(">f4"), np.frombuffer(b"\0" + bytes(24), np.float32, offset=1)
], ids=["strides", "order of columns", "order of bytes", "alignment"])
def test_every_kind_of_copy_is_charged(array):
    session = ft.InferenceSession(ADD)
    array = array.reshape(2, 3) if array.ndim == 1 else array
    binding = session.io_binding()
    binding.bind_cpu_input("x", array)
    assert session.memory_stats()["leased"] == 24
    assert session.summary()["input_copied_bytes"] == 24


def test_types_smaller_than_a_byte_are_charged():
    made = model([helper.make_node("Relu", ["f"], ["y"])], [("x", TensorProto.INT4, [5]), ("f", TensorProto.FLOAT, [2])],
                 [("y", TensorProto.FLOAT, [2])])
    session = ft.InferenceSession(made)
    x = np.array([1, -2, 3, -4, 5]).astype(ml_dtypes.int4)
    for array in (x, x[::-1]):
        session.run(None, {"x": array, "f": ONES})
    assert session.summary()["input_copies"] == 2 and session.summary()["input_copied_bytes"] == 6


def test_lists_are_charged():
    session = ft.InferenceSession(ADD)
    np.testing.assert_array_equal(session.run(None, {"x": X.tolist(), "y": X})[0], X + X)
    assert session.summary()["input_copies"] == 1 and session.summary()["input_copied_bytes"] == 24


def test_dlpack_tensors_with_strides_are_charged():
    class Foreign:
        def __dlpack__(self, **kwargs):
            return strided(1000).__dlpack__()
    session = ft.InferenceSession(ADD)
    session.run(None, {"x": Foreign(), "y": X[:1]})
    assert session.summary()["input_copied_bytes"] == 12000
    assert session.memory_stats()["retained"] >= 2 * 12000  # the copy, and the result


def test_a_limit_counts_copies_and_names_what_works():
    session = ft.InferenceSession(ADD)
    x, y = strided(5000), strided(5000)
    session.run(None, {"x": x, "y": y})
    session.trim()
    session.set_memory_limit(session.memory_stats()["live"] + 70_000)
    with pytest.raises(ft.RuntimeException, match="'y' needs.*memory limit.*allow at least") as refused:
        session.run(None, {"x": x, "y": y})
    least = int(str(refused.value).split("(")[1].split(" bytes")[0])
    session.set_memory_limit(least)
    np.testing.assert_array_equal(session.run(None, {"x": x, "y": y})[0], x + y)
    session.set_memory_limit(least - 4096)
    with pytest.raises(ft.RuntimeException):
        session.run(None, {"x": x, "y": y})


def test_an_output_that_is_asked_for_twice_is_not_shared():
    session = ft.InferenceSession(ADD)
    a, b, c = session.run(["z", "z", "z"], {"x": X, "y": X})
    assert not any(np.shares_memory(p, q) for p, q in ((a, b), (b, c), (a, c)))
    a[:] = -1
    np.testing.assert_array_equal(b, X + X)
    assert session.memory_stats()["leased"] == 3 * a.nbytes
    room = ft.OrtValue.ortvalue_from_shape_and_type([2, 3])
    for fetches in ([room], []):
        values = ft.OrtValueVector(fetches)
        x = ft.OrtValue.ortvalue_from_numpy(X)
        session.run_with_ortvaluevector(None, ["x", "y"], [x, x], ["z"], values, [])
        np.testing.assert_array_equal(values[0].numpy(), X + X)
        assert (values[0].data_ptr() == room.data_ptr()) == bool(fetches)
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    twice = ft.InferenceSession(model([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])],
                                      [("x", TensorProto.FLOAT, [2])], [sequence]))
    first, second = twice.run(["s", "s"], {"x": ONES})
    first[0][:] = 7
    assert first[1].tolist() == second[0].tolist() == second[1].tolist() == [1, 1]


def test_the_error_of_a_model_is_still_the_models():
    broken = onnx.load_from_string(ADD)
    broken.graph.node[0].input[0] = "nothing"
    with pytest.raises(ft.InvalidGraph):
        ft.InferenceSession(broken.SerializeToString())
