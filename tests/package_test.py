"""Tests of the C++ package: install it, build the example against it with find_package, run that."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release"))


def sh(*argv, **more) -> str:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("prefix")
    for component in ("library", "command"):
        sh("cmake", "--install", BUILD, "--prefix", folder, "--component", component)
    return folder


@pytest.fixture(scope="module")
def example(prefix, tmp_path_factory) -> pathlib.Path:
    build = tmp_path_factory.mktemp("classify")
    sh("cmake", "-S", ROOT / "examples" / "classify", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
       "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    sh("cmake", "--build", build)
    return build / "classify"


def colour_model(path: pathlib.Path) -> None:
    """Scores of 4 classes from the mean colour: red, green, blue, grey."""
    weight = 8 * np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, 1], [0.1, 0.1, 0.1]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["x"], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]),
         helper.make_node("Gemm", ["flat", "w"], ["logits"], transB=1), helper.make_node("Softmax", ["logits"], ["p"])],
        "colours", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 10])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", 4])], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def ppm(path: pathlib.Path, colour: tuple[int, int, int], width: int, height: int) -> pathlib.Path:
    path.write_bytes(b"P6\n%d %d\n255\n" % (width, height) + bytes(colour) * (width * height))
    return path


def test_the_example_classifies_pictures(example, tmp_path):
    colour_model(tmp_path / "m.onnx")
    pictures = [ppm(tmp_path / "red.ppm", (250, 5, 5), 10, 8), ppm(tmp_path / "blue.ppm", (0, 10, 240), 33, 17)]
    lines = sh(example, tmp_path / "m.onnx", *pictures).splitlines()
    assert [re.search(r": (\d+) \(", line).group(1) for line in lines[:2]] == ["0", "2"]
    assert lines[2].startswith("2 runs")


def test_the_example_says_what_is_wrong(example, tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07garbage")
    done = subprocess.run([example, tmp_path / "broken.onnx", "x.ppm"], capture_output=True, text=True)
    assert done.returncode == 1 and "broken.onnx" in done.stderr


def test_another_minor_version_is_not_taken(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\nfind_package(Forethought 99.1 REQUIRED)\n")
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "99.1" in done.stderr


@pytest.mark.parametrize("header", sorted(p.name for p in (ROOT / "include" / "forethought").glob("*.h")))
def test_each_header_stands_alone_on_the_standard_library(prefix, header, tmp_path):
    (tmp_path / "t.cc").write_text(f"#include <forethought/{header}>\nint main() {{ return 0; }}\n")
    sh("g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{prefix / 'include'}", tmp_path / "t.cc")
    text = (ROOT / "include" / "forethought" / header).read_text()
    assert [i for i in re.findall(r'#include "([^"]+)"', text) if not i.startswith("forethought/")] == []
    assert re.findall(r"#include <\w+/", text) == []


def test_the_code_of_the_page_compiles(prefix, tmp_path):
    page = (ROOT / "docs" / "cpp.md").read_text()
    include, rest = re.search(r"```cpp\n(#include.*?\n)(.*?)```", page, re.DOTALL).groups()
    (tmp_path / "t.cc").write_text(f"{include}int report(const std::string&);\nint f(std::span<float> pixels) {{\n{rest}"
                                   "return scores.ok();\n}\n")
    sh("g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{prefix / 'include'}", tmp_path / "t.cc")


def test_only_public_symbols_are_exported(prefix):
    library = next(p for p in sorted((prefix / "lib").rglob("libforethought.so*")) if not p.is_symlink())
    names = [line.split()[-1] for line in sh("nm", "-D", "--defined-only", library).splitlines()]
    assert len(names) > 20
    assert [n for n in names if not re.match(r"_ZNK?11forethought2v1", n)] == []


def test_the_installed_command_runs(prefix):
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", sh(prefix / "bin" / "forethought", "--version"))
