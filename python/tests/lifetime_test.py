"""Who keeps memory: results outlive runs, sessions and each other; inputs are only read."""
import gc
import mmap
import random
import threading

import numpy as np
from onnx import TensorProto, helper
from small_models import model

import forethought as ft

CHAIN = model(
    [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"]),
     helper.make_node("Reshape", ["b", "s"], ["c"])],
    [("x", TensorProto.FLOAT, ["n", 64])],
    [("a", TensorProto.FLOAT, None), ("b", TensorProto.FLOAT, None), ("c", TensorProto.FLOAT, None)],
    [helper.make_tensor("s", TensorProto.INT64, [1], [-1])])


def expected(x):
    return [x * x, x * x + x, (x * x + x).reshape(-1)]


def test_results_are_unchanged_after_later_runs_and_without_the_session():
    rng = np.random.default_rng(1)
    session = ft.InferenceSession(CHAIN)
    kept = []
    for run in range(1000):
        x = rng.standard_normal((1 + run % 7, 64), dtype=np.float32)
        outputs = session.run(None, {"x": x})
        if run % 50 == 0:
            kept.append((outputs, expected(x)))
    del session, outputs
    gc.collect()
    order = [(k, i) for k in range(len(kept)) for i in range(3)]
    random.Random(2).shuffle(order)
    for k, i in order:  # each is looked at, then dropped, while others still live
        np.testing.assert_array_equal(kept[k][0][i], kept[k][1][i])
        kept[k][0][i] = None


def test_a_view_of_a_result_keeps_it():
    x = np.arange(128, dtype=np.float32).reshape(2, 64)
    view = ft.InferenceSession(CHAIN).run(["b"], {"x": x})[0][1, 3:9]
    gc.collect()
    for _ in range(20):
        ft.InferenceSession(CHAIN).run(None, {"x": x + 1})
    np.testing.assert_array_equal(view, expected(x)[1][1, 3:9])


def test_results_do_not_share_memory_unless_they_are_views_of_one_value():
    session = ft.InferenceSession(CHAIN)
    x = np.ones((2, 64), np.float32)
    first, second = session.run(["a"], {"x": x})[0], session.run(["a"], {"x": x})[0]
    assert not np.shares_memory(first, second) and not np.shares_memory(first, x)


def test_inputs_that_are_mapped_read_only_are_read_where_they_are(tmp_path):
    x = np.arange(640, dtype=np.float32).reshape(10, 64)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    with open(tmp_path / "x.bin", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        mapped = np.frombuffer(memory, np.float32).reshape(x.shape)
        session = ft.InferenceSession(CHAIN)
        outputs = session.run(None, {"x": mapped})
        assert session.summary()["input_copies"] == 0
        del mapped
    for got, want in zip(outputs, expected(x)):
        np.testing.assert_array_equal(got, want)


def test_the_bytes_of_a_model_may_go():
    weights = np.arange(4096, dtype=np.float32)
    raw = bytearray(model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [4096])],
                          [("y", TensorProto.FLOAT, [4096])],
                          [helper.make_tensor("w", TensorProto.FLOAT, [4096], weights.tobytes(), raw=True)]))
    session = ft.InferenceSession(bytes(raw))
    del raw
    gc.collect()
    np.testing.assert_array_equal(session.run(None, {"x": weights})[0], weights + weights)


def test_runs_of_one_session_in_many_threads():
    session = ft.InferenceSession(CHAIN)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for run in range(100):
            x = rng.standard_normal((1 + run % 3, 64), dtype=np.float32)
            if not all(np.array_equal(g, w) for g, w in zip(session.run(None, {"x": x}), expected(x))):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and session.summary()["runs"] == 400


def test_other_threads_go_on_during_a_run():
    """A long run is ended from another Python thread: that needs the interpreter lock while the run is under way."""
    size = 256
    body = helper.make_graph(
        [helper.make_node("MatMul", ["v", "v"], ["w"]), helper.make_node("Clip", ["w", "lo", "hi"], ["next"]),
         helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [size, size])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [size, size])],
        [helper.make_tensor("lo", TensorProto.FLOAT, [], [-1.0]), helper.make_tensor("hi", TensorProto.FLOAT, [], [1.0])])
    session = ft.InferenceSession(model(
        [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)],
        [("m", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [size, size])],
        [("y", TensorProto.FLOAT, [size, size])]))
    options = ft.RunOptions()
    errors = []

    def work():
        try:
            session.run(None, {"m": np.array(2**62), "x": np.ones((size, size), np.float32)}, options)
        except ft.Fail as e:
            errors.append(str(e))

    thread = threading.Thread(target=work)
    thread.start()
    options.terminate = True
    thread.join(timeout=60)
    assert not thread.is_alive() and len(errors) == 1 and "cancelled" in errors[0]


def test_check33_a_run_behind_the_back_keeps_its_session_and_feed():
    done = threading.Event()
    got = []

    def callback(results, user_data, error):
        got.append((results, user_data, error))
        done.set()

    x = np.arange(640, dtype=np.float32).reshape(10, 64)
    want = expected(x)
    session = ft.InferenceSession(CHAIN)
    same = session.run(None, {"x": x})
    session.run_async(None, {"x": x}, callback, {"mine": 1})
    del session, x
    gc.collect()
    assert done.wait(60)
    results, user_data, error = got.pop()
    assert user_data == {"mine": 1} and error == ""
    for a, b, w in zip(results, same, want):
        assert a.tobytes() == b.tobytes() and np.array_equal(a, w)


def test_many_runs_behind_the_back():
    session = ft.InferenceSession(CHAIN)
    left, wrong, done = [200], [], threading.Event()
    lock = threading.Lock()

    def callback(results, x, error):
        if error or not np.array_equal(results[1], expected(x)[1]):
            wrong.append(error)
        with lock:
            left[0] -= 1
            if left[0] == 0:
                done.set()

    for k in range(left[0]):
        x = np.full((1 + k % 5, 64), k, np.float32)
        session.run_async(["c", "b"], {"x": x}, callback, x)
    assert done.wait(60) and not wrong
