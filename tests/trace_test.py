"""Tests of the file that `forethought trace` writes: the rules of the Trace Event Format, and what it says of a run."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMAND = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release")) / "tools" / "forethought"

NET = """graph net(%x: f32[2,8,16,16]) {
  %a: f32[2,8,16,16] = Relu(%x) "/first"
  %b: f32[2,8,16,16] = Sigmoid(%a) "/side"
  %c: f32[2,8,16,16] = Add(%a, %b) "/sum"
  %y: f32[2,8,16,16] = Softmax<axis=3>(%c) "/out"
  return %y
}
"""

BRANCHES = """graph branches(%x: f32[64,64]) {
  %a: f32[64,64] = MatMul(%x, %x) "/a"
  %b: f32[64,64] = Softmax<axis=1>(%a) "/b"
  %c: f32[64,64] = MatMul(%b, %x) "/c"
  %d: f32[64,64] = Softmax<axis=1>(%x) "/d"
  %e: f32[64,64] = MatMul(%d, %x) "/e"
  %y: f32[64,64] = MatMul(%c, %e) "/y"
  return %y
}
"""

LOOP = """graph loop(%n: i64[], %k: bool[], %x: f32[4]) {
  %y: f32[4] = Loop(%n, %k, %x) "/loop" {
    body: graph(%i: i64[], %c: bool[], %s: f32[4]) {
      %d: bool[] = Identity(%c) "/go"
      %t: f32[4] = Relu(%s) "/step"
      return %d, %t
    }
  }
  %z: f32[4] = Neg(%y) "/after"
  return %z
}
"""


def trace(folder: pathlib.Path, text: str, *argv) -> dict:
    (folder / "net.graph").write_text(text)
    file = folder / "trace.json"
    subprocess.run([str(COMMAND), "trace", str(folder / "net.graph"), "--level", "disabled", "-o", str(file), *argv],
                   check=True, capture_output=True, timeout=120)
    return json.loads(file.read_text())


def check_format(data: dict) -> None:
    """What readers of the format rely on: the fields of each phase, slices of a row nested, arrows from slice to slice."""
    assert set(data) == {"traceEvents", "displayTimeUnit", "otherData"} and data["displayTimeUnit"] in ("ms", "ns")
    rows, arrows = {}, {}
    named = set()
    for e in data["traceEvents"]:
        assert isinstance(e["name"], str) and e["name"] and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert e["ph"] in ("X", "M", "C", "s", "f"), e
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "thread_sort_index") and len(e["args"]) == 1
            named.add(e["tid"])
            continue
        assert isinstance(e["ts"], (int, float)) and e["ts"] >= 0 and isinstance(e["cat"], str)
        if e["ph"] == "X":
            assert e["dur"] >= 0
            rows.setdefault(e["tid"], []).append(e)
        elif e["ph"] == "C":
            assert e["args"] and all(isinstance(v, (int, float)) for v in e["args"].values())
        else:
            arrows.setdefault(e["id"], []).append(e)
    assert set(rows) <= named
    for events in rows.values():
        open_ends = []
        for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            end = e["ts"] + e["dur"]
            while open_ends and open_ends[-1] <= e["ts"] + 1e-9:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-3, e
            open_ends.append(end)
    for ends in arrows.values():
        start, finish = sorted(ends, key=lambda e: e["ph"], reverse=True)
        assert (start["ph"], finish["ph"], finish["bp"]) == ("s", "f", "e") and start["ts"] <= finish["ts"]
        assert start["name"] == finish["name"] and start["cat"] == finish["cat"] and start["tid"] != finish["tid"]
        for e in ends:
            assert any(s["ts"] <= e["ts"] <= s["ts"] + s["dur"] for s in rows[e["tid"]]), e


def slices(data: dict, category: str) -> list[dict]:
    return [e for e in data["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


def test_a_run_is_written_step_by_step(tmp_path):
    data = trace(tmp_path, NET)
    check_format(data)
    plan = json.loads(subprocess.run([str(COMMAND), "plan", str(tmp_path / "net.graph"), "--level", "disabled", "--json"],
                                     check=True, capture_output=True, text=True).stdout)
    steps = slices(data, "step")
    assert [s["name"] for s in steps] == [s["name"] for s in plan["steps"]]
    assert [s["args"]["kernel"] for s in steps] == [k["kernel"] for k in plan["kernels"]]
    assert steps[2]["args"]["inputs"] == ["f32[2,8,16,16]"] * 2 and steps[2]["args"]["outputs"] == ["f32[2,8,16,16]"]
    run, = slices(data, "run")
    assert run["args"]["steps"] == len(steps)
    assert all(run["ts"] <= s["ts"] and s["ts"] + s["dur"] <= run["ts"] + run["dur"] for s in steps)
    live = [e["args"]["bytes"] for e in data["traceEvents"] if e["ph"] == "C" and e["name"] == "planned live bytes"]
    assert live == [*plan["live"], 0]
    assert data["otherData"]["model"] == "net.graph"
    memory = [e["args"] for e in data["traceEvents"] if e["ph"] == "C" and e["name"] == "memory"]
    assert len(memory) == len(steps)
    assert all({"planned", "unplanned", "leased", "retained"} <= set(m) for m in memory)
    assert all(m["planned"] >= plan["peak"] and m["leased"] > 0 for m in memory)


def test_several_runs_follow_each_other(tmp_path):
    data = trace(tmp_path, NET, "--runs", "3", "--warmup", "0")
    check_format(data)
    runs = slices(data, "run")
    assert [r["name"] for r in runs] == ["run 0", "run 1", "run 2"] and len(slices(data, "step")) == 12
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(runs, runs[1:]))


def test_steps_of_bodies_lie_in_the_step_that_runs_them(tmp_path):
    data = trace(tmp_path, LOOP, "--dim", "N=1")
    check_format(data)
    steps, inner = slices(data, "step"), slices(data, "body")
    assert [s["name"] for s in steps] == ["/loop (Loop)", "/after (Neg)"]
    trips = [b for b in inner if b["name"] == "/step (Relu)"]
    assert {b["tid"] for b in inner} <= {steps[0]["tid"]}
    assert all(steps[0]["ts"] <= b["ts"] and b["ts"] + b["dur"] <= steps[0]["ts"] + steps[0]["dur"] and b["args"]["depth"] == 1 for b in trips)


def test_lanes_have_rows_waits_and_arrows(tmp_path):
    data = trace(tmp_path, BRANCHES, "--lanes", "2", "--threads", "2", "--runs", "3")
    check_format(data)
    plan = json.loads(subprocess.run([str(COMMAND), "plan", str(tmp_path / "net.graph"), "--level", "disabled", "--lanes", "2",
                                      "--threads", "2", "--json"], check=True, capture_output=True, text=True).stdout)
    assert plan["lanes"] == 2
    lanes = {s["name"]: s["lane"] for s in plan["steps"]}
    titles = {e["tid"]: e["args"]["name"] for e in data["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    steps = slices(data, "step")
    assert len(steps) == 3 * len(plan["steps"]) and set(lanes.values()) == {0, 1}
    assert all(titles[s["tid"]] == f"lane {lanes[s['name']]}" for s in steps)

    # Every notification that a step waits for comes as an arrow out of the step of the other lane that gives it.
    givers = {n: s["name"] for s in plan["steps"] for n in s["signals"]}
    awaited = {(givers[n], s["name"]) for s in plan["steps"] for n in s["waits"] if lanes[givers[n]] != s["lane"]}
    assert awaited

    def step_at(tid, ts):
        return next(s for s in steps if s["tid"] == tid and s["ts"] <= ts <= s["ts"] + s["dur"])
    ends = {}
    for e in data["traceEvents"]:
        if e["ph"] in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = step_at(e["tid"], e["ts"])
    arrows = [(a["s"], a["f"]) for a in ends.values()]
    assert sorted((s["name"], f["name"]) for s, f in arrows) == sorted(3 * list(awaited))
    assert all(s["ts"] + s["dur"] <= f["ts"] + 1e-3 for s, f in arrows)

    # A wait fills what its lane has between two steps, and tells before what and for whom.
    waiting = {f: {s for s, to in awaited if to == f} for _, f in awaited}
    waits = slices(data, "wait")
    for w in waits:
        assert set(w["args"]["for"]) == waiting[w["args"]["before"]]
        assert any(s["name"] == w["args"]["before"] and s["tid"] == w["tid"] and abs(s["ts"] - w["ts"] - w["dur"]) < 1e-3
                   for s in steps)
    assert waits and all(w["dur"] > 0 for w in waits)


def test_names_that_are_no_text_are_written(tmp_path):
    data = trace(tmp_path, 'graph g(%x: f32[2]) { %y: f32[2] = Relu(%x) "\\"</b>\\n" return %y }')
    check_format(data)
    assert slices(data, "step")[0]["name"].startswith('"</b>')


@pytest.mark.parametrize("threads", ("1", "2"))
def test_threads_are_told(tmp_path, threads):
    data = trace(tmp_path, NET, "--threads", threads)
    assert {s["args"]["thread"] for s in slices(data, "step")} == {0}
