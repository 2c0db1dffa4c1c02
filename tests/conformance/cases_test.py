"""Tests that expected.txt names every ONNX backend case once, and that every case has its data."""
import collections
import pathlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parents[1] / "build" / "cases"
KINDS = ("node", "pytorch-converted", "pytorch-operator", "real", "simple")


@pytest.fixture(scope="module")
def cases() -> list[pathlib.Path]:
    if not CASES.is_dir():
        pytest.skip("build/cases is not there: ./dev test builds it")
    return [folder for kind in KINDS for folder in sorted((CASES / kind).iterdir())]


def expected_states() -> list[tuple[str, str]]:
    lines = (HERE / "expected.txt").read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def test_expected_names_every_case_once(cases):
    names = collections.Counter(name for _, name in expected_states())
    assert [name for name, times in names.items() if times > 1] == []
    assert set(names) == {f"{folder.parent.name}/{folder.name}" for folder in cases}


def test_expected_knows_two_states():
    assert {state for state, _ in expected_states()} <= {"pass", "open"}


def test_every_case_has_a_model_and_outputs(cases):
    lacking = [str(folder) for folder in cases
               if not (folder / "model.onnx").is_file() or not (folder / "test_data_set_0" / "output_0.pb").is_file()]
    assert lacking == []
