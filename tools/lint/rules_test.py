"""Tests that each rule of the lint finds what it is for, and leaves alone what is right."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import knobs_page  # noqa: E402
import rules  # noqa: E402

ROOMS = "# rooms\nbase:\ntensor: base\nkernels: base\ngraph: base tensor\n"
FORMATTED = "// A file that is as it should be.\nint f(int a) { return a; }\n"
KNOBS = 'KNOB(kIsa, "FORETHOUGHT_ISA", "", "b|c", "Which tier: "\n     "a|b.")\n'

# (rule, file, text, a part of the finding or None where the text is right)
CASES = [
    (rules.formatting, "src/base/a.cc", FORMATTED, None),
    (rules.formatting, "src/base/a.cc", "// A file in bad shape.\nint  f( int a ){return a;}\n", "clang-format"),
    (rules.includes, "src/tensor/a.h", '#include "base/a.h"\n#include <vector>\n#include "absl/a.h"\n', None),
    (rules.includes, "src/tensor/a.h", '#include "tensor/b.h"\n', None),
    (rules.includes, "src/kernels/gemm/a.cc", '#include "graph/a.h"\n', "kernels/ may not include graph/"),
    (rules.includes, "src/base/a.h", '#include "tensor/a.h"\n', "base/ may not include tensor/"),
    (rules.includes, "src/kernels/gemm/a.inc", '  #  include "tensor/a.h"\n', "kernels/ may not include tensor/"),
    (rules.includes, "src/tensor/a.h", '#include "b.h"\n', "path from src/"),
    (rules.includes, "src/tensor/a.h", '#include "../base/b.h"\n', "path from src/"),
    (rules.includes, "src/attic/a.h", "", "not in cmake/rooms.txt"),
    (rules.names, "src/base/cpu_test.cc", "", None),
    (rules.names, "python/forethought/__init__.py", "", None),
    (rules.names, "src/base/CpuInfo.cc", "", "lower_snake"),
    (rules.names, "src/base/cpu-info.h", "", "lower_snake"),
    (rules.names, "src/kernels/MatMul/a.cc", "", "folder 'MatMul'"),
    (rules.names, "src/base/cpu.cpp", "", ".h or .cc"),
    (rules.words, "src/base/a.cc", "#include <vector>  // not <iostream>\n", None),
    (rules.words, "src/base/a.cc", "#include <iostream>\n", "<iostream>"),
    (rules.words, "src/base/a_test.cc", "#include <iostream>\n", None),
    (rules.words, "src/base/a.cc", "std::call_once(flag, [] {});  // std::call_once\n", "Once of base/once.h"),
    (rules.words, "src/base/a.h", "#include <fmt/format.h>\n", ".cc files only"),
    (rules.words, "src/base/a.h", "#include <nlohmann/json.hpp>\n", ".cc files only"),
    (rules.words, "src/base/a.cc", "#include <nlohmann/json.hpp>\n", None),
    (rules.words, "src/kernels/a.cc", "// malloc(1) is not for kernels\nconst char* s = \"malloc(1)\";\n", None),
    (rules.words, "src/kernels/a.cc", "void* p = malloc(10);\n", "memory from the caller"),
    (rules.words, "src/kernels/a.cc", "auto p = new float[10];\n", "memory from the caller"),
    (rules.words, "src/kernels/a.cc", "std::vector<float> tmp(n);\n", "memory from the caller"),
    (rules.words, "src/kernels/a.h", "struct Table {\n  std::vector<float> weight;  // made once, at load\n};\n", None),
    (rules.words, "src/kernels/a.cc", "auto p = std::make_unique<float[]>(n);\n", "memory from the caller"),
    (rules.words, "src/kernels/a_test.cc", "std::vector<float> tmp(n);\n", None),
    (rules.words, "src/kernels/test_util.h", "std::vector<float> tmp(n);\n", None),
    (rules.words, "src/kernels/a.cc", "std::vector<int64_t> strides(rank);\n", None),
    (rules.words, "docs/a.md", "see " + "/home" + "/me/x\n", "path of one machine"),
    (rules.words, "docs/a.md", "see src/home/x and https://a.b/work/x\n", None),
    (rules.operators, "src/ops/operators.inc", "// List\nOP(Abs)\nOP(Add)\n", None),
    (rules.operators, "src/ops/operators.inc", "// List\nOP(Add)\nOP(Abs)\n", "not in sorted order"),
    (rules.operators, "src/ops/operators.inc", "// List\nOP(Abs)\nOP(Sub)\n", "no test names Sub"),
    (rules.operators, "src/plan/a.cc", 'if (op == "Abs") {}\n', '"Abs"'),
    (rules.operators, "src/exec/a.cc", 'if (op == "Other") {}\n', None),
    (rules.operators, "src/exec/a_test.cc", 'if (op == "Abs") {}\n', None),
    (rules.first_lines, "src/base/a.h", FORMATTED, None),
    (rules.first_lines, "src/base/a.h", "#pragma once\n", "first line"),
    (rules.first_lines, "src/base/a.h", "// x\n", "first line"),
    (rules.first_lines, "tools/a.py", "import os\n", "first line"),
    (rules.first_lines, "tools/a.py", '"""What this script is for."""\n', None),
    (rules.first_lines, "tools/a.sh", "#!/bin/sh\n# What this script is.\n", None),
    (rules.first_lines, "cmake/a.cmake", "set(x 1)\n", "first line"),
    (rules.knob_page, "docs/knobs.md", knobs_page.page(KNOBS), None),
    (rules.knob_page, "docs/knobs.md", knobs_page.page(KNOBS) + "\n", "out of date"),
    (rules.long_files, "src/base/a.cc", "\n" * 400, None),
    (rules.long_files, "src/base/a.cc", "\n" * 401, "401 lines"),
    (rules.long_files, "src/kernels/a.cc", "\n" * 700, None),
    (rules.long_files, "src/kernels/a.cc", "\n" * 701, "701 lines"),
]


def make_tree(folder: pathlib.Path, files: dict[str, str]) -> rules.Tree:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return rules.Tree(folder, sorted(files))


@pytest.mark.parametrize("rule, path, text, expected", CASES, ids=[f"{c[0].__name__}-{i}" for i, c in enumerate(CASES)])
def test_rule(tmp_path, rule, path, text, expected):
    (tmp_path / ".clang-format").write_text("BasedOnStyle: Google\nColumnLimit: 120\n")
    tree = make_tree(tmp_path, {"cmake/rooms.txt": ROOMS, "src/base/knobs.inc": KNOBS,
                                "src/ops/operators.inc": "// List\nOP(Abs)\n",
                                "src/ops/a_test.cc": "// Abs, Add\n", path: text})
    findings = [f.message for f in rule(tree) if f.path == path]
    if expected is None:
        assert findings == []
    else:
        assert any(expected in message for message in findings), findings


def test_every_rule_is_seen_to_fail():
    assert {c[0] for c in CASES if c[3]} == set(rules.RULES + rules.WARNINGS)


def test_a_source_file_may_leave_its_first_line_to_its_header(tmp_path):
    tree = make_tree(tmp_path, {"src/base/a.cc": '#include "base/a.h"\n', "src/base/a.h": "// What a is about.\n"})
    assert list(rules.first_lines(tree)) == []


def test_formatting_remembers_only_good_files(tmp_path):
    (tmp_path / ".clang-format").write_text("BasedOnStyle: Google\n")
    tree = make_tree(tmp_path, {"a.cc": FORMATTED, "b.cc": "int  x ;\n"})
    tree.cache = tmp_path / "cache"
    for _ in range(2):
        assert [f.path for f in rules.formatting(tree)] == ["b.cc"]


def test_knob_page_joins_the_parts_of_a_text():
    assert "| `FORETHOUGHT_ISA` |  | `b`, `c` | Which tier: a\\|b. |" in knobs_page.page(KNOBS)
