"""The onnx.backend adapter: every ONNX backend case that is expected to pass, through Python values."""
import pathlib

import backend_case
import numpy as np
import onnx
import pytest
from small_models import ADD, X

import forethought as ft
from forethought import backend

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "build" / "cases"
EXPECTED = (ROOT / "tests" / "conformance" / "expected.txt").read_text(encoding="utf-8").splitlines()
PASSING = [line.split()[1] for line in EXPECTED if line.startswith("pass ")]


@pytest.mark.parametrize("name", PASSING)
def test_case(name):
    folder = CASES / name
    if not (folder / "test_data_set_0").is_dir():
        pytest.skip(f"{folder} is not there: ./dev test builds it")
    case = backend_case.load(folder)
    outputs = backend.prepare(onnx.load_from_string(case.model_bytes)).run(case.inputs)
    assert not backend_case.difference(case, list(outputs))


def test_the_ways_to_run():
    rep = backend.prepare(ADD)
    for inputs in ([X, X], {"x": X, "y": X}):
        np.testing.assert_array_equal(rep.run(inputs)[0], X + X)
    np.testing.assert_array_equal(backend.run_model(onnx.load_from_string(ADD), [X, X])[0], X + X)
    node = onnx.helper.make_node("Mul", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [X, X], opset_version=21)[0], X * X)
    with pytest.raises(ft.InvalidArgument, match="2 inputs"):
        rep.run([X, X, X])


def test_devices_and_compatibility():
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA:0")
    assert backend.is_compatible(onnx.load_from_string(ADD))
    other = onnx.load_from_string(ADD)
    other.graph.node[0].op_type = "Foo"
    assert not backend.is_compatible(other)
    with pytest.raises(ft.InvalidArgument, match="CUDA"):
        backend.prepare(ADD, device="CUDA")


@pytest.mark.filterwarnings("ignore")  # the runner computes all of onnx's cases first, infinities included
def test_onnx_finds_its_way():
    """onnx's own runner drives the adapter."""
    import onnx.backend.test
    runner = onnx.backend.test.BackendTest(backend.ForethoughtBackend, __name__)
    runner.include("^test_identity_cpu$")
    case = runner.test_cases["OnnxBackendNodeModelTest"]("test_identity_cpu")
    case.debug()
