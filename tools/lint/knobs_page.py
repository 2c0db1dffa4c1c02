"""Writes docs/knobs.md from src/base/knobs.inc, the one list of environment variables."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """# Knobs

Environment variables that the runtime reads, each once, when it is first needed. Made from `src/base/knobs.inc` by
`python3 tools/lint/knobs_page.py`.

| variable | default | what it does |
|---|---|---|
"""


def page(inc: str) -> str:
    """The page for the text of knobs.inc."""
    text = r'"((?:[^"\\]|\\.)*)"'
    rows = re.findall(rf"^KNOB\(\w+,\s*{text},\s*{text},\s*((?:{text}\s*)+)\)", inc, re.MULTILINE)
    lines = []
    for variable, default, what, _ in rows:
        sentence = "".join(re.findall(text, what)).replace("|", "\\|")
        lines.append(f"| `{variable}` | {f'`{default}`' if default else ''} | {sentence} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "knobs.md").write_text(page((ROOT / "src" / "base" / "knobs.inc").read_text()))
