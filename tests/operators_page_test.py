"""Tests that docs/operators.md is what the operators of this build make of it."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release"))


def test_the_table_of_operators_is_current():
    shown = subprocess.run([str(BUILD / "tests" / "operators_page")], capture_output=True, text=True, check=True).stdout
    hint = "build/release/tests/operators_page > docs/operators.md"
    assert shown == (ROOT / "docs" / "operators.md").read_text(), f"docs/operators.md is out of date: {hint}"
