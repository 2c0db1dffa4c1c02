"""OrtValue and IOBinding: values held between runs, memory bound to inputs and outputs."""
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import ADD, STATE, X, model

import forethought as ft


@pytest.fixture(scope="module")
def add():
    return ft.InferenceSession(ADD)


def test_a_value_shares_the_arrays_memory():
    value = ft.OrtValue.ortvalue_from_numpy(X)
    assert value.shape() == [2, 3] and value.data_type() == "tensor(float)" and value.element_type() == 1
    assert value.is_tensor() and value.has_value() and value.device_name() == "cpu"
    assert not value.is_sparse_tensor() and not value.is_tensor_sequence()
    assert value.data_ptr() == X.ctypes.data and value.numpy().ctypes.data == X.ctypes.data
    assert value.tensor_size_in_bytes() == X.nbytes


def test_a_value_of_another_order_has_memory_of_its_own():
    value = ft.OrtValue.ortvalue_from_numpy(X.T)
    assert value.data_ptr() != X.ctypes.data
    np.testing.assert_array_equal(value.numpy(), X.T)


def test_values_from_shape_and_type():
    value = ft.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    assert value.shape() == [2, 3] and not value.numpy().any()
    value.update_inplace(X)
    np.testing.assert_array_equal(value.numpy(), X)
    with pytest.raises(ft.InvalidArgument, match="same type and shape"):
        value.update_inplace(X[:1])
    assert ft.OrtValue.ortvalue_from_shape_and_type([1], TensorProto.BFLOAT16).numpy().dtype == ml_dtypes.bfloat16
    with pytest.raises(ft.InvalidArgument):
        ft.OrtValue.ortvalue_from_shape_and_type([1], 99)
    with pytest.raises(ft.ForethoughtError):
        ft.OrtValue.ortvalue_from_shape_and_type([2**40, 2**40], np.float32)
    with pytest.raises(ft.InvalidArgument, match="no device"):
        ft.OrtValue.ortvalue_from_numpy(X, "cuda", 0)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.float4_e2m1fn,
                                   ml_dtypes.float8_e4m3fn, np.complex64])
def test_types_of_any_width_survive_the_way_there_and_back(dtype):
    x = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]]).astype(dtype)
    if dtype in (ml_dtypes.int4, ml_dtypes.int2):
        x[0, 0] = -2
    value = ft.OrtValue.ortvalue_from_numpy(x)
    assert value.numpy().dtype == x.dtype
    np.testing.assert_array_equal(value.numpy(), x)


def test_strings_and_sequences():
    words = np.array([["a", "b"]], dtype=object)
    assert ft.OrtValue.ortvalue_from_numpy(words).numpy().tolist() == [["a", "b"]]
    value = ft.OrtValue.ort_value_from_sequence([X, X[:1]])
    assert value.is_tensor_sequence() and value.data_type() == "seq(tensor(float))"
    np.testing.assert_array_equal(value.numpy()[1], X[:1])
    with pytest.raises(ft.Fail, match="no tensor"):
        value.shape()


def test_run_with_ort_values(add):
    value = ft.OrtValue.ortvalue_from_numpy(X)
    out, = add.run_with_ort_values(["z"], {"x": value, "y": value})
    np.testing.assert_array_equal(out.numpy(), X + X)
    again, = add.run_with_ort_values(None, {"x": out, "y": value})  # results feed later runs
    np.testing.assert_array_equal(again.numpy(), 3 * X)
    np.testing.assert_array_equal(add.run(None, {"x": value, "y": X})[0], X + X)


def test_binding_to_arrays_and_addresses(add):
    binding = add.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    out = np.zeros((2, 3), np.float32)
    binding.bind_output("z", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, X + X)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X + X)


def test_binding_to_values_and_to_memory_of_the_session(add):
    binding = add.io_binding()
    binding.bind_ortvalue_input("x", ft.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_input("y", ft.OrtValue.ortvalue_from_numpy(X))
    target = ft.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_output("z", target)
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), X + X)
    binding.clear_binding_outputs()
    binding.bind_output("z")
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), X + X)


def test_wrong_bindings_are_told(add):
    binding = add.io_binding()
    with pytest.raises(ft.InvalidArgument, match="'q'"):
        binding.bind_cpu_input("q", X)
    with pytest.raises(ft.InvalidArgument, match="'q'"):
        binding.bind_output("q")
    with pytest.raises(ft.InvalidArgument, match="no device"):
        binding.bind_output("z", "cuda")
    binding.bind_cpu_input("x", X)
    binding.bind_output("z")
    with pytest.raises(ValueError, match="Required inputs"):
        add.run_with_iobinding(binding)
    binding.bind_cpu_input("y", X)
    binding.bind_ortvalue_output("z", ft.OrtValue.ortvalue_from_shape_and_type([2, 2], np.float32))
    with pytest.raises(ft.InvalidArgument):
        add.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="session that created it"):
        ft.InferenceSession(ADD).run_with_iobinding(binding)


