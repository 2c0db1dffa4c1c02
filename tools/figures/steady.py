"""What a repeated run asks of the system: heap and page calls, page faults, copied bytes, slab bytes against the plan."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "dev"))
import figure_models  # noqa: E402
import figure_table  # noqa: E402


def calls(counts: dict) -> str:
    return "/".join(str(counts[k]) for k in ("allocations", "frees", "maps", "unmaps"))


def row_of(folder: pathlib.Path, threads: int, m: dict) -> dict:
    return {"model": folder.name, "threads": threads, "runs": m["runs"], "allocations": m["ours"]["allocations"],
            "frees": m["ours"]["frees"], "mmap": m["ours"]["maps"], "munmap": m["ours"]["unmaps"], "faults": m["faults"],
            "copied": m["copied at the border"], "views copied": m["views copied"], "peak": m["peak"],
            "slab mapped": m["mapped"], "exact": m["mapped is peak"], "oneDNN's own": calls(m["onednn"]),
            "oneTBB's own": calls(m["onetbb"]), "OpenMP's own": calls(m["openmp"]),
            "constant": m["libraries constant"]}


def main() -> None:
    rows, facts = [], {}
    for folder in figure_models.random_light() + figure_models.pack():
        for threads in (1, 2):
            measured, error = figure_models.program("steady", folder, threads)
            if measured is None:
                facts[f"not run: {folder.name}"] = error
                break
            rows.append(row_of(folder, threads, measured))
    gates = ("allocations", "frees", "mmap", "munmap", "faults", "copied")
    facts["rows with every count of ours 0"] = f"{sum(not any(r[g] for g in gates) for r in rows)} of {len(rows)}"
    facts["rows whose slab is the planned peak, rounded to a page"] = f"{sum(r['exact'] for r in rows)} of {len(rows)}"
    facts["a library's own"] = "allocations/frees/maps/unmaps over all runs of the row"
    figure_table.show("steady", rows, facts)


if __name__ == "__main__":
    main()
