"""DLPack: tensors go to other array libraries and come from them with no copy, and memory lives as long as needed."""
import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from small_models import ADD, X

import forethought as ft


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


def inside(capsule, kind, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(get(capsule, name))


def versioned(capsule):
    return inside(capsule, Versioned, b"dltensor_versioned")


@pytest.fixture(scope="module")
def add():
    return ft.InferenceSession(ADD)


def test_check13_a_result_is_where_the_run_wrote_it(add):
    """Array, value, both kinds of capsule and what another library makes of them: one address, no copy."""
    value, = add.run_with_ort_values(None, {"x": ft.OrtValue.ortvalue_from_numpy(X), "y": ft.OrtValue.ortvalue_from_numpy(X)})
    address = value.data_ptr()
    assert address % 64 == 0  # as the arena gives it
    assert value.numpy().ctypes.data == np.from_dlpack(value).ctypes.data == address
    assert versioned(value.__dlpack__(max_version=(1, 0))).tensor.data == address
    assert inside(value.to_dlpack(), Tensor, b"dltensor").data == address
    array = add.run(None, {"x": X, "y": X})[0]
    assert np.from_dlpack(array).ctypes.data == array.ctypes.data
    again = ft.OrtValue.from_dlpack(array)
    assert again.data_ptr() == array.ctypes.data and again.copied_bytes == 0


@pytest.mark.parametrize(("dtype", "code", "bits"), [
    (np.float32, 2, 32), (np.bool_, 6, 8), (np.uint16, 1, 16), (np.int8, 0, 8), (np.complex64, 5, 64),
    (ml_dtypes.bfloat16, 4, 16), (ml_dtypes.float8_e4m3fn, 10, 8), (ml_dtypes.int4, 0, 4), (ml_dtypes.uint2, 1, 2)])
def test_types(dtype, code, bits):
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    value = ft.OrtValue.ortvalue_from_numpy(x)
    capsule = value.__dlpack__(max_version=(1, 1))
    t = versioned(capsule).tensor
    assert (t.code, t.bits, t.lanes, t.ndim) == (code, bits, 1, 2)
    assert [t.shape[i] for i in range(2)] == [2, 3] and [t.strides[i] for i in range(2)] == [3, 1]
    back = ft.OrtValue.from_dlpack(capsule)
    assert back.data_ptr() == value.data_ptr() and back.numpy().dtype == x.dtype
    np.testing.assert_array_equal(back.numpy(), x)


def test_a_capsule_outlives_value_session_and_array(add):
    session = ft.InferenceSession(ADD)
    value, = session.run_with_ort_values(None, {k: ft.OrtValue.ortvalue_from_numpy(X) for k in "xy"})
    capsule = value.__dlpack__()
    array = np.arange(6, dtype=np.float32)
    borrowed = ft.OrtValue.ortvalue_from_numpy(array).__dlpack__(max_version=(1, 0))
    gone = weakref.ref(array)
    del value, session, array
    for _ in range(20):
        add.run(None, {"x": X, "y": X})
    gc.collect()
    np.testing.assert_array_equal(ft.OrtValue.from_dlpack(capsule).numpy(), X + X)
    assert gone() is not None
    np.testing.assert_array_equal(ft.OrtValue.from_dlpack(borrowed).numpy(), np.arange(6))
    del borrowed
    gc.collect()
    assert gone() is None


def test_imported_memory_is_given_back_once_and_unused_capsules_too():
    for use in (lambda c: ft.OrtValue.from_dlpack(c), lambda c: None, lambda c: ft.OrtValue.from_dlpack(c).numpy()[1:]):
        array = np.arange(6, dtype=np.float32)
        gone = weakref.ref(array)
        capsule = array.__dlpack__(max_version=(1, 0))
        result = use(capsule)
        del array, capsule
        gc.collect()
        assert (gone() is None) == (result is None)
        del result
        gc.collect()
        assert gone() is None


def test_strides():
    m = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (m.T, m[:, 1:3], m[::-1], m[::2, ::3], np.broadcast_to(m[0], (5, 4))):
        value = ft.OrtValue.from_dlpack(view)
        assert value.copied_bytes == view.size * 4 and value.data_ptr() != view.ctypes.data
        np.testing.assert_array_equal(value.numpy(), view)
    for view in (m[1:], m[:, None, :], m[2], m[:0]):
        value = ft.OrtValue.from_dlpack(view)
        assert value.copied_bytes == 0 and (value.data_ptr() == view.ctypes.data or view.size == 0)


def test_read_only_memory_is_said_and_kept(add):
    x = X.copy()
    x.flags.writeable = False
    for value in (ft.OrtValue.from_dlpack(x), ft.OrtValue.ortvalue_from_numpy(x)):
        assert not value.numpy().flags.writeable
        assert not np.from_dlpack(value).flags.writeable
        assert versioned(value.__dlpack__(max_version=(1, 0))).flags == 1
        assert versioned(value.__dlpack__(max_version=(1, 0), copy=True)).flags == 2
        with pytest.raises(BufferError, match="max_version"):
            value.__dlpack__()
        with pytest.raises(ft.InvalidArgument, match="read-only"):
            value.update_inplace(X)
        binding = add.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_cpu_input("y", X)
        binding.bind_ortvalue_output("z", value)
        with pytest.raises(ft.InvalidArgument, match="'z' is read-only"):
            add.run_with_iobinding(binding)
    np.testing.assert_array_equal(x, X)


def test_a_strided_output_is_refused(add):
    for value in (ft.OrtValue.from_dlpack(np.zeros((3, 2), np.float32).T),
                  ft.OrtValue.ortvalue_from_numpy(np.zeros((3, 2), np.float32).T)):
        binding = add.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_cpu_input("y", X)
        binding.bind_ortvalue_output("z", value)
        with pytest.raises(ft.InvalidArgument, match="'z' is a copy.*bind a contiguous array"):
            add.run_with_iobinding(binding)


class Elsewhere:
    """A tensor of another device."""

    def __dlpack_device__(self):
        return 2, 3

    def __dlpack__(self, **_):
        raise AssertionError("never asked")


class OldLibrary:
    """Knows no versions."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__(stream=stream)


def test_devices_and_capsules_that_cannot_be(add):
    with pytest.raises(ft.InvalidArgument, match="cuda:3, a device that is not here; copy it to the CPU first"):
        ft.OrtValue.from_dlpack(Elsewhere())
    with pytest.raises(ft.InvalidArgument, match="cuda:3"):
        add.run(None, {"x": Elsewhere(), "y": X})
    moved = X.__dlpack__(max_version=(1, 0))
    versioned(moved).tensor.device_type = 2
    with pytest.raises(ft.InvalidArgument, match="cuda:0"):
        ft.OrtValue.from_dlpack(moved)
    versioned(moved).tensor.device_type = 1
    value = ft.OrtValue.from_dlpack(moved)  # a refusal does not use it up
    np.testing.assert_array_equal(value.numpy(), X)
    with pytest.raises(TypeError, match="used before, which can be done once"):
        ft.OrtValue.from_dlpack(moved)
    with pytest.raises(TypeError, match="wants a capsule named"):
        ft.OrtValue.from_dlpack(__import__("datetime").datetime_CAPI)
    with pytest.raises(BufferError, match="CPU"):
        value.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ft.NotImplemented, match="string"):
        ft.OrtValue.ortvalue_from_numpy(np.array(["a"])).__dlpack__()
    with pytest.raises(ft.Fail, match="no tensor"):
        ft.OrtValue.ort_value_from_sequence([X]).__dlpack__()


def test_runs_take_anything_that_speaks_dlpack(add):
    before = add.summary()
    np.testing.assert_array_equal(add.run(None, {"x": OldLibrary(X), "y": X})[0], X + X)
    assert add.summary()["input_copies"] == before["input_copies"]
    strided = np.ones((3, 2), np.float32).T
    np.testing.assert_array_equal(add.run(None, {"x": OldLibrary(strided), "y": X})[0], X + 1)
    after = add.summary()
    assert after["input_copies"] == before["input_copies"] + 1
    assert after["input_copied_bytes"] == before["input_copied_bytes"] + 24


def test_bfloat16_results_leave():
    value = ft.OrtValue.ortvalue_from_shape_and_type([2], TensorProto.BFLOAT16)
    value.update_inplace(np.array([1.5, -2], ml_dtypes.bfloat16))
    t = versioned(value.__dlpack__(max_version=(1, 0))).tensor
    assert (t.code, t.bits) == (4, 16)
    assert ctypes.cast(t.data, ctypes.POINTER(ctypes.c_uint16))[0] == 0x3FC0


@pytest.mark.parametrize("wrong", [(), (1,), (1, 0, 0), "cpu", ("a", "b"), [1, 0]])
def test_what_is_no_pair_is_refused(wrong):
    value = ft.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))
    with pytest.raises(TypeError):
        value.__dlpack__(dl_device=wrong)
    with pytest.raises(TypeError):
        value.__dlpack__(max_version=wrong)

    class Foreign:
        def __dlpack__(self, **_):
            return value.__dlpack__()

        def __dlpack_device__(self):
            return wrong

    with pytest.raises(TypeError):
        ft.OrtValue.from_dlpack(Foreign())
