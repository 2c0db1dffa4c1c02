"""What arenas and leases do: checks 8 to 22 of the promises, each with its number, on the light models and the pack."""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

THREADS = 2
COLD_BYTES = 400 << 20
LATER_RUNS, LATER_SECONDS = 1000, 6  # of the runs after those whose outputs are kept: fewer where a run is long


def addresses(model: str, inputs: list[str]) -> dict:
    """Where Python sees outputs: as OrtValue, array and DLPack tensor; and how many payload bytes were copied."""
    import forethought as ft
    import numpy
    session = ft.InferenceSession(model)
    values = [ft.OrtValue.ortvalue_from_numpy(numpy.load(f)) for f in inputs]
    feeds = {a.name: v for a, v in zip(session.get_inputs(), values)}
    outputs = [v for v in session.run_with_ort_values(None, feeds) if v.is_tensor()]
    same = all(v.data_ptr() == v.numpy().ctypes.data == numpy.from_dlpack(v).ctypes.data for v in outputs)
    return {"one address": same, "input copies": session.summary()["input_copies"]}


def in_python(folder: pathlib.Path) -> dict:
    files = sorted(map(str, (folder / "case_0").glob("input_*.npy")))
    argv = [sys.executable, __file__, "--addresses", str(folder / "model.onnx"), *files]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "release" / "python")}
    done = subprocess.run(argv, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        return {"one address": done.stderr.strip().splitlines()[-1], "input copies": -1}
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(folder: pathlib.Path, facts: dict) -> list[dict]:
    """The checks that are made on a model."""
    steady, error = figure_models.program("steady", folder, THREADS)
    later = max(20, min(LATER_RUNS, int(LATER_SECONDS * 1e3 / steady["ms"]))) if steady else 0
    lifetime, error = figure_models.program("lifetime", folder, later) if steady else (None, error)
    arenas, error = figure_models.program("arenas", folder) if lifetime else (None, error)
    if arenas is None:
        facts[f"not run: {folder.name}"] = error
        return []
    python = in_python(folder)
    ours = steady["ours"]
    libraries = {k: sum(steady[k].values()) for k in ("onednn", "onetbb", "openmp")}
    kept = all(lifetime[k] for k in ("after runs", "after session", "while dropping"))
    held = (arenas["I/O requests with one run held"], arenas["execution requests with one run held"])
    return [
        row(8, folder, "bytes mapped by the first run; the planned peak", f"{steady['mapped']:,}; {steady['peak']:,}",
            steady["mapped is peak"]),
        row(10, folder, "patterns in fresh and freed memory that change an output",
            0 if arenas["poison changes nothing"] else 1, arenas["poison changes nothing"]),
        row(11, folder, f"heap and page calls of ours in {steady['runs']} runs", sum(ours.values()), sum(ours.values()) == 0),
        row(11, folder, "of oneDNN, oneTBB and OpenMP for themselves, the same in two windows of as many",
            ", ".join(str(n) for n in libraries.values()), steady["libraries constant"]),
        row(12, folder, "page faults above an empty loop", steady["faults"], steady["faults"] <= 0),
        row(13, folder, "payload bytes copied at the border", steady["copied at the border"],
            steady["copied at the border"] == 0 and arenas["outputs in the I/O arena"] and python["one address"] is True
            and python["input copies"] == 0),
        row(15, folder, f"outputs of {lifetime['outputs kept']} runs changed by {lifetime['later runs']} later ones, by the "
            "session's end, by each other's", 0 if kept else 1, kept),
        row(16, folder, f"I/O and execution allocations with {arenas['outputs']} outputs held", f"{held[0]} and {held[1]}",
            held == (arenas["outputs"], 0)),
        row(21, folder, "faults of inputs in read-only pages", 0 if lifetime["read-only input"] else 1,
            lifetime["read-only input"]),
    ]


def cold() -> dict:
    """What 400 MiB of the I/O arena cost that no run has touched: page faults, and ms of one core."""
    import forethought as ft
    import onnx
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1]) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    session = ft.InferenceSession(onnx.helper.make_model(graph).SerializeToString())
    before = resource.getrusage(resource.RUSAGE_SELF)
    value = session.create_ortvalue_from_shape_and_type([COLD_BYTES // 4], "float32")
    after = resource.getrusage(resource.RUSAGE_SELF)
    ms = 1e3 * (after.ru_stime + after.ru_utime - before.ru_stime - before.ru_utime)
    return {"faults": after.ru_minflt - before.ru_minflt, "ms": ms, "bytes": value.tensor_size_in_bytes()}


def cold_row(facts: dict) -> dict:
    """Huge pages on request and without, each in a process of its own: the system may have given its pages away between."""
    made = {}
    for asked in ("1", "0"):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "release" / "python"), "FORETHOUGHT_HUGE_PAGES": asked}
        done = subprocess.run([sys.executable, __file__, "--cold"], capture_output=True, text=True, env=env, check=True)
        made[asked] = json.loads(done.stdout.splitlines()[-1])
    facts["400 MiB cold, ms of one core with huge pages; without"] = f"{made['1']['ms']:.0f}; {made['0']['ms']:.0f}"
    modes = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    granted = modes.exists() and "[never]" not in modes.read_text()
    return row(12, "400 MiB cold", f"page faults with huge pages{'' if granted else ', which this system refuses'}; without",
               f"{made['1']['faults']:,}; {made['0']['faults']:,}", made["1"]["faults"] < 250 or not granted)


