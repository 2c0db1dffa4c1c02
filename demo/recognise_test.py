"""Tests the demo's steps around the model: the picture's way into a tensor, the alphabet, the reading of the output."""
import pathlib
import sys

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import recognise  # noqa: E402


@pytest.mark.parametrize("size, width", [((480, 48), 480), ((481, 48), 481), ((960, 96), 480), ((48, 48), 320)])
def test_input_is_48_high_and_keeps_the_proportions(size, width):
    assert recognise.to_input(Image.new("RGB", size)).shape == (1, 3, 48, width)


def test_input_is_blue_green_red_in_minus_one_to_one_and_padded_with_zero():
    x = recognise.to_input(Image.new("RGB", (48, 48), (255, 0, 51)))
    assert x.dtype == np.float32 and x.flags.c_contiguous
    np.testing.assert_allclose(x[0, :, 24, 24], [51 / 127.5 - 1, -1, 1], atol=1e-6)
    assert not x[..., 48:].any()


def test_pictures_of_any_mode_are_read():
    for mode in ("L", "RGBA", "P", "1"):
        assert recognise.to_input(Image.new(mode, (96, 48))).shape == (1, 3, 48, 320)


def test_alphabet_puts_the_blank_first_and_the_space_last():
    assert recognise.alphabet({"character": "a\nb"}) == ["", "a", "b", " "]


def test_a_model_without_alphabet_is_refused():
    with pytest.raises(SystemExit, match="character"):
        recognise.alphabet({})


def steps(*classes: int) -> np.ndarray:
    """Probabilities 0.7 for the class of each step, 0.1 for the three others."""
    p = np.full((len(classes), 4), 0.1, np.float32)
    p[np.arange(len(classes)), classes] = 0.7
    return p


@pytest.mark.parametrize("classes, text", [
    ((1, 1, 2), "ab"), ((1, 0, 1), "aa"), ((0, 0), ""), ((1, 3, 2), "a b"), ((2, 2, 0, 2, 1, 1), "bba"), ((), "")])
def test_repeats_merge_and_blanks_part(classes, text):
    got, confidence = recognise.decode(steps(*classes), ["", "a", "b", " "])
    assert got == text
    assert confidence == pytest.approx(0.7 if text else 0.0)


def test_an_alphabet_of_another_size_is_refused():
    with pytest.raises(SystemExit, match="classes"):
        recognise.decode(steps(1), ["", "a"])


def test_the_shipped_picture_is_what_the_script_draws():
    import draw_line
    shipped = Image.open(pathlib.Path(__file__).with_name("line.png"))
    assert np.array_equal(np.asarray(shipped), np.asarray(draw_line.draw()))


def test_the_demo_reads_its_picture(capsys, monkeypatch):
    pytest.importorskip("forethought")
    model = pathlib.Path(__file__).resolve().parents[1] / "build" / "demo" / "PP-OCRv6_rec_small.onnx"
    if not model.exists():
        pytest.skip("the demo's model is not there: ./dev test fetches it")
    monkeypatch.setattr(sys, "argv", ["recognise.py", str(model)])
    recognise.main()
    printed = capsys.readouterr().out
    assert "Forethought reads this line 2026" in printed
    for word in ("nodes", "lanes", "naive", "lower bound", "peak", "weights mapped", "weights packed", "load", "steady run"):
        assert f"\n{word} " in printed
