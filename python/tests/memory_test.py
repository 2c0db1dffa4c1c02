"""Memory from Python: statistics that add up, trim, limits, caps, and requests that cannot be met."""
import gc
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import model

import forethought as ft

ROLES = ("planned", "unplanned", "leased", "weights", "packed")
CAPS = ("execution_cap", "io_cap", "side_cap", "instance_cache")
NET = model([helper.make_node("Softmax", ["x"], ["a"]), helper.make_node("Concat", ["a", "x", "a"], ["b"], axis=1),
             helper.make_node("Softmax", ["b"], ["c"]), helper.make_node("Add", ["x", "w"], ["d"]),
             helper.make_node("Concat", ["c", "d"], ["y"], axis=1)],
            [("x", TensorProto.FLOAT, ["n", 64])], [("y", TensorProto.FLOAT, ["n", 256])],
            [helper.make_tensor("w", TensorProto.FLOAT, [64], np.arange(64, dtype=np.float32))])


def rows(n: int) -> dict:
    return {"x": np.ones((n, 64), np.float32)}


def check(stats, caps=CAPS) -> None:
    assert list(stats) == ["live", "retained", "padding", "mapped", "peak", "limit", *ROLES, *caps]
    assert stats["live"] + stats["retained"] + stats["padding"] == stats["mapped"] <= stats["peak"]
    assert sum(stats[r] for r in ROLES) == stats["live"]


def test_statistics_add_up_and_follow_what_is_held():
    session = ft.InferenceSession(NET)
    check(session.memory_stats())
    held = session.run(None, rows(100))
    one = session.memory_stats()
    check(one)
    assert one["leased"] == 100 * 256 * 4 and one["planned"] == 0
    more = session.run(None, rows(100))
    assert session.memory_stats()["leased"] == 2 * one["leased"]
    del held, more
    gc.collect()
    none = session.memory_stats()
    check(none)
    assert none["leased"] == 0 and none["retained"] > one["retained"]
    assert "<table>" in none._repr_html_() and "retained" in none._repr_html_()


def test_a65_caps_are_numbers_with_what_they_follow_from():
    session = ft.InferenceSession(NET)
    session.run(None, rows(100))
    stats, caps = session.memory_stats(), session.memory_report()["caps"]
    assert list(caps) == ["execution_cap", "io_cap", "side_cap", "plan_cache", "instance_cache"]
    assert {name: caps[name]["most"] for name in CAPS} == {name: stats[name] for name in CAPS}
    assert stats["execution_cap"] >= caps["execution_cap"]["kept"] > 0
    assert "of plans in a run" in caps["execution_cap"]["follows"]
    assert caps["plan_cache"] == {"unit": "plans", "most": 32, "kept": 1, "follows": caps["plan_cache"]["follows"]}
    session.set_retention(execution=1000)
    assert session.memory_stats()["execution_cap"] == 1000
    assert session.memory_report()["caps"]["execution_cap"]["follows"] == "set by the caller"
    assert "execution_cap" in session.memory_report()["text"] and "execution_cap" not in ft.memory_stats()


def test_what_caches_counted():
    session = ft.InferenceSession(NET)
    for n in (3, 5, 3, 9, 12):
        session.run(None, rows(n))
    counts = session.summary()
    assert (counts["plan_misses"], counts["plan_hits"], counts["plan_evicted"]) == (4, 1, 0)
    assert counts["plan_inside"] == 0 < counts["plan_by_formula"] <= 4 and counts["plan_by_order"] <= 4
    assert counts["plan_steps"] > counts["plan_steps_kept"] >= 0
    assert counts["instances_made"] == counts["instances"] + counts["instances_evicted"] > 0
    assert counts["instance_bytes"] > 0 <= counts["instance_hits"]


def test_the_limit_of_devices_is_apart_from_that_of_the_host():
    options = ft.SessionOptions()
    options.device_memory_limit = 1  # no device here has memory of its own
    session = ft.InferenceSession(NET, options)
    session.run(None, rows(100))
    assert session.memory_stats()["limit"] == 0
    ft.set_device_memory_limit(1)
    try:
        ft.InferenceSession(NET).run(None, rows(100))
        assert ft.memory_stats()["limit"] == 0
    finally:
        ft.set_device_memory_limit(0)
    options.device_memory_limit = -1
    with pytest.raises(ft.InvalidArgument, match="on devices.*-1 bytes; 0 stands for none"):
        ft.InferenceSession(NET, options)


