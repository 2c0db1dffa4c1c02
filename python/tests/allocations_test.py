"""Each operator new of the module fails once: what was called raises OutOfMemory, and all works afterwards.

Each act runs in an interpreter of its own, this file, in front of which a library is loaded that lets the n-th fail.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from small_models import model  # noqa: E402

import forethought as ft  # noqa: E402

NET = model([helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Add", ["b", "a"], ["y"]), helper.make_node("SequenceConstruct", ["b", "y"], ["s"]),
             helper.make_node("Identity", ["t"], ["u"])],
            [("x", TensorProto.FLOAT, ["n", 4]), ("t", TensorProto.STRING, [2])],
            [("b", TensorProto.FLOAT, None), ("y", TensorProto.FLOAT, None),
             helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None), ("u", TensorProto.STRING, [2])],
            [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [0.5] * 16)])
X = np.arange(12, dtype=np.float32).reshape(3, 4) - 6
TEXTS = np.array(["a", "a text that is longer than what fits beside its size"], dtype=object)


def load():
    return ft.InferenceSession(NET)


def same(got, x=X):
    product = x @ np.full((4, 4), 0.5, np.float32)
    want = [np.maximum(product, 0), np.maximum(product, 0) + product]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def run(session, x=X, plain=X):
    b, y, s, u = session.run(None, {"x": x, "t": TEXTS})
    same([b, y], plain)
    same(s, plain)
    assert u.tolist() == TEXTS.tolist()


def ort_values(session):
    feeds = {"x": ft.OrtValue.ortvalue_from_numpy(X), "t": ft.OrtValue.ortvalue_from_numpy(TEXTS)}
    same([v.numpy() for v in session.run_with_ort_values(["b", "y"], feeds)])


def bound(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("t", TEXTS)
    room = session.create_ortvalue_from_shape_and_type([3, 4], np.float32)
    binding.bind_ortvalue_output("b", room)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    same(binding.copy_outputs_to_cpu())


def dlpack(session):
    value = ft.OrtValue.ortvalue_from_numpy(X)
    np.testing.assert_array_equal(ft.OrtValue.from_dlpack(value.to_dlpack()).numpy(), X)
    y = session.run_with_ort_values(["y"], {"x": value, "t": ft.OrtValue.ortvalue_from_numpy(TEXTS)})[0]
    np.testing.assert_array_equal(np.from_dlpack(y), y.numpy())


def behind(session):
    over, told = threading.Event(), []

    def callback(results, _, error):
        told.extend([results, error])
        over.set()
    session.run_async(["b", "y"], {"x": X, "t": TEXTS}, callback, None)
    assert over.wait(60)
    if told[1]:
        assert "no more memory" in told[1] or "no memory" in told[1], told[1]
        raise ft.OutOfMemory(told[1])
    same(told[0])


def options(_):
    made = ft.SessionOptions()
    made.add_session_config_entry("session.memory_limit", "100000000")
    made.add_free_dimension_override_by_name("n", 3)
    ft.InferenceSession(NET, made, providers=["CPUExecutionProvider"], disabled_optimizers=["NoSuchRewriteOfThatName"])


def told(session):
    session.memory_stats(), session.memory_report(), session.stages()
    session.get_inputs(), session.get_outputs(), session.get_modelmeta(), session.get_providers()


def values(_):
    ft.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32).update_inplace(X[:2, :3])
    value = ft.OrtValue.ortvalue_from_numpy(X)
    assert value.shape() == [3, 4] and value.data_type() == "tensor(float)"


def limits(session):
    session.set_memory_limit(1 << 30)
    session.trim()


# By name: what runs with a session, and whether some of its allocations must fail.
ACTS = {
    "load": (lambda _: load(), True),
    "run": (run, True),
    "run at a new shape": (lambda s: run(s, X[:2], X[:2]), True),
    "run with strides": (lambda s: run(s, np.asfortranarray(X)), True),
    "run of what is converted": (lambda s: run(s, X.astype(">f4")), True),
    "run of OrtValues": (ort_values, True),
    "run of a binding": (bound, True),
    "run behind": (behind, True),
    "DLPack": (dlpack, True),
    "options": (options, True),
    "reports": (told, True),
    "values": (values, True),
    "limits": (limits, False),
}


def child(name: str) -> None:
    failing = ctypes.CDLL(str(library()))
    failing.fail_allocation.argtypes = [ctypes.c_int64]
    failing.refused_allocation.restype = ctypes.c_char_p
    act, must_fail = ACTS[name]
    session = load()
    act(session)  # the tables of nanobind, which end the process if they cannot grow, have their size
    failed, n, more = 0, 0, True
    while more:
        n += 1
        assert n < 20_000
        session = load()
        error = None
        failing.fail_allocation(n)
        try:
            act(session)
        except Exception as e:  # noqa: BLE001
            error = e
        more = bool(failing.stop_failing())
        if error is not None and not (more and isinstance(error, ft.OutOfMemory)):
            raise AssertionError(f"allocation {n}, {failing.refused_allocation().decode()}") from error
        failed += error is not None
        del error
        run(session)
        act(session)
    assert failed or not must_fail
    print("allocations:", n - 1, "errors:", failed)


def library() -> pathlib.Path:
    return pathlib.Path(os.environ["FORETHOUGHT_BUILD"]) / "python" / "tests" / "libfailing_new.so"


@pytest.mark.parametrize("name", ACTS)
def test_each_allocation_fails_once(name):
    assert library().exists()
    in_front = f"{library()} {os.environ.get('LD_PRELOAD', '')}".strip()
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"  # ours comes first
    done = subprocess.run([sys.executable, str(HERE / "allocations_test.py"), name], capture_output=True, text=True, timeout=900,
                          env=os.environ | {"LD_PRELOAD": in_front, "ASAN_OPTIONS": sanitizer})
    assert done.returncode == 0 and "allocations:" in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    child(sys.argv[1])
