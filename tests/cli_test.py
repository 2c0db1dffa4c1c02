"""Tests of the forethought command: every subcommand on small models, exit codes, error texts, hostile files."""
import json
import os
import pathlib
import pty
import random
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMAND = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release")) / "tools" / "forethought"
SUBCOMMANDS = ("run", "info", "dump", "plan", "trace", "stages", "check", "bench")
STAGES = ("import", "infer", "basic", "partition", "extended", "layout")
OK, DIFFERENT, USAGE, BAD_INPUT, RUN_FAILED = range(5)


def call(*argv, code: int = OK, env: dict | None = None) -> subprocess.CompletedProcess:
    done = subprocess.run([str(a) for a in (COMMAND, *argv)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})}, errors="replace")
    assert done.returncode == code, f"{argv} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


def small_net() -> onnx.ModelProto:
    """x[N,3,6,6] → Conv → Relu → + 0 → Flatten → Gemm → y[N,5]; the + 0 comes from constants that fold."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(size=(8, 3, 3, 3)), "b": rng.normal(size=8), "g": rng.normal(size=(288, 5))}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="/conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="/relu"),
             helper.make_node("Sub", ["b", "b"], ["zeros"], name="/zeros"),
             helper.make_node("ReduceSum", ["zeros"], ["zero"], name="/zero", keepdims=0),
             helper.make_node("Add", ["r", "zero"], ["a"], name="/add"),
             helper.make_node("Flatten", ["a"], ["f"], name="/flatten"),
             helper.make_node("Gemm", ["f", "g"], ["y"], name="/gemm")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 6, 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])],
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="maker")
    helper.set_model_props(model, {"alphabet": "abc"})
    return model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    onnx.save(small_net(), path)
    return path


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(2, 3, 6, 6)).astype(np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    return ReferenceEvaluator(small_net()).run(None, {"x": x})[0]


def save(path: pathlib.Path, nodes, inputs, outputs, opset=17) -> pathlib.Path:
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=8,
                                opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


def f32(name, dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


# --- help -------------------------------------------------------------------------------------------------------------


def test_help_lists_the_commands_the_exit_codes_and_examples():
    text = call("--help").stdout
    assert all(f"\n  {name} " in text for name in SUBCOMMANDS)
    assert "Exit codes:" in text and "Examples:" in text and "FORETHOUGHT_ISA" in text


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_a_command_describes_every_option(name):
    text = call(name, "--help").stdout
    assert "Exit codes:" in text and f"\n  forethought {name} " in text
    for option in ("--level", "--threads", "--plan-mode", "--provider", "--rewrite-limit", "--without"):
        assert option in text
    # Every line that starts an option or a positional has words of description on it or on the next line.
    lines = text[text.index("Options:"):text.index("Exit codes:")].splitlines()
    for line, following in zip(lines, lines[1:]):
        if line.startswith("  -"):
            described = line[30:].strip() or (following.startswith(" " * 30) and following.strip())
            assert described, line


def test_version():
    assert call("--version").stdout.count(".") == 2


# --- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ("disabled", "basic", "extended", "all"))
@pytest.mark.parametrize("plan", ("packed", "slots", "off"))
def test_run_reads_and_writes_npy(model, sample, tmp_path, level, plan):
    np.save(tmp_path / "x.npy", sample)
    out = call("run", "--level", level, "--plan-mode", plan, model, "--input", f"x={tmp_path / 'x.npy'}",
               "--output-dir", tmp_path / "out").stdout
    assert "y: f32[2,5]" in out and "mean" in out
    np.testing.assert_allclose(np.load(tmp_path / "out" / "output_0.npy"), expected(sample), rtol=1e-4, atol=1e-4)


def test_run_reads_pb_and_fortran_order(model, sample, tmp_path):
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(sample, "x").SerializeToString())
    np.save(tmp_path / "x.npy", np.asfortranarray(sample))
    for name in ("x.pb", "x.npy"):
        call("run", model, "--input", f"x={tmp_path / name}", "--output-dir", tmp_path)
        np.testing.assert_allclose(np.load(tmp_path / "output_0.npy"), expected(sample), rtol=1e-4, atol=1e-4)


def test_random_inputs_follow_the_seed(model, tmp_path):
    results = []
    for seed in (1, 1, 2):
        call("run", "--shape", "x=1,3,6,6", model, "--seed", seed, "--output-dir", tmp_path)
        results.append(np.load(tmp_path / "output_0.npy"))
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0], results[2])


def test_memory_is_told_and_capped(model):
    told = call("run", model, "--dim", "N=2", "--memory-stats").stdout
    stats = {line.split()[0]: int(line.split()[1]) for line in told.split("memory, in bytes\n")[1].splitlines()}
    assert list(stats) == ["live", "retained", "padding", "mapped", "peak", "limit", "planned", "unplanned", "leased",
                           "weights", "packed"]
    assert stats["live"] + stats["retained"] + stats["padding"] == stats["mapped"] <= stats["peak"]
    assert sum(stats[k] for k in ("planned", "unplanned", "leased", "weights", "packed")) == stats["live"]
    assert json.loads(call("bench", model, "--dim", "N=2", "--runs", "1", "--json").stdout)["memory"].keys() == stats.keys()
    counts = dict(line.split() for line in call("run", model, "--dim", "N=2", "--stats").stdout.split(" ms\n")[1].splitlines())
    assert list(counts) == ["plan_hits", "plan_misses", "plan_evicted", "plan_inside", "plan_by_formula", "plan_by_order", "plan_steps",
                            "plan_steps_kept", "plan_steps_as_others", "instances", "instance_bytes", "instance_hits", "instances_made",
                            "instances_evicted", "weights_streamed", "weights_window", "packs_left_out", "packs_read", "packs_written"]
    assert int(counts["plan_steps"]) > 0 and counts["plan_evicted"] == "0"
    assert "limit" in call("run", model, "--dim", "N=2", "--memory-limit", "1G", "--memory-stats").stdout
    refused = call("run", model, "--dim", "N=2", "--memory-limit", "100", code=BAD_INPUT).stderr
    assert "the memory limit of 100 bytes" in refused and "allow at least" in refused


def test_symbols_take_numbers(model):
    assert "y: f32[3,5]" in call("run", model, "--dim", "N=3").stdout


def test_sequences_are_written_element_by_element(tmp_path):
    kind = helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, [2])
    path = save(tmp_path / "m.onnx", [helper.make_node("SequenceConstruct", ["a", "b"], ["q"])],
                [f32("a", [2]), f32("b", [2])], [kind])
    assert "q: sequence of 2" in call("run", path, "--output-dir", tmp_path).stdout
    assert np.load(tmp_path / "output_0_1.npy").shape == (2,)


# --- info, dump -------------------------------------------------------------------------------------------------------


def test_info_tells_what_the_file_says(model):
    text = call("info", model).stdout
    for piece in ("maker", "opset: ai.onnx 17", "IR version 8", "x: tensor(float) [N,3,6,6]", "y: tensor(float) [N,5]",
                  "1  Conv", "alphabet: abc"):
        assert piece in text


def test_info_describes_what_cannot_be_run(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Det", ["x"], ["y"], name="/det")], [f32("x", [2, 2])],
                [f32("y", [])])
    text = call("info", path).stdout
    assert "cannot be run" in text and "1  Det" in text and "x: tensor(float) [2,2]" in text


@pytest.mark.parametrize("stage", STAGES)
def test_a_dump_reads_back_as_itself(model, sample, tmp_path, stage):
    first = call("dump", model, "--stage", stage, "--weights", "--dim", "N=2").stdout
    (tmp_path / "g.txt").write_text(first)
    assert call("dump", tmp_path / "g.txt", "--stage", "import", "--weights").stdout == first
    np.save(tmp_path / "x.npy", sample)
    call("run", tmp_path / "g.txt", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "output_0.npy"), expected(sample), rtol=1e-4, atol=1e-4)


def test_stages_change_the_graph(model):
    imported, basic = (call("dump", model, "--stage", stage).stdout for stage in ("import", "basic"))
    assert "Sub(" in imported and "Sub(" not in basic
    assert "…" in imported and call("dump", model, "--stage", "import", "--without", "fold_constants").stdout == imported


def test_a_saved_graph_runs_elsewhere(model, sample, tmp_path):
    call("dump", model, "--stage", "basic", "--onnx", tmp_path / "basic.onnx")
    saved = onnx.load(tmp_path / "basic.onnx")
    onnx.checker.check_model(saved)
    assert len(saved.graph.node) < len(small_net().graph.node)
    np.testing.assert_allclose(ReferenceEvaluator(saved).run(None, {"x": sample})[0], expected(sample), rtol=1e-4,
                               atol=1e-4)


# --- plan, stages -----------------------------------------------------------------------------------------------------


def plan_json(*argv, **more) -> dict:
    return json.loads(call("plan", *argv, "--json", **more).stdout)


def test_plan_places_every_value(model):
    plan = plan_json(model, "--shape", "x=2,3,6,6", "--level", "disabled")
    assert plan["lower_bound"] <= plan["peak"] <= plan["naive"] and plan["naive"] > 0
    values = {v["name"]: v for v in plan["values"]}
    assert values["x"]["role"] == "input" and values["y"]["role"] == "output" and values["w"]["role"] == "weight"
    assert values["c"]["arena"] == "slab" and values["c"]["bytes"] >= 2 * 8 * 36 * 4
    assert values["f"]["root"] != values["f"]["id"]  # Flatten is a view
    steps = {s["name"]: s for s in plan["steps"]}
    assert values["c"]["id"] in steps["/conv (Conv)"]["writes"]
    assert len(plan["kernels"]) == len(plan["steps"]) and all(k["kernel"] for k in plan["kernels"])


def test_plan_tells_the_least_memory_limit_that_works(model):
    shape = ("--shape", "x=2,3,6,6", "--threads", "1")
    text = call("plan", model, *shape, "--memory").stdout
    assert all(f"\n  {name} " in text for name in ("live", "retained", "padding", "mapped", "peak", "weights", "leased"))
    assert "'w' of node /relu (forethought.FusedConv)" in text and "generated code" in text
    least = int(re.search(r"least limit: (\d+) bytes", text)[1])
    told = json.loads(call("plan", model, *shape, "--memory", "--json").stdout)
    assert told["least_limit"] == least and told["session"]["weights"] > 0 and told["holders"][0]["bytes"] > 0
    peak = json.loads(call("plan", model, *shape, "--json").stdout)["peak"]
    pages = -(-peak // 4096) * 4096
    assert told["caps"]["execution_cap"]["most"] == pages + pages // 4
    for name, cap in told["caps"].items():
        assert f"\n  {name:16}{cap['most']} {cap['unit']} ({cap['kept']} now): {cap['follows']}\n" in text
    call("run", model, *shape, env={"FORETHOUGHT_MEMORY_LIMIT": str(least)})
    refused = call("run", model, *shape, env={"FORETHOUGHT_MEMORY_LIMIT": str(least - 4096)}, code=RUN_FAILED)
    assert f"({least} bytes)" in refused.stderr and "of node" in refused.stderr
    for variable in ("FORETHOUGHT_MEMORY_LIMIT", "FORETHOUGHT_DEVICE_MEMORY_LIMIT"):
        wrong = call("run", model, *shape, env={variable: "much"}, code=USAGE).stderr
        assert f"{variable} › 'much' is no size of memory" in wrong
    call("run", model, *shape, env={"FORETHOUGHT_DEVICE_MEMORY_LIMIT": "1"})  # no device here has memory of its own


def test_plan_is_for_the_bound_where_nothing_else_is_said(model):
    largest = plan_json(model, "--max-dim", "N=3")
    assert {v["name"]: v.get("dims") for v in largest["values"]}["x"] == [3, 3, 6, 6]
    assert largest["peak"] == plan_json(model, "--dim", "N=3")["peak"]
    smaller = plan_json(model, "--max-dim", "N=3", "--shape", "x=2,3,6,6")
    assert {v["name"]: v.get("dims") for v in smaller["values"]}["x"] == [2, 3, 6, 6]
    least = int(re.search(r"least limit: (\d+) bytes", call("plan", model, "--max-dim", "N=3", "--memory").stdout)[1])
    call("run", model, "--max-dim", "N=3", "--shape", "x=3,3,6,6", "--memory-limit", least)


def test_plan_of_one_value_and_one_node(model):
    shape = ("--shape", "x=2,3,6,6", "--level", "disabled")
    value = plan_json(model, *shape, "--value", "c")
    assert [v["name"] for v in value["values"]] == ["c"]
    assert {s["name"] for s in value["steps"]} == {"/conv (Conv)", "/relu (Relu)"}
    node = plan_json(model, *shape, "--node", "/conv")
    assert [s["name"] for s in node["steps"]] == ["/conv (Conv)"] == [k["name"] for k in node["kernels"]]
    assert {"x", "w", "b", "c"} <= {v["name"] for v in node["values"]}
    text = call("plan", model, *shape, "--value", "f").stdout
    assert "root %" in text and "/flatten (Flatten)" in text and "kernel:" in text


def test_a_node_that_was_fused_is_found_by_its_own_name(model):
    node = plan_json(model, "--shape", "x=2,3,6,6", "--node", "/conv")
    assert {"/conv", "/relu"} <= set(node["kernels"][0]["origin"])
    assert "stands for: " in call("plan", model, "--shape", "x=2,3,6,6", "--node", "/relu").stdout


def test_the_forced_tier_changes_the_kernels(model):
    plan = plan_json(model, "--shape", "x=2,3,6,6", env={"FORETHOUGHT_ISA": "scalar"})
    assert not any("onednn" in k["kernel"] or "avx" in k["kernel"] for k in plan["kernels"])


def test_stages_tell_times_counts_claims_and_rewrites(model):
    report = json.loads(call("stages", model, "--json").stdout)
    assert [s["stage"] for s in report["stages"]] == list(STAGES)
    by_stage = {s["stage"]: s for s in report["stages"]}
    assert by_stage["import"]["nodes_after"] == 7 > by_stage["basic"]["nodes_after"]
    assert {c["provider"] for c in report["claims"]} == {"CPUExecutionProvider"} and all(c["reason"] for c in report["claims"])
    assert any(e["rule"] == "fold_constants" and e["applied"] for e in report["journal"])
    text = call("stages", model, "--journal", "--claims").stdout
    assert "applied" in text and "CPUExecutionProvider" in text


def test_stages_tell_how_many_lanes_and_why(model):
    def lanes(*argv):
        text = next(line for line in call("stages", model, *argv).stdout.splitlines() if line.startswith("lanes: "))
        told = json.loads(call("stages", model, "--json", *argv).stdout)["lanes"]
        assert told["reason"] in text
        return told
    assert lanes()["count"] == 0 and "--shape or --dim" in lanes()["reason"]
    for size in (("--dim", "N=2"), ("--shape", "x=2,3,6,6"), ("--max-dim", "N=2")):
        assert lanes(*size, "--threads", 1) == {"count": 1, "reason": "the pool has one thread"}
    assert lanes("--dim", "N=2", "--lanes", 2) == {"count": 1, "reason": "no branches that could run side by side"}


def test_stages_tell_where_sizes_of_new_shapes_come_from(model, tmp_path):
    def sizes(path):
        text = call("stages", path).stdout
        told = json.loads(call("stages", path, "--json").stdout)["sizes"]
        assert f"sizes: {told}\n" in text
        return told
    assert "formulas of the inputs' dims" in sizes(model)
    fixed = tmp_path / "fixed.txt"
    fixed.write_text("graph(%x: f32[2,3]) {\n  %y = Relu(%x)\n  return %y\n}")
    assert sizes(fixed) == "the shape rules, for each set of shapes anew: no input has open dims"


def test_stages_tell_where_offsets_of_new_shapes_come_from(model, tmp_path):
    def offsets(path, *argv):
        text = call("stages", path, *argv).stdout
        told = json.loads(call("stages", path, "--json", *argv).stdout)["offsets"]
        assert f"offsets: {told}\n" in text
        return told
    assert "--shape or --dim" in offsets(model)
    assert offsets(model, "--dim", "N=2").startswith("one order for all sizes")
    lanes = tmp_path / "lanes.txt"
    lanes.write_text("graph(%x: f32[N,3]) {\n  %a = Relu(%x)\n  %b = Neg(%x)\n  %y = Add(%a, %b)\n  return %y\n}")
    assert "several lanes" in offsets(lanes, "--dim", "N=2", "--lanes", 2)


def test_numbers_for_symbols_that_are_not_there_are_warned_of(model):
    assert "no input has a dim 'Q'" in call("run", model, "--dim", "N=1", "--dim", "Q=2").stderr


def test_a_rewrite_limit_bisects(model):
    applied = [len([e for e in json.loads(call("stages", model, "--json", "--rewrite-limit", n).stdout).get("journal", [])
                    if e["applied"]]) for n in (0, 1)]
    assert applied == [0, 1]


# --- check, bench -----------------------------------------------------------------------------------------------------


@pytest.fixture
def cases(tmp_path, sample) -> pathlib.Path:
    """One case in ONNX's layout and one with .npy files."""
    for name, folder in (("pb", "test_data_set_0"), ("npy", "case_0")):
        (tmp_path / name / folder).mkdir(parents=True)
        onnx.save(small_net(), tmp_path / name / "model.onnx")
    for file, array in (("input_0", sample), ("output_0", expected(sample))):
        (tmp_path / "pb" / "test_data_set_0" / f"{file}.pb").write_bytes(
            numpy_helper.from_array(array).SerializeToString())
    np.save(tmp_path / "npy" / "case_0" / "input_0.npy", sample)
    np.save(tmp_path / "npy" / "case_0" / "expected_0.npy", expected(sample))
    (tmp_path / "npy" / "tolerance.json").write_text('{"rtol": 0.001, "atol": 0.0001}')
    return tmp_path