def test_memory_bound_twice_or_under_an_input_is_told(add):
    room = np.zeros((4, 3), np.float32)
    binding = add.io_binding()
    binding.bind_cpu_input("x", room[:2])
    binding.bind_cpu_input("y", X)
    binding.bind_output("z", "cpu", 0, np.float32, [2, 3], room[1:].ctypes.data)
    with pytest.raises(ft.InvalidArgument, match="output 'z' is that of input 'x', in part or whole"):
        add.run_with_iobinding(binding)
    binding.bind_output("z", "cpu", 0, np.float32, [2, 3], room.ctypes.data + 26)
    with pytest.raises(ft.InvalidArgument, match="4 does not divide"):
        add.run_with_iobinding(binding)
    with pytest.raises(ft.InvalidArgument, match="the address is 0"):
        binding.bind_output("z", "cpu", 0, np.float32, [2, 3], 0)
    binding.bind_output("z", "cpu", 0, np.float32, [2, 3], room[2:].ctypes.data)
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(room[2:], X)


@pytest.mark.parametrize("bound", [False, True])
def test_a_donated_output_is_the_next_input(bound):
    session = ft.InferenceSession(STATE)
    binding = session.io_binding()
    first, x = ft.OrtValue.ortvalue_from_shape_and_type([3]), np.array([1, 2, 3], np.float32)
    binding.bind_ortvalue_input("h", first)
    binding.bind_cpu_input("x", x)
    second = ft.OrtValue.ortvalue_from_shape_and_type([3])
    if bound:
        binding.bind_ortvalue_output("next", second)
    else:
        binding.bind_output("next")
    binding.bind_output("y")
    binding.donate("next", "h")
    places = set()
    for step in range(1, 7):
        session.run_with_iobinding(binding)
        state, y = binding.get_outputs()
        np.testing.assert_array_equal(state.numpy(), step * x)
        np.testing.assert_array_equal(y.numpy(), 10 * step * x)
        places.add(state.data_ptr())
        del state, y
    assert places == {first.data_ptr(), second.data_ptr()} if bound else len(places) <= 4
    binding.bind_cpu_input("h", np.array([100, 100, 100], np.float32))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 100 + x)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 100 + 2 * x)


def test_donations_that_cannot_be():
    binding = ft.InferenceSession(STATE).io_binding()
    for output, into, part in (("nxt", "h", "'nxt'"), ("next", "hh", "'hh'"), ("next", "h", "bind_output")):
        with pytest.raises(ft.InvalidArgument, match=part):
            binding.donate(output, into)
    binding.bind_output("next")
    binding.bind_output("y")
    binding.donate("next", "h")
    with pytest.raises(ft.InvalidArgument, match="already"):
        binding.donate("y", "h")


class Turn:
    """STATE with its state donated, as bound at first."""

    def __init__(self, bound: bool):
        self.session = ft.InferenceSession(STATE)
        self.binding = self.session.io_binding()
        self.x = np.array([1, 2, 3], np.float32)
        self.binding.bind_cpu_input("x", self.x)
        self.binding.bind_ortvalue_input("h", ft.OrtValue.ortvalue_from_shape_and_type([3]))
        self.next_goes_to(ft.OrtValue.ortvalue_from_shape_and_type([3]) if bound else None)
        self.binding.bind_output("y")
        self.binding.donate("next", "h")

    def next_goes_to(self, value) -> None:
        if value is None:
            self.binding.bind_output("next")
        else:
            self.binding.bind_ortvalue_output("next", value)

    def run(self) -> ft.OrtValue:
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[0]


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("runs_between", [1, 2])
def test_an_output_that_is_rebound_between_donated_runs_goes_there(bound, runs_between):
    turn, step = Turn(bound), 0
    for target in (ft.OrtValue.ortvalue_from_shape_and_type([3]), None, ft.OrtValue.ortvalue_from_shape_and_type([3])):
        for _ in range(runs_between):
            step += 1
            np.testing.assert_array_equal(turn.run().numpy(), step * turn.x)
        turn.next_goes_to(target)
        step += 1
        state = turn.run()
        np.testing.assert_array_equal(state.numpy(), step * turn.x)
        if target is not None:
            assert state.data_ptr() == target.data_ptr()
            np.testing.assert_array_equal(target.numpy(), step * turn.x)
        held = state.numpy().copy()
        turn.run()
        step += 1
        if target is None:
            np.testing.assert_array_equal(state.numpy(), held)  # what a caller holds is not written again


def test_inputs_that_are_cleared_come_from_the_donation():
    turn = Turn(bound=False)
    turn.run()
    turn.binding.clear_binding_inputs()
    turn.binding.bind_cpu_input("x", turn.x)
    np.testing.assert_array_equal(turn.run().numpy(), 2 * turn.x)


