"""Whether outputs keep their bits after 1,000 later runs and the session's end, and read-only inputs survive."""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402

NAMES = ["squeezenet", "shufflenet"]  # of the light models; the rest take minutes for 1,000 runs and show no more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every light model instead of the two quick ones")
    parser.add_argument("--runs", type=int, default=1000, help="how many later runs")
    args = parser.parse_args()
    rows, facts = [], {}
    light = [f for f in figure_models.random_light() if args.all or f.name in NAMES]
    for folder in light + figure_models.pack():
        measured, error = figure_models.program("lifetime", folder, args.runs)
        if measured is None:
            facts[f"not run: {folder.name}"] = error
        else:
            rows.append({"model": folder.name, **measured})
    checks = ("after runs", "after session", "while dropping", "read-only input")
    facts["models that keep every bit"] = f"{sum(all(r[c] for c in checks) for r in rows)} of {len(rows)}"
    figure_table.show("lifetime", rows, facts)


if __name__ == "__main__":
    main()