def test_check_passes_what_is_right(cases):
    out = call("check", cases, "--verbose", "--atol", "1e-4").stdout
    assert "ok   npy" in out and "ok   pb" in out and out.endswith("2 passed, 0 failed\n")
    assert call("check", cases, "--filter", "npy").stdout == "1 passed, 0 failed\n"


def test_check_shows_what_is_wrong(cases, sample):
    np.save(cases / "npy" / "case_0" / "expected_0.npy", expected(sample) + 0.5)
    out = call("check", cases, "--atol", "1e-4", code=DIFFERENT).stdout
    assert "FAIL npy: case_0 › output 'y'" in out and out.endswith("1 passed, 1 failed\n")
    call("check", cases, "--atol", "1")


@pytest.mark.parametrize("text", ('{"rtol": "much"}', "[1]", "{", '{"atol": null}'))
def test_check_survives_a_bad_tolerance_file(cases, text):
    (cases / "npy" / "tolerance.json").write_text(text)
    assert call("check", cases, "--filter", "npy").stdout == "1 passed, 0 failed\n"


def test_check_fails_a_case_that_lacks_its_files(cases):
    (cases / "pb" / "test_data_set_0" / "output_0.pb").unlink()
    assert "no expected value" in call("check", cases / "pb", code=DIFFERENT).stdout


