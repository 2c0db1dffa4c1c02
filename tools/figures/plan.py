"""Bytes of the nine light models' plans against their lower bounds, the same where values share whole slots, and faults that the validator rejects."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402


def main() -> None:
    files = figure_models.light_files()
    measured, error = figure_models.program("plan", *files)
    if measured is None:
        sys.exit(f"plan: {error}")
    rows = []
    for path, model in zip(files, measured["models"], strict=True):
        for sharing in ("shared", "apart"):
            plan, slots = model[sharing], model["slots" if sharing == "shared" else "slots apart"]
            rows.append({"model": figure_models.short(path), "views and in-place": "on" if sharing == "shared" else "off",
                         "naive": plan["naive"], "lower bound": plan["lower_bound"], "peak": plan["peak"],
                         "peak / lower bound": plan["peak"] / plan["lower_bound"],
                         "in slots": slots["peak"], "slots": slots["slots"]})
    facts = {"plans at their lower bound": f"{sum(r['peak'] == r['lower bound'] for r in rows)} of {len(rows)}"}
    for fault in measured["faults"]:
        facts[f"rejected: {fault['fault']}"] = f"{fault['rejected']} of {fault['seeded']}"
    figure_table.show("plan", rows, facts)
    missed = [r for r in rows if r["peak"] != r["lower bound"]] + [f for f in measured["faults"] if f["rejected"] != f["seeded"]]
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
