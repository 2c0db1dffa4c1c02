"""Bytes of the nine light models' plans, time to plan anew, packing against plain rules, faults that are rejected."""
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
            plan = model[sharing]
            rows.append({"model": figure_models.short(path), "views and in-place": "on" if sharing == "shared" else "off",
                         "naive": plan["naive"], "lower bound": plan["lower_bound"], "peak": plan["peak"],
                         "peak / lower bound": plan["peak"] / plan["lower_bound"]})
    facts = {"plans at their lower bound": f"{sum(r['peak'] == r['lower bound'] for r in rows)} of {len(rows)}"}
    for t in measured["times"]:
        facts[f"ms to plan {t['values']:,} values, {t['kind']}"] = \
            f"min {t['min_ms']:.3f}, median {t['median_ms']:.3f}"
    facts |= {f"random interval sets {k}" if k != "sets" else "random interval sets": v
              for k, v in measured["packing"].items()}
    for fault in measured["faults"]:
        facts[f"rejected: {fault['fault']}"] = f"{fault['rejected']} of {fault['seeded']}"
    figure_table.show("plan", rows, facts)


if __name__ == "__main__":
    main()
