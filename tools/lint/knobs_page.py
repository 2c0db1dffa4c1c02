"""Writes docs/knobs.md from src/base/knobs.inc, the one list of environment variables."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """# Knobs

Environment variables that the runtime reads, each once, when it is first needed. One that is set to a value that is
not here is an error of every session that is made, never ignored; an empty one is as good as not set. Made from
`src/base/knobs.inc` by `python3 tools/lint/knobs_page.py`. What a session does with its weights is said by
[config entries](memory.md#a-model-larger-than-memory) of its options.

| variable | default | values | what it does |
|---|---|---|---|
"""


def page(inc: str) -> str:
    """The page for the text of knobs.inc."""
    text = r'"((?:[^"\\]|\\.)*)"'
    rows = re.findall(rf"^KNOB\(\w+,\s*{text},\s*{text},\s*{text},\s*((?:{text}\s*)+)\)", inc, re.MULTILINE)
    lines = []
    for variable, default, values, what, _ in rows:
        sentence = "".join(re.findall(text, what)).replace("|", "\\|")
        allowed = ", ".join(f"`{v}`" for v in values.split("|")) if "|" in values else values.replace("..", " to ")
        lines.append(f"| `{variable}` | {f'`{default}`' if default else ''} | {allowed} | {sentence} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "knobs.md").write_text(page((ROOT / "src" / "base" / "knobs.inc").read_text()))
