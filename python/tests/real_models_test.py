"""The pack of real models, where it is there: every optimization level against the stored outputs."""
import json
import lzma
import pathlib

import numpy as np
import pytest

import forethought as ft

PACK = pathlib.Path(__file__).resolve().parents[3] / "shared" / "models"
NAMES = ["bert_toy", "magika_standard_v3_3", "mobilenet_qdq_int8", "oww_melspectrogram", "ppocr_v4_rec"]


def load(folder: pathlib.Path, level) -> ft.InferenceSession:
    options = ft.SessionOptions()
    options.graph_optimization_level = level
    plain = folder / "model.onnx"
    if plain.exists():
        return ft.InferenceSession(plain, options)
    return ft.InferenceSession(lzma.decompress((folder / "model.onnx.xz").read_bytes()), options)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs(name, level):
    folder = PACK / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    bounds = json.loads((folder / "tolerance.json").read_text()) if (folder / "tolerance.json").exists() else {}
    session = load(folder, getattr(ft.GraphOptimizationLevel, level))
    cases = sorted(folder.glob("case_*"))
    assert cases
    for case in cases:
        feed = {a.name: np.load(case / f"input_{i}.npy") for i, a in enumerate(session.get_inputs())}
        for i, got in enumerate(session.run(None, feed)):
            want = np.load(case / f"expected_{i}.npy")
            assert got.shape == want.shape and got.dtype == want.dtype
            if "mean" in bounds:
                assert np.abs(got.astype(np.float64) - want).mean() <= bounds["mean"]
            else:
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
