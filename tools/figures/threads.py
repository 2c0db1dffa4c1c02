"""Whether outputs have the same bits for 1, 2, 4 and 8 threads, alone and while other runs go on."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402


def main() -> None:
    rows, facts = [], {}
    for folder in figure_models.random_light() + figure_models.pack():
        measured, error = figure_models.program("threads", folder)
        if measured is None:
            facts[f"not run: {folder.name}"] = error
            continue
        rows.append({"model": folder.name, "finite": measured["finite"],
                     **{f"{n} alone": measured["alone"][n] for n in ("1", "2", "4", "8")},
                     **{f"{n} busy": measured["busy"][n] for n in ("1", "2", "4", "8")}, "hash": measured["hash"]})
    same = sum(all(v for k, v in r.items() if k.endswith(("alone", "busy"))) for r in rows)
    facts["models with the same bits everywhere"] = f"{same} of {len(rows)}"
    figure_table.show("threads", rows, facts)


if __name__ == "__main__":
    main()
