#!/usr/bin/env python3
"""Writes the seeds of fuzz_load: for each operator the smallest ONNX backend case that shows it.

    make_load_corpus.py CASES [FOLDER]      (CASES as in build/cases; needs the package onnx)
"""

import pathlib
import re
import sys

import onnx

HERE = pathlib.Path(__file__).parent
LARGEST = 1400  # bytes


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from operators(body)


def main():
    cases = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "corpus" / "fuzz_load"
    ours = set(re.findall(r"^OP\((\w+)\)", (HERE.parent / "src/ops/operators.inc").read_text(), re.MULTILINE))
    smallest = {}
    for path in sorted(cases.glob("node/*/model.onnx"), key=lambda p: (p.stat().st_size, p.parent.name)):
        if path.stat().st_size > LARGEST:
            continue
        used = set(operators(onnx.load(path).graph))
        if used <= ours:
            for op in used:
                smallest.setdefault(op, path)
    folder.mkdir(parents=True, exist_ok=True)
    for op, path in smallest.items():
        (folder / f"{op}.onnx").write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
