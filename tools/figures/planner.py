"""Hard sets of buffers by complete search, packing against plain rules, times to plan, equal reports, Concat for nothing."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402


def main() -> None:
    model = next(f for f in figure_models.light_files() if figure_models.short(f) == "inception_v1")
    measured, error = figure_models.program("planner", ROOT / "tests" / "data" / "minimalloc", model)
    if measured is None:
        sys.exit(f"planner: {error}")
    rows = measured["hard sets"]
    facts = {"check 4: sets that fit 1,048,576 bytes": f"{sum(r['fits'] for r in rows)} of {len(rows)}",
             "check 4: seconds of one core, all sets": sum(r["ms"] for r in rows) / 1000}
    facts |= {f"check 3: random interval sets {k}" if k != "sets" else "check 3: random interval sets": v
              for k, v in measured["packing"].items()}
    for t in measured["times"]:
        facts[f"check 5: ms of one core to plan {t['values']:,} values, {t['kind']}"] = \
            f"min {t['min_ms']:.3f}, median {t['median_ms']:.3f}"
    for what, equal in measured["equal reports"].items():
        facts[f"check 6: reports of 100 that are byte-identical, {what}"] = equal
    for c in measured["concat"]:
        facts[f"Concat in inception_v1, {c['level']}, sharing {'on' if c['sharing'] else 'off'}"] = (
            f"{c['born in place']} of {c['inputs']} inputs of {c['Concat steps']} steps born in place, "
            f"{c['bytes copied']:,} bytes copied, {c['us']:.1f} us of {c['net us']:,.0f}, {c['us of a step']:.2f} a step")
    figure_table.show("planner", rows, facts)


if __name__ == "__main__":
    main()
