"""Tests ONNX's comparison rule as the Python tools apply it."""
import pathlib
import sys

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from backend_case import value_difference  # noqa: E402

F = np.float32
NAN, INF = np.nan, np.inf

# (got, want, a part of the difference, "" where they are alike)
CASES = [
    (F([1, 2]), F([1, 2]), ""),
    (F([1.0009]), F([1]), ""),
    (F([1.0012]), F([1]), "1 of 1"),
    (F([2e-7]), F([0]), "1 of 1"),
    (F([0.9e-7]), F([0]), ""),
    (F([NAN, INF]), F([NAN, INF]), ""),
    (F([INF]), F([-INF]), "1 of 1"),
    (F([0]), F([NAN]), "1 of 1"),
    (F([1]), np.float64([1]), "type float32"),
    (F([[1]]), F([1]), "shape"),
    (F(1), F(1), ""),
    (F([]), F([]), ""),
    (np.int64([2**62]), np.int64([2**62]), ""),
    (np.int32([5]), np.int32([6]), "1 of 1"),
    (np.array([True]), np.array([False]), "1 of 1"),
    (np.array([1], ml_dtypes.bfloat16), np.array([1], ml_dtypes.bfloat16), ""),
    (np.array([1], ml_dtypes.bfloat16), np.array([2], ml_dtypes.bfloat16), "1 of 1"),
    (np.array(["a"], object), np.array(["a"]), ""),
    (np.array(["a"], object), np.array(["b"], object), "strings"),
    (None, None, ""),
    (F([1]), None, "ndarray"),
    (None, [F([1])], "NoneType"),
    ([F([1])], [F([1])], ""),
    ([F([1])], [], "sequence of 1"),
    ([F([1]), F([3])], [F([1]), F([2])], "element 1"),
    (F([1]), [F([1])], "ndarray"),
]


@pytest.mark.parametrize("got, want, part", CASES)
def test_rule(got, want, part):
    why = value_difference(got, want)
    assert part in why if part else why == ""