def test_bench_measures(model):
    result = json.loads(call("bench", model, "--dim", "N=1", "--runs", 5, "--threads", 1, "--json").stdout)
    assert result["runs"] == 5 and 0 < result["min_ms"] <= result["median_ms"] <= result["p90_ms"]
    assert any("Conv" in o["name"] for o in result["operators"])
    text = call("bench", model, "--dim", "N=1", "--seconds", 0.05, "--nodes").stdout
    assert "median" in text and "/gemm (Gemm)" in text


# --- wrong use, wrong files -------------------------------------------------------------------------------------------

WRONG_USE = [
    ([], "required"), (["bogus"], "'bogus'"), (["run"], "model"), (["run", "{model}", "--level", "3"], "--level"),
    (["run", "{model}", "--plan-mode", "half"], "--plan-mode"), (["run", "{model}", "--threads", "-1"], "--threads"),
    (["run", "{model}", "--nonsense"], "nonsense"), (["run", "{model}", "--shape"], "--shape"),
    (["run", "{model}", "--shape", "x"], "NAME="), (["run", "{model}", "--shape", "x=1,two"], "'two'"),
    (["run", "{model}", "--shape", "x=1,-3"], "'-3'"), (["run", "{model}", "--shape", "z=1"], "'z'"),
    (["run", "{model}", "--shape", "x=1,3,6,6", "--shape", "x=2,3,6,6"], "twice"),
    (["run", "{model}", "--shape", "x=1,3,6,6", "--input", "x=file"], "comes from a file"),
    (["run", "{model}", "--shape", "x=99999999999999999999"], "is no size"),
    (["run", "{model}"], "--shape x="), (["run", "{model}", "--dim", "N"], "SYMBOL="),
    (["run", "{model}", "--dim", "N=some"], "'some'"), (["run", "{model}", "--dim", "N=1", "--dim", "N=2"], "'N' twice"),
    (["run", "{model}", "--max-dim", "N=1", "--max-dim", "N=2"], "'N' twice"),
    (["run", "{model}", "--max-dim", "N=8", "--dim", "N=2"], "give one of the two"),
    (["run", "{model}", "--max-dim", "Q=8"], "no input has a dim 'Q'"), (["run", "{model}", "--max-dim", "N=0"], "at least 1"),
    (["run", "{model}", "--max-dim", "N=2", "--shape", "x=3,3,6,6"], "N at most 2"),
    (["run", "{model}", "--shape", "x=1,3,7,6"], "declares input 'x' as [N,3,6,6]; give 4 dims"),
    (["run", "{model}", "--shape", "x=1,3"], "--shape x=1,3: the model declares input 'x'"),
    (["stages", "{model}", "--shape", "x=1,3"], "--shape x=1,3: the model declares input 'x'"),
    (["plan", "{model}", "--shape", "x=1,2,6,6"], "--shape x=1,2,6,6: the model declares input 'x'"), (["run", "{model}", "--input", "x"], "NAME="),
    (["run", "{model}", "--input", "z=file"], "'z'"), (["run", "{model}", "--seed", "-3"], "--seed"),
    (["run", "{model}", "--provider", "Abacus"], "CPUExecutionProvider"),
    (["run", "{model}", "--without", "nonsense"], "fold_constants"),
    (["run", "{model}", "--rewrite-limit", "-2"], "--rewrite-limit"),
    (["run", "{model}", "--memory-limit", "-5"], "--memory-limit"),
    (["run", "{model}", "--memory-limit", "12X"], "--memory-limit"),
    (["run", "{model}", "--device-memory-limit", "12X"], "--device-memory-limit"),
    (["run", "{model}", "--memory-limit", "9999999T"], "--memory-limit"),
    (["run", "{model}", "--memory-limit", "0.5"], "--memory-limit"), (["run", "{model}", "--memory-limit", ""], "is empty"),
    (["run", "{model}", "--device-memory-limit", ""], "is empty"),
    (["run", "{model}", "--seed", "18446744073709551616"], "from 0 to 18446744073709551615"),
    (["run", "{model}", "--seed", "abc"], "'abc' is no whole number"),
    (["run", "{model}", "--config", "a=1", "--config", "a=2"], "--config names 'a' twice"),
    (["dump", "{model}", "--stage", "later"], "later"), (["plan", "{model}", "--dim", "N=1", "--value", "yy"], "'y'"),
    (["plan", "{model}", "--dim", "N=1", "--node", "/con"], "'/conv'"),
    (["plan", "{model}", "--dim", "N=1", "--node", "/conv", "--value", "y"], "--value"),
    (["plan", "{model}", "--dim", "N=1", "--html", "p.html", "--json"], "--json"),
    (["plan", "{model}", "--dim", "N=1", "--html", "p.html", "--value", "y"], "--value"),
    (["plan", "{model}", "--dim", "N=1", "--html", "p.html", "--memory"], "--memory"),
    (["trace", "{model}", "--dim", "N=1"], "--output"), (["trace", "{model}", "-o", "t.json"], "--shape x="),
    (["trace", "{model}", "--dim", "N=1", "-o", "t.json", "--runs", "0"], "--runs"),
    (["bench", "{model}", "--runs", "-1"], "--runs"), (["check"], "folders"), (["check", ".", "--rtol", "-1"], "--rtol"),
]