def shadow_row(folder: pathlib.Path) -> dict:
    """Check 9: each byte knows its owner while the model runs."""
    argv = [str(ROOT / "build" / "release" / "tools" / "forethought"), "check", "--shadow", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True)
    said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["nothing said"]
    return row(9, folder, "reads of bytes of other values, or of bytes that nobody wrote",
               0 if done.returncode == 0 else said[-1], done.returncode == 0)


def row(check: int, where, what: str, number, holds: bool) -> dict:
    return {"check": check, "where": getattr(where, "name", where), "what": what, "number": str(number), "holds": bool(holds)}


def small_rows(result: dict) -> list[dict]:
    """The checks on leases alone and on graphs of a few nodes."""
    rows = []
    for lease in result["leases"]:
        for what in ("move", "release"):
            ns = lease[f"{what} ns"]
            rows.append(row(14, f"{lease['bytes'] // 1024:,} KiB", f"nanoseconds to {what} a lease; heap and page calls",
                            f"{ns:.1f}; {lease['heap and map calls']}", ns < 100 and lease["heap and map calls"] == 0))
    mixed, burst, caps, sums, control = (result["small"][k] for k in ("17", "18", "19", "20", "22"))
    return rows + [
        row(17, "a node of both kinds", "migrations of outputs between arenas", mixed["migrations"],
            mixed["migrations"] == 0 and mixed["outputs in the I/O arena"] and mixed["execution arena bytes"] > 0),
        row(18, f"{burst['outputs kept']:,} outputs kept", "their bytes; execution retained stays, I/O in the other burst too",
            burst["their bytes"], burst["execution retained unchanged"] and burst["I/O retained unchanged"]),
        row(19, "trim and caps", "trimmed bytes, as told and as retained fell; retained after caps of 0",
            f"{caps['trimmed bytes']}; {caps['retained after caps of 0']}",
            caps["trim tells what went"] and caps["down to the target"] and caps["live stays"]
            and caps["retained after trim"] == caps["retained after caps of 0"] == 0),
        row(20, f"{sums['steps']:,} random operations", "steps where live + retained + padding is not what is mapped",
            sums["steps whose counts do not add up"], sums["steps whose counts do not add up"] == 0
            and sums["steps with a peak below"] == 0 and sums["left after the session"] == 0),
        row(22, f"{control['trips']:,} trips, both branches", "heap and page calls; bytes mapped after trip 2",
            f"{control['heap and map calls']}; {control['bytes mapped after trip 2']}",
            control["heap and map calls"] == 0 and control["bytes mapped after trip 2"] == 0),
    ]


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--addresses":
        print(json.dumps(addresses(sys.argv[2], sys.argv[3:])))
        return
    if sys.argv[1:] == ["--cold"]:
        print(json.dumps(cold()))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only models whose name contains this")
    args = parser.parse_args()
    facts: dict = {}
    rows = []
    for folder in figure_models.random_light() + figure_models.pack():
        if args.filter not in folder.name:
            continue
        made = rows_of(folder, facts)
        with_outputs = any((folder / "case_0").glob("expected_*"))
        rows += made + ([shadow_row(folder)] if made and with_outputs else [])
    small, error = figure_models.program("arenas")
    if small is None:
        sys.exit(f"arenas: {error}")
    rows += small_rows(small) + [cold_row(facts)]
    rows.sort(key=lambda r: r["check"])
    for check in sorted({r["check"] for r in rows}):
        these = [r for r in rows if r["check"] == check]
        facts[f"check {check}"] = f"{sum(r['holds'] for r in these)} of {len(these)} hold"
    facts["checks that hold"] = f"{sum(r['holds'] for r in rows)} of {len(rows)}"
    figure_table.show("arenas", rows, facts)


if __name__ == "__main__":
    main()
