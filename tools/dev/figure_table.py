"""How every figure prints: a table for people, then one last line of JSON with the same numbers."""
import json


def show(title: str, rows: list[dict], facts: dict | None = None) -> None:
    """Prints rows (dicts with the same keys, in order) as a table, and {"figure", "rows", **facts} as the last line."""
    print(title)
    if rows:
        keys = list(rows[0])
        cells = [[_text(row[key]) for key in keys] for row in rows]
        widths = [max(len(c) for c in column) for column in zip(keys, *cells)]
        numeric = [isinstance(rows[0][key], (int, float)) for key in keys]
        for line in [keys, *cells]:
            print("  " + "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric)).rstrip())
    for key, value in (facts or {}).items():
        print(f"  {key}: {_text(value)}")
    print(json.dumps({"figure": title, "rows": rows, **(facts or {})}))


def _text(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