@pytest.mark.parametrize("argv,piece", WRONG_USE, ids=[" ".join(a) or "nothing" for a, _ in WRONG_USE])
def test_wrong_use(model, argv, piece):
    done = call(*[a.replace("{model}", str(model)) for a in argv], code=USAGE)
    assert piece in done.stderr + done.stdout


@pytest.mark.parametrize("variable, value", [("LANES", "two"), ("THREADS", "-1"), ("PLAN", "fast"), ("LOG", "loud"),
                                             ("ISA", "sse"), ("VALIDATE", "maybe")])
@pytest.mark.parametrize("command", ["run", "plan", "stages", "bench"])
def test_nonsense_in_the_environment_is_wrong_use(model, command, variable, value):
    done = call(command, model, "--dim", "N=1", env={f"FORETHOUGHT_{variable}": value}, code=USAGE)
    assert f"FORETHOUGHT_{variable} is '{value}'; set it to " in done.stderr and done.stderr.count("\n") == 1


def test_a_limit_of_the_process_that_is_less_than_a_byte_is_wrong_use(model):
    for variable in ("FORETHOUGHT_MEMORY_LIMIT", "FORETHOUGHT_DEVICE_MEMORY_LIMIT"):
        refused = call("run", model, "--dim", "N=1", env={variable: "0.5"}, code=USAGE).stderr
        assert variable in refused and "'0.5' is less than a byte" in refused