def test_the_report_of_shapes_comes_before_any_run():
    session = ft.InferenceSession(NET)
    assert session.memory_report()["least_limit"] == 0
    (name, value), = rows(1000).items()
    least = session.memory_report({name: value.shape})["least_limit"]
    session.set_memory_limit(least - 1)
    with pytest.raises(ft.RuntimeException, match=rf"\({least} bytes\)"):
        session.run(None, rows(1000))
    session.set_memory_limit(least)
    session.run(None, rows(1000))
    with pytest.raises(ft.InvalidArgument, match="not fixed"):
        session.memory_report({})


def test_a_target_below_zero_is_refused():
    with pytest.raises(ft.InvalidArgument, match="-1 bytes"):
        ft.InferenceSession(NET).trim(-1)


def test_check19_trim_gives_back_what_is_kept_and_says_how_much():
    session = ft.InferenceSession(NET)
    held = session.run(None, rows(1000))
    session.run(None, rows(1000))
    before = session.memory_stats()
    freed = session.trim(before["retained"] // 2)
    middle = session.memory_stats()
    assert freed == before["retained"] - middle["retained"] > 0 and middle["retained"] <= before["retained"] // 2
    assert session.trim() == middle["retained"]
    after = session.memory_stats()
    check(after)
    assert after["retained"] == 0 and after["leased"] == before["leased"]
    np.testing.assert_array_equal(held[0], session.run(None, rows(1000))[0])


def test_caps():
    options = ft.SessionOptions()
    options.retain_execution = options.retain_io = options.retain_side = 0
    session = ft.InferenceSession(NET, options)
    session.run(None, rows(1000))
    assert session.memory_stats()["retained"] == 0
    session.set_retention()
    session.run(None, rows(1000))
    assert session.memory_stats()["retained"] > 0
    session.set_retention(execution=0, io=0)
    assert session.memory_stats()["retained"] == 0


def test_check35_a_limit_that_is_too_small_says_what_would_do():
    options = ft.SessionOptions()
    options.memory_limit = 200_000
    session = ft.InferenceSession(NET, options)
    with pytest.raises(ft.RuntimeException, match="limit") as refused:
        session.run(None, rows(10_000))
    least = int(re.search(r"allow at least .*?\((\d+) bytes\)", str(refused.value))[1])
    assert "the largest holders" in str(refused.value)
    with pytest.raises(ft.RuntimeException):
        session.set_memory_limit(least - 1)
        session.run(None, rows(10_000))
    session.set_memory_limit(least)
    session.run(None, rows(10_000))
    check(session.memory_stats())
    report = session.memory_report()
    assert report["least_limit"] == least and report["session"]["limit"] == least
    assert {h["role"] for h in report["holders"]} <= set(ROLES) and report["holders"][0]["bytes"] > 0
    assert "heap" in report["outside"] and "least" in report["text"]
    session.set_memory_limit(0)
    session.run(None, rows(20_000))


def test_sizes_that_only_data_decide_are_stated_with_their_bound():
    session = ft.InferenceSession(model(
        [helper.make_node("NonZero", ["x"], ["found"]), helper.make_node("Compress", ["x", "c"], ["taken"]),
         helper.make_node("Expand", ["one", "s"], ["wide"])],
        [("x", TensorProto.FLOAT, ["n"]), ("c", TensorProto.BOOL, ["n"]), ("s", TensorProto.INT64, ["r"])],
        [("found", TensorProto.INT64, None), ("taken", TensorProto.FLOAT, None), ("wide", TensorProto.FLOAT, None)],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1])]))
    assert [o.shape for o in session.get_outputs()][:2] == [[1, None], [None]]
    plan = session.memory_plan({"x": [100], "c": [100], "s": [20]})
    most = {v["name"]: v["most_bytes"] for v in plan["values"] if v["bytes"] == -1}
    assert most == {"found": 800, "taken": 400, "wide": None}
    assert plan["unplanned"]["values"] == 3 and plan["unplanned"]["most_bytes"] == 1200
    assert [plan["values"][v]["name"] for v in plan["unplanned"]["unbounded"]] == ["wide"]
    feed = {"x": np.arange(100, dtype=np.float32), "c": np.arange(100) % 3 == 0, "s": np.full(20, 1)}
    found, taken, wide = session.run(None, feed)
    assert found.nbytes == 792 and taken.nbytes == 136 and wide.size == 1
    report = session.memory_report()
    assert report["unplanned_values"] == 3 and report["unplanned_most"] == 832 + 448  # blocks
    assert [u.split(" of ")[0] for u in report["unbounded"]] == ["'wide'"] and "at most 1.2 KiB (1280 bytes)" in report["text"]


