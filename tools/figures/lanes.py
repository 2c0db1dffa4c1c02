"""The light models in one lane, in two that were asked for, and in as many as the cost model takes: time, memory, waits."""
import argparse
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
sys.path.insert(0, str(ROOT / "tools" / "figures"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

MOST_TIME, MOST_PEAK = 1.03, 1.2  # of automatic lanes over one lane


def ratio(way: dict, one: dict, key: str) -> float:
    """The median over the blocks of a way's figure over that of one lane in the same block."""
    return statistics.median(a / b for a, b in zip(way[key], one[key], strict=True))


def model_rows(name: str, measured: dict) -> list[dict]:
    one, rows = measured["one"], []
    for asked in ("two", "auto"):
        way = measured[asked]
        same = way["lanes"] == 1  # then it is the program of one lane, and a ratio of times is noise
        time, peak = ratio(way, one, "ns"), way["peak"] / max(one["peak"], 1)
        held = peak <= MOST_PEAK and (same or time <= MOST_TIME) if asked == "auto" else None
        rows.append({"model": name, "asked": asked, "lanes": way["lanes"], "one lane ms": statistics.median(one["ns"]) / 1e6,
                     "time over one lane": time, "processor time over one lane": ratio(way, one, "cpu ns"),
                     "peak over one lane": peak, "waits": way["waits"], "of edges": way["edges"],
                     "equal": measured["equal"], "gate": "" if held is None else "held" if held else "MISSED",
                     "reason": way["reason"]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only models whose name contains this")
    parser.add_argument("--blocks", type=int, default=11)
    parser.add_argument("--runs", type=int, default=3, help="of each way in a block; the fastest counts")
    args = parser.parse_args()
    facts = {"blocks": f"{args.blocks}, of {args.runs} runs of each way by turns; ratios are medians over the blocks",
             "gates": f"automatic lanes: time at most {MOST_TIME} of one lane's (where more than one was taken), peak at "
                      f"most {MOST_PEAK}"}
    rows = []
    for folder in figure_models.random_light():
        if args.filter not in folder.name:
            continue
        measured, error = figure_models.program("lanes", folder, args.blocks, args.runs)
        if measured is None:
            facts[f"not run: {folder.name}"] = error
            continue
        rows += model_rows(folder.name, measured)
    gated = [r for r in rows if r["gate"]]
    facts |= {"gates held": f"{sum(r['gate'] == 'held' for r in gated)} of {len(gated)}",
              "equal everywhere": all(r["equal"] for r in rows),
              "two lanes asked for, slower than one": ", ".join(
                  f"{r['model']} {r['time over one lane']:.2f}" for r in rows
                  if r["asked"] == "two" and r["lanes"] > 1 and r["time over one lane"] > 1) or "none",
              "two lanes asked for, peak above the gate": ", ".join(
                  f"{r['model']} {r['peak over one lane']:.2f}" for r in rows
                  if r["asked"] == "two" and r["peak over one lane"] > MOST_PEAK) or "none"}
    figure_table.show("lanes", rows, facts)
    sys.exit(any(r["gate"] == "MISSED" for r in rows))


if __name__ == "__main__":
    main()