def test_the_option_and_the_environment_take_the_same_numbers_of_threads(model):
    for threads in (0, 300, 1024):
        call("plan", model, "--dim", "N=1", "--threads", threads)
        call("plan", model, "--dim", "N=1", env={"FORETHOUGHT_THREADS": str(threads)})
    assert "--threads" in call("plan", model, "--dim", "N=1", "--threads", 1025, code=USAGE).stderr
    call("plan", model, "--dim", "N=1", env={"FORETHOUGHT_THREADS": "1025"}, code=USAGE)


@pytest.mark.parametrize("name", ["new\nline", "bell\x07\x1b[31m", "sep\u2028", "tab\t"])
def test_names_do_not_break_the_line_of_an_error(tmp_path, name):
    """Wherever the name stands: of a node, a value, an operator, an input."""
    def refused(*nodes, command=("stages",), code=BAD_INPUT):
        path = save(tmp_path / "m.onnx", list(nodes), [f32(name, [2, 3])], [f32("y", None)])
        return call(*command[:1], path, *command[1:], code=code).stderr

    escaped = name.translate({7: r"\x07", 9: r"\t", 10: r"\n", 27: r"\x1b", 0x2028: r"\u2028"})
    wrong_shape = helper.make_node("MatMul", [name, name], ["y"], name=name)
    for text in (refused(wrong_shape), refused(helper.make_node("Relu", ["lost" + name], ["y"])),
                 refused(helper.make_node("Relu", [name], ["y"]), command=("run", "--shape", name + "=7"), code=USAGE)):
        assert escaped in text and len(text.splitlines()) == 1, text
    missing = refused(helper.make_node(name, [name], ["y"], name=name))
    assert escaped in missing and len(missing.splitlines()) == 2, missing