@pytest.mark.parametrize(("call", "message"), [
    (lambda s, o: setattr(o, "memory_limit", -1), "-1"),
    (lambda s, o: setattr(o, "memory_limit", 2**62), "more than any machine has; 0 stands for none"),
    (lambda s, o: setattr(o, "retain_io", -2), "-2 bytes"),
    (lambda s, o: s.set_memory_limit(-5), "-5 bytes; 0 stands for none"),
    (lambda s, o: s.set_memory_limit(2**61), "more than any machine"),
    (lambda s, o: s.set_memory_limit(1), "in use.*release outputs that are held, or allow more"),
    (lambda s, o: s.set_retention(side=-7), "side arena cannot keep -7 bytes"),
    (lambda s, o: ft.set_memory_limit(-1), "-1 bytes"),
    (lambda s, o: ft.set_memory_limit(1), "in use"),
    (lambda s, o: ft.set_device_memory_limit(-1), "on devices.*-1 bytes; 0 stands for none"),
    (lambda s, o: ft.set_device_memory_limit(2**61), "on devices.*more than any machine"),
])
def test_requests_that_cannot_be_met(call, message):
    session, options = ft.InferenceSession(NET), ft.SessionOptions()
    held = session.run(None, rows(1000))
    with pytest.raises(ft.ForethoughtError, match=message):
        call(session, options)
        ft.InferenceSession(NET, options)
    assert held[0].shape == (1000, 256)


def test_the_process_has_an_account_and_a_limit():
    session = ft.InferenceSession(NET)
    held = session.run(None, rows(1000))
    whole = ft.memory_stats()
    check(whole, caps=())
    assert whole["leased"] >= session.memory_stats()["leased"] == held[0].nbytes
    ft.set_memory_limit(whole["mapped"] + (1 << 20))
    try:
        assert ft.memory_stats()["limit"] == whole["mapped"] + (1 << 20)
        with pytest.raises(ft.RuntimeException, match="limit"):
            session.run(None, rows(100_000))
    finally:
        ft.set_memory_limit(0)
    session.run(None, rows(100_000))


def test_b1_weights_are_streamed_left_unpacked_or_packed_on_disk(tmp_path):
    rng = np.random.default_rng(3)
    weights = [(f"w{i}", rng.standard_normal((256, 256)).astype(np.float32)) for i in range(8)]
    with open(tmp_path / "w.bin", "wb") as data:
        for _, w in weights:
            data.write(w.tobytes())
    tensors = []
    for i, (name, _) in enumerate(weights):
        t = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[256, 256],
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(i << 18)), ("length", str(1 << 18))):
            t.external_data.add(key=key, value=value)
        tensors.append(t)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(8)]
    (tmp_path / "m.onnx").write_bytes(model(nodes, [("x0", TensorProto.FLOAT, [2, 256])],
                                            [("x8", TensorProto.FLOAT, [2, 256])], tensors))
    x = {"x0": rng.standard_normal((2, 256)).astype(np.float32)}

    def load(limit=0, **config):
        options = ft.SessionOptions()
        options.memory_limit = limit
        for key, value in config.items():
            options.add_session_config_entry("session." + key, str(value))
        return ft.InferenceSession(str(tmp_path / "m.onnx"), options)

    resident = load()
    wanted = resident.run(None, x)[0]
    assert resident.summary()["weights_window"] == 0 and resident.memory_report()["weights"] == "resident, as no memory limit"
    for config, left_out, written in ((dict(weights="streamed"), 8, 0), (dict(disable_prepacking=1), 8, 0),
                                      (dict(packed_weights_path=tmp_path / "packs", weights="streamed"), 0, 8)):
        session = load(**config)
        assert np.array_equal(session.run(None, x)[0], wanted)
        counts = session.summary()
        assert (counts["packs_left_out"], counts["packs_written"]) == (left_out, written)
        assert session.memory_stats()["packed"] == 0
        if "weights" in config:
            assert counts["weights_streamed"] == 8 << 18 and counts["weights_window"] == 1 << 18
            assert session.memory_stats()["weights"] == 0
    limited = load(limit=1 << 20)
    assert limited.memory_report()["weights"].startswith("streamed, as the memory limit does not hold them")
    assert np.array_equal(limited.run(None, x)[0], wanted)
    assert limited.memory_stats()["peak"] <= 1 << 20
    for config, told in ((dict(weights="some"), "session.weights is 'some'"), (dict(disable_prepacking="on"), "to be 0 or 1"),
                         (dict(packed_weights_path=""), "is empty")):
        with pytest.raises(ft.InvalidArgument, match=told):
            load(**config)