DEFAULT_STATE = model([helper.make_node("Add", ["d", "x"], ["y"])],
                      [("x", TensorProto.FLOAT, [3]), ("d", TensorProto.FLOAT, [3])], [("y", TensorProto.FLOAT, [3])],
                      [helper.make_tensor("d", TensorProto.FLOAT, [3], [100, 100, 100])])


@pytest.mark.parametrize("source, into", [(DEFAULT_STATE, "d"), (STATE, "h")], ids=["a default", "nothing"])
def test_memory_cannot_change_places_with_an_input_that_has_none(source, into):
    session = ft.InferenceSession(source)
    binding, x = session.io_binding(), np.ones(3, np.float32)
    binding.bind_cpu_input("x", x)
    output = "y" if source is DEFAULT_STATE else "next"
    binding.bind_ortvalue_output(output, ft.OrtValue.ortvalue_from_shape_and_type([3]))
    binding.donate(output, into)
    with pytest.raises(ft.InvalidArgument, match=f"'{output}' is bound to memory.*bind memory to '{into}' too, or"):
        session.run_with_iobinding(binding)
    binding.bind_ortvalue_input(into, ft.OrtValue.ortvalue_from_shape_and_type([3]))
    for step in (1, 2, 3):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], step * x)


def test_a_default_is_where_a_donated_state_begins():
    session = ft.InferenceSession(DEFAULT_STATE)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones(3, np.float32))
    binding.bind_output("y")
    binding.donate("y", "d")
    for step in (1, 2, 3):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full(3, 100 + step, np.float32))


def test_a_strided_input_that_is_donated_turns_too():
    turn = Turn(bound=True)
    source = np.zeros((3, 2), np.float32)
    turn.binding.bind_cpu_input("h", source[:, 0])
    for step in range(1, 5):
        np.testing.assert_array_equal(turn.run().numpy(), step * turn.x)
    assert not source.any()


def test_vectors_of_values(add):
    value = ft.OrtValue.ortvalue_from_numpy(X)
    feeds, fetches = ft.OrtValueVector(), ft.OrtValueVector()
    feeds.reserve(2)
    feeds.push_back(value)
    feeds.push_back(X.__dlpack__())
    add.run_with_ortvaluevector(ft.RunOptions(), ["x", "y"], feeds, ["z"], fetches, [ft.OrtDevice()])
    np.testing.assert_array_equal(fetches[0].numpy(), X + X)
    assert len(feeds) == 2 and feeds.element_type_at(1) == 1 and [v.shape() for v in fetches] == [[2, 3]]
    there, = fetches.to_dlpacks(lambda capsule: ft.OrtValue.from_dlpack(capsule))
    assert there.data_ptr() == fetches[0].data_ptr()
    batch = ft.OrtValueVector()
    batch.push_back_batch([X], [X.ctypes.data], [np.float32], [X.shape], [ft.OrtDevice()])
    assert batch[0].data_ptr() == X.ctypes.data
    binding = add.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", X)
    binding.bind_output("z")
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs_as_ortvaluevector()[0].numpy(), X + X)
    for names, values, wanted, room, error in ((["x"], feeds, ["z"], [], ValueError), (["x", "y"], feeds, ["z"], feeds, ValueError),
                                               (["x", "y"], feeds, "z", [], TypeError), (["x", "y"], [X, X], ["z"], [], TypeError)):
        with pytest.raises(error):
            add.run_with_ortvaluevector(None, names, values, wanted, ft.OrtValueVector(room), [])


def test_values_in_memory_of_the_session():
    session = ft.InferenceSession(ADD)
    value = session.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
    assert not value.numpy().any() and session.memory_stats()["leased"] == 24
    value.update_inplace(X)
    np.testing.assert_array_equal(session.run(None, {"x": value, "y": X})[0], X + X)
    del value
    assert session.memory_stats()["leased"] == 0
    for shape, dtype in (([2**40, 2**40], np.float32), ([-1], np.float32), ([1], TensorProto.STRING), ([1], 99)):
        with pytest.raises(ft.ForethoughtError):
            session.create_ortvalue_from_shape_and_type(shape, dtype)


def test_providers_can_be_set_anew(add):
    session = ft.InferenceSession(ADD)
    session.set_providers(["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], X + X)
    with pytest.raises(ft.ForethoughtError, match="Nope"):
        session.set_providers(["NopeExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], X + X)


def test_the_lower_binding(add):
    binding = ft.SessionIOBinding(add)
    out = np.zeros((2, 3), np.float32)
    binding.bind_input("x", X)
    binding.bind_input("y", ft.OrtDevice(), np.float32, [2, 3], X.ctypes.data)
    binding.bind_output("z", ft.OrtDevice(), np.float32, [2, 3], out.ctypes.data)
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, X + X)