def test_one_symbol_is_one_number(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Add", ["a", "b"], ["y"])], [f32("a", ["N"]), f32("b", ["N"])],
                [f32("y", ["N"])])
    refused = call("plan", path, "--shape", "a=2", "--shape", "b=3", code=USAGE).stderr
    assert "input 'b' wants [N]; what came has 3 for N, which input 'a' sets to 2" in refused


def test_config_keys_that_are_nearly_right_are_warned_of_once(model):
    told = call("run", model, "--dim", "N=1", "--config", "session.weigths=streamed", "--config", "session.other=1").stderr
    assert told.count("'session.weigths' means nothing; did you mean 'session.weights'?") == 1 and "other" not in told


def test_names_of_inputs_and_symbols_may_hold_equals_signs(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Neg", ["a,b=c"], ["y"])], [f32("a,b=c", ["n=m", 3])],
                [f32("y", ["n=m", 3])])
    assert "[2,3]" in call("run", path, "--shape", "a,b=c=2,3").stdout
    assert "[4,3]" in call("run", path, "--dim", "n=m=4").stdout


WRONG_FILES = [
    (["run", "absent.onnx"], "absent.onnx"), (["info", "."], "no regular file"), (["stages", "absent.txt"], "absent.txt"),
    (["check", "absent"], "no folder"), (["check", "{empty}"], "no case"), (["run", "/dev/null"], "no regular file"),
    (["run", "{model}", "--input", "x=absent.npy"], "absent.npy"),
    (["run", "{model}", "--input", "x={model}"], "net.onnx"),
    (["run", "{model}", "--dim", "N=1", "--output-dir", "/dev/null/x"], "/dev/null/x"),
    (["dump", "{model}", "--onnx", "/dev/null/x.onnx"], "/dev/null/x.onnx"),
    (["plan", "{model}", "--dim", "N=1", "--html", "/dev/null/x.html"], "/dev/null/x.html"),
    (["plan", "{model}", "--dim", "N=1", "--html", "/dev/full"], "/dev/full"),
    (["trace", "{model}", "--dim", "N=1", "-o", "/dev/full"], "/dev/full"),
]


