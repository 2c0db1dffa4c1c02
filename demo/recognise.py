"""Reads a line of text in a picture with a recogniser in ONNX form, and shows what the runtime planned for it."""
import argparse
import math
import pathlib
import statistics
import sys
import time

import numpy as np
from PIL import Image

HEIGHT = 48  # of the lines that the model was trained on
MIN_WIDTH = 320
STEADY_RUNS = 20


def to_input(picture: Image.Image) -> np.ndarray:
    """A picture as float32 1x3x48xW in [-1, 1], channels in the order blue, green, red; narrow ones padded with 0."""
    width = math.ceil(HEIGHT * picture.width / picture.height)
    small = picture.convert("RGB").resize((width, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.asarray(small, dtype=np.float32)[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1
    x = np.zeros((1, 3, HEIGHT, max(width, MIN_WIDTH)), np.float32)
    x[0, :, :, :width] = pixels
    return x


def alphabet(metadata: dict[str, str]) -> list[str]:
    """The characters of the model's classes: the blank, then those of the metadata key `character`, then the space."""
    if "character" not in metadata:
        sys.exit("recognise: the model's metadata has no key 'character', so its alphabet is not known")
    return ["", *metadata["character"].split("\n"), " "]


def decode(probabilities: np.ndarray, characters: list[str]) -> tuple[str, float]:
    """Best path of a CTC output T x classes: repeats merged, blanks dropped; (text, mean probability of its steps)."""
    if probabilities.shape[-1] != len(characters):
        sys.exit(f"recognise: the model tells {probabilities.shape[-1]} classes apart, its alphabet has {len(characters)}")
    best = probabilities.argmax(-1)
    kept = best != 0
    kept[1:] &= best[1:] != best[:-1]
    confidence = float(probabilities.max(-1)[kept].mean()) if kept.any() else 0.0
    return "".join(characters[i] for i in best[kept]), confidence


def milliseconds(call) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1e3, result


def human_bytes(n: int) -> str:
    return f"{n:>14,} bytes  ({n / 2**20:.1f} MiB)"


def summary_lines(facts: dict) -> list[str]:
    """What the session decided, as lines of text; `facts` is what its summary() returns."""
    return [
        f"nodes            {facts['nodes_in_file']} in the file, {facts['nodes']} after passes",
        f"lanes            {facts['lanes']}",
        f"naive            {human_bytes(facts['naive'])}",
        f"lower bound      {human_bytes(facts['lower_bound'])}",
        f"peak             {human_bytes(facts['peak'])}",
        f"weights mapped   {human_bytes(facts['weights_mapped'])}",
        f"weights packed   {human_bytes(facts['weights_packed'])}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).with_name("line.png"))
    args = parser.parse_args()
    if not args.picture.is_file():
        sys.exit(f"recognise: there is no picture {args.picture}")
    x = to_input(Image.open(args.picture))

    import forethought
    load_ms, session = milliseconds(lambda: forethought.InferenceSession(str(args.model)))
    feeds = {session.get_inputs()[0].name: x}
    first_ms, (probabilities, *_) = milliseconds(lambda: session.run(None, feeds))
    text, confidence = decode(probabilities[0], alphabet(session.get_modelmeta().custom_metadata_map))
    steady_ms = statistics.median(milliseconds(lambda: session.run(None, feeds))[0] for _ in range(STEADY_RUNS))

    print(f"{args.picture.name}: {text}\nconfidence {confidence:.3f}\n")
    print("\n".join(summary_lines(session.summary())))
    print(f"load             {load_ms:.1f} ms\nfirst run        {first_ms:.1f} ms")
    print(f"steady run       {steady_ms:.1f} ms  (median of {STEADY_RUNS})")


if __name__ == "__main__":
    main()
