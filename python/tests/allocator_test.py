"""Allocators of the caller: both arenas take their memory from Python functions, and give each block back once."""
import copy
import ctypes
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import model

import forethought as ft

# Two products with values between, so that there is something to plan.
NET = model([helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
             helper.make_node("MatMul", ["x", "b"], ["c"]), helper.make_node("Softmax", ["c"], ["y"])],
            [("x", TensorProto.FLOAT, ["n", 64])], [("y", TensorProto.FLOAT, ["n", "n"])])


class Heap:
    """Gives from ctypes arrays, and knows what is out."""

    def __init__(self):
        self.out, self.freed, self.lock, self.threads = {}, [], threading.Lock(), set()

    def allocate(self, size, alignment):
        block = ctypes.create_string_buffer(size + alignment)
        address = -(-ctypes.addressof(block) // alignment) * alignment
        with self.lock:
            assert address not in self.out
            self.out[address] = (block, size)
            self.threads.add(threading.get_ident())
        return address

    def free(self, address):
        with self.lock:
            self.out.pop(address)  # KeyError: was not given, or came back before
            self.freed.append(address)

    def holds(self, array):
        at = array.ctypes.data
        return any(a <= at and at + array.nbytes <= a + size for a, (_, size) in self.out.items())

    @property
    def pair(self):
        return self.allocate, self.free


def feed(n=100):
    return {"x": np.random.default_rng(n).standard_normal((n, 64), np.float32)}


def session_with(execution=None, io=None, **settings):
    options = ft.SessionOptions()
    options.execution_allocator, options.io_allocator = execution, io
    for name, value in settings.items():
        setattr(options, name, value)
    return ft.InferenceSession(NET, options)


def test_both_arenas_take_from_the_caller_and_give_back_once():
    execution, io = Heap(), Heap()
    wanted, = ft.InferenceSession(NET).run(None, feed())
    session = session_with(execution.pair, io.pair)
    y, = session.run(None, feed())
    np.testing.assert_array_equal(y, wanted)
    assert io.holds(y) and not execution.holds(y) and len(execution.out) == 1
    assert sum(size for _, size in execution.out.values()) >= session.summary()["peak"] > 0
    again, = session.run(None, feed())
    assert io.holds(again) and again.ctypes.data != y.ctypes.data
    part = again[3:5]
    stats = session.memory_stats()
    assert stats["live"] + stats["retained"] + stats["padding"] == stats["mapped"]
    assert stats["leased"] == y.nbytes + again.nbytes
    del again
    session.trim()
    assert execution.out == {} and len(io.out) == 2
    del session
    gc.collect()
    assert len(io.out) == 2 and io.freed == []  # the arrays hold them
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(part, wanted[3:5])
    del y, part
    gc.collect()
    assert io.out == {} and len(io.freed) == len(set(io.freed)) == 2


def test_copied_inputs_and_values_of_the_session_lie_there_too():
    io = Heap()
    session = session_with(io=io.pair)
    value = session.create_ortvalue_from_shape_and_type([4, 64], np.float32)
    assert io.holds(value.numpy())
    x = np.asfortranarray(feed()["x"])
    y, = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, ft.InferenceSession(NET).run(None, {"x": x})[0])
    assert len(io.out) == 3 and session.summary()["input_copies"] == 1
    del value, y, session
    gc.collect()
    assert io.out == {}


def test_an_allocator_that_raises_is_the_cause_of_the_error():
    heap = Heap()
    answer = {}

    def allocate(size, alignment):
        if "raise" in answer:
            raise answer["raise"]
        return answer["give"](size, alignment) if "give" in answer else heap.allocate(size, alignment)

    for which, who in (("execution", "the execution slab"), ("io", "y")):
        session = session_with(**{which: (allocate, heap.free)})
        answer.update({"raise": ValueError("no room today")})
        for _ in range(2):
            with pytest.raises(ft.RuntimeException, match=f"{who}.*the allocator that was brought for it does not have") as refused:
                session.run(None, feed())
            assert refused.value.__cause__ is answer["raise"]
        answer.clear()
        for nothing in (0, None):
            answer["give"] = lambda size, alignment, nothing=nothing: nothing
            with pytest.raises(ft.RuntimeException, match="allocator that was brought for it does not have") as refused:
                session.run(None, feed())
            assert refused.value.__cause__ is None
        for no_address, kind in (("there", TypeError), (1 << 70, OverflowError), (-(1 << 70), OverflowError)):
            answer["give"] = lambda size, alignment, no_address=no_address: no_address
            with pytest.raises(ft.RuntimeException, match="does not have") as refused:
                session.run(None, feed())
            assert isinstance(refused.value.__cause__, kind)
        # An address that is no multiple is refused, and goes back as it came.
        answer["give"] = lambda size, alignment: heap.allocate(size, alignment) + 4
        freed = []
        odd = session_with(**{which: (allocate, freed.append)})
        with pytest.raises(ft.InvalidArgument, match="at a multiple of"):
            odd.run(None, feed())
        assert len(freed) == 1 and freed[0] % 64 == 4
        heap.free(freed[0] - 4)
        answer.clear()
        y, = session.run(None, feed())
        np.testing.assert_array_equal(y, ft.InferenceSession(NET).run(None, feed())[0])
        del session, odd, y, refused  # whose traceback holds the session
    gc.collect()
    assert heap.out == {}