@pytest.mark.parametrize("argv,piece", WRONG_FILES, ids=[" ".join(a) for a, _ in WRONG_FILES])
def test_wrong_files(model, tmp_path, argv, piece):
    done = call(*[a.replace("{model}", str(model)).replace("{empty}", str(tmp_path)) for a in argv], code=BAD_INPUT)
    assert piece in done.stderr and done.stderr.startswith("forethought: ")


def test_a_run_that_fails_has_a_code_of_its_own(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("SequenceConstruct", ["x"], ["q"]),
                                      helper.make_node("SequenceAt", ["q", "i"], ["y"])],
                [f32("x", [2]), helper.make_tensor_value_info("i", TensorProto.INT64, [])], [f32("y", [2])])
    np.save(tmp_path / "i.npy", np.int64(7))
    done = subprocess.run([COMMAND, "run", path, "--input", f"i={tmp_path / 'i.npy'}"], capture_output=True, text=True)
    assert done.returncode in (BAD_INPUT, RUN_FAILED) and "SequenceAt" in done.stderr


def test_operators_that_are_not_there_are_listed_at_once(tmp_path):
    nodes = [helper.make_node("Det", ["x"], ["d"], name="/det"), helper.make_node("Reluu", ["x"], ["r"], name="/r")]
    done = call("run", save(tmp_path / "m.onnx", nodes, [f32("x", [2, 2])], [f32("d", []), f32("r", [2, 2])]),
                code=BAD_INPUT)
    assert "Det" in done.stderr and "Reluu" in done.stderr


