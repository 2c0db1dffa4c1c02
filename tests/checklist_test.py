"""Tests that docs/checklist.md names tests and figures that are there, its rows in order, each once, and leaves none out."""
import fnmatch
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "checklist.md").read_text()
ROWS = re.findall(r"^\| ([ABCW]?\d+) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
LAST = {"A": 71, "B": 29, "C": 50, "": 40, "W": 12}  # how many rows each group has, and how many checks there are


@functools.cache
def unit_tests() -> list[str]:
    """Suite.Name of every GoogleTest test of the tree; what runs once for each parameter counts once."""
    found = []
    for path in [*(ROOT / "src").rglob("*_test.cc"), *(ROOT / "src").rglob("*_testing.cc")]:
        found += [".".join(m) for m in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE)]
    return found


def is_there(reference: str) -> bool:
    if figure := re.fullmatch(r"\./dev figure (\w+)", reference):
        return (ROOT / "tools" / "figures" / f"{figure[1]}.py").exists()
    if "::" in reference:
        file, name = reference.split("::")
        return (ROOT / file).exists() and re.search(rf"^def {re.escape(name)}\(", (ROOT / file).read_text(), re.MULTILINE) is not None
    return bool(fnmatch.filter(unit_tests(), reference))


def test_every_table_line_is_a_row():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| row ", "| check "))]
    assert len(lines) == len(ROWS) > 60


def test_rows_are_in_order_and_exist():
    keys = [(number[0] if number[0].isalpha() else "", int(number.lstrip("ABCW"))) for number, _, _ in ROWS]
    order = {group: place for place, group in enumerate(LAST)}
    assert keys == sorted(set(keys), key=lambda k: (order[k[0]], k[1]))
    assert all(1 <= number <= LAST[group] for group, number in keys)


def test_rows_of_memory_are_finished_or_said_not_to_be():
    finished, missing = [row for row, _, _ in ROWS], re.findall(r"^- \*\*([ABC]\d+)\*\*: ", PAGE, re.MULTILINE)
    assert set(finished) & set(missing) == set() and len(missing) == len(set(missing))
    wanted = [f"{group}{n}" for group in "BC" for n in range(1, LAST[group] + 1)] + [str(n) for n in range(1, 34)]
    assert [row for row in wanted if row not in finished and row not in missing] == []


@pytest.mark.parametrize("row,shown", [(row, shown) for row, _, shown in ROWS], ids=[r[0] for r in ROWS])
def test_what_shows_a_row_is_there(row, shown):
    references = re.findall(r"`([^`]+)`", shown)
    assert references and "".join(re.split(r"`[^`]+`", shown)).strip(" ,") == ""
    assert [r for r in references if not is_there(r)] == []


@pytest.mark.parametrize("reference", ("Planner.NoSuchTest", "NoSuite.*", "./dev figure nothing", "tests/cli_test.py::test_nothing", "tests/none.py::test_x"))
def test_what_is_not_there_is_noticed(reference):
    assert not is_there(reference)