def test_a_failure_behind_the_back_is_shown_and_told(monkeypatch):
    shown, told, done = [], [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda info: shown.append(info.exc_value))

    def allocate(size, alignment):
        raise ValueError("no room behind the back")

    session = session_with(io=(allocate, print))
    session.run_async(None, feed(), lambda results, data, error: (told.append((results, error)), done.set()), None)
    assert done.wait(60)
    assert told[0][0] == [] and "allocator that was brought for it" in told[0][1]
    assert [str(e) for e in shown] == ["no room behind the back"]


def test_a_free_that_raises_is_shown_and_harms_nothing(monkeypatch):
    heap, shown = Heap(), []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: shown.append(info.exc_value))

    def free(address):
        heap.free(address)
        raise ValueError("I never liked it")

    session = session_with(heap.pair, (heap.allocate, free), retain_io=0)
    for _ in range(3):
        session.run(None, feed())
    gc.collect()
    assert len(shown) == 3 and all(isinstance(e, ValueError) for e in shown)
    del session
    gc.collect()
    assert heap.out == {}


def test_many_threads_and_a_limit_take_turns_with_the_interpreter():
    execution, io = Heap(), Heap()
    session = session_with(execution.pair, io.pair, retain_execution=0, retain_io=0, idle_trim_ms=1)
    wanted = {n: ft.InferenceSession(NET).run(None, feed(n))[0] for n in (10, 50, 90)}
    wrong = []

    def work(n):
        for _ in range(30):
            y, = session.run(None, feed(n))
            if not np.array_equal(y, wanted[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in wanted]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        session.trim()
        session.set_memory_limit(1 << 30)
        session.set_retention(execution=0, io=0)
        session.memory_report()
        session.create_ortvalue_from_shape_and_type([8], np.float32)
    for t in threads:
        t.join()
    assert wrong == []
    del session
    gc.collect()
    assert execution.out == {} == io.out


@pytest.mark.parametrize("wrong", (5, "ab", (print,), (print, 5), (print, print, print), {"allocate": print}))
def test_what_is_no_pair_of_callables_is_refused(wrong):
    options = ft.SessionOptions()
    for name in ("execution_allocator", "io_allocator"):
        with pytest.raises(TypeError, match=f"SessionOptions.{name} wants a pair of callables"):
            setattr(options, name, wrong)
        assert getattr(options, name) is None


def test_copies_of_options_share_the_allocator():
    heap, options = Heap(), ft.SessionOptions()
    options.io_allocator = heap.pair
    first = ft.InferenceSession(NET, options)
    second = ft.InferenceSession(NET, copy.deepcopy(options))
    assert first.get_session_options().io_allocator == heap.pair
    held = [s.run(None, feed())[0] for s in (first, second)]
    assert len(heap.out) == 2
    del held
    options.io_allocator = None
    assert ft.InferenceSession(NET, options).run(None, feed())[0].shape == (100, 100) and len(heap.out) == 2


def test_arrays_may_outlive_everything_but_the_process():
    code = ("import sys, pathlib\nsys.path.insert(0, sys.argv[1])\nimport allocator_test as t\nheap = t.Heap()\n"
            "y = t.session_with(heap.pair, heap.pair).run(None, t.feed())[0]\nkept = [y, heap]\nsys.modules['kept'] = kept\n"
            "print(len(heap.out))\n")
    done = subprocess.run([sys.executable, "-c", code, str(__import__("pathlib").Path(__file__).parent)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