@pytest.mark.parametrize("kind", ("cut", "flipped"))
def test_broken_models_end_with_a_message(model, tmp_path, kind):
    whole, rng = model.read_bytes(), random.Random(5)
    for k in range(40):
        data = bytearray(whole)
        if kind == "cut":
            data = data[: k * len(data) // 40]
        else:
            for _ in range(1 + k % 4):
                data[rng.randrange(min(len(data), 600) if k % 2 else len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / "m.onnx").write_bytes(data)
        for argv in (["run", "--shape", "x=1,3,6,6"], ["info"]):
            done = subprocess.run([COMMAND, argv[0], tmp_path / "m.onnx", *argv[1:]], capture_output=True, timeout=60)
            assert done.returncode in (OK, USAGE, BAD_INPUT, RUN_FAILED), (k, done.stderr)
            assert done.returncode == OK or done.stderr, k


@pytest.mark.parametrize("text", ("", "graph", "graph(%x: f32[2]) {", "graph(%x: f32[2]) { return %y }", "{" * 5000,
                                  "graph(%x: f32[2]) { %y = Relu(%x) return %y } trailing", "\x00\xff",
                                  "graph(%x: f32[99999999999999999999]) { return %x }",
                                  "graph(%x: f32[2]) { %y = " + "If(%x) { then_branch: graph() { %z = " * 3000))
def test_broken_texts_end_with_a_message(tmp_path, text):
    (tmp_path / "g.txt").write_text(text)
    assert "g.txt" in call("dump", tmp_path / "g.txt", code=BAD_INPUT).stderr


def npy(descr: str, shape: str, data: bytes = b"", fortran: str = "False") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("data", (
    b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{}", npy("", "(2,)"), npy("<", "(2,)"), npy("<f4", "(9,)"),
    npy("<f4", f"({2**62}, 4)"), npy("<f4", "(" + "1," * 100 + ")"), npy("<f4", "(-1,)"), npy(">f4", "(1,)", bytes(4)),
    npy("<U0", f"({2**40},)"), npy("<U99999999", "(1,)"), npy("<U1", "(2, 2)", bytes(16), "True"), npy("|O", "(1,)"),
    npy("<f4", "2"), b"\x93NUMPY\x09\x00" + bytes(20), npy("<V2", "(1,)", bytes(2))), ids=range(17))
def test_broken_arrays_end_with_a_message(model, tmp_path, data):
    (tmp_path / "x.npy").write_bytes(data)
    assert "x.npy" in call("run", model, "--input", f"x={tmp_path / 'x.npy'}", code=BAD_INPUT).stderr


def test_names_that_are_not_utf8_are_printed(tmp_path):
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["NAME"], name="NODE")], [f32("x", [2])],
                [f32("NAME", [2])])
    path.write_bytes(path.read_bytes().replace(b"NAME", b"\xff\xfe\x80\xc3").replace(b"NODE", b"\xf0\x28\x8c\x28"))
    for argv in (["plan", path, "--json"], ["stages", path, "--json"], ["bench", path, "--json", "--runs", 1], ["run", path],
                 ["dump", path]):
        done = subprocess.run([COMMAND, *map(str, argv)], capture_output=True, timeout=60)
        assert done.returncode in (OK, BAD_INPUT) and (done.stdout or done.stderr)


# --- terminals --------------------------------------------------------------------------------------------------------


def test_progress_goes_to_terminals_only(cases):
    assert "\x1b" not in call("check", cases, "--atol", "1e-4").stderr
    main, side = pty.openpty()
    done = subprocess.run([COMMAND, "check", cases, "--atol", "1e-4"], stdout=subprocess.PIPE, stderr=side, timeout=60)
    os.close(side)
    drawn = os.read(main, 65536)
    os.close(main)
    assert done.returncode == OK and b"[1/2]" in drawn and b"\x1b" not in done.stdout


def test_a_full_disk_is_an_error(model):
    if not pathlib.Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "dump", model], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == BAD_INPUT and done.stderr
