#!/usr/bin/env python3
"""Writes the table of all ONNX operator schemas as one C++ file, from the pinned `onnx` package.

    generate.py OUTPUT.cc
"""

import os
import sys

ONNX_VERSION = "1.23.2"


def load_onnx():
    try:
        import onnx
    except ImportError:
        sys.exit(
            f"{sys.argv[0]}: {sys.executable} has no package 'onnx'. Install it (pip install onnx=={ONNX_VERSION})"
            " or give CMake a Python that has it: -DFORETHOUGHT_PYTHON_EXECUTABLE=..."
        )
    if onnx.__version__ != ONNX_VERSION:
        sys.exit(f"{sys.argv[0]}: {sys.executable} has onnx {onnx.__version__}; the schemas are pinned to {ONNX_VERSION}")
    return onnx


class Pool:
    """All text in one literal; a string is an offset and a length in it."""

    def __init__(self):
        self.data = bytearray()
        self.known = {}

    def view(self, text):
        raw = text if isinstance(text, bytes) else text.encode()
        if raw not in self.known:
            self.known[raw] = len(self.data)
            self.data += raw
        return f"{{kText + {self.known[raw]}, {len(raw)}}}" if raw else "{}"

    def literal(self):
        lines = []
        for start in range(0, len(self.data), 100):
            chunk = self.data[start : start + 100]
            lines.append('"' + "".join(escape(b) for b in chunk) + '"')
        return "\n".join(lines)


def escape(byte):
    char = chr(byte)
    if char in '"\\?':
        return "\\" + char
    return char if 32 <= byte < 127 else f"\\{byte:03o}"


class Array:
    """A flat array of which schemas own consecutive parts."""

    def __init__(self, name):
        self.name = name
        self.rows = []

    def add(self, rows):
        if not rows:
            return "{}"
        start = len(self.rows)
        self.rows += rows
        return f"{{{self.name} + {start}, {len(rows)}}}"

    def emit(self, out, cpp_type):
        out.append(f"const {cpp_type} {self.name}[] = {{")
        out += [f"    {row}," for row in self.rows or ["{}"]]
        out.append("};")


class Generator:
    def __init__(self, onnx):
        self.onnx = onnx
        self.text = Pool()
        self.allowed = {}  # a set of types -> its row
        self.formals = Array("kFormals")
        self.attributes = Array("kAttributes")
        self.constraints = Array("kConstraints")
        self.bodies = Array("kBodies")
        self.ints = Array("kInts")
        self.strings = Array("kStrings")

    def allowed_types(self, type_names):
        numbers = self.onnx.TensorProto.DataType
        masks = {"tensor": 0, "seq(tensor": 0, "optional(tensor": 0, "optional(seq(tensor": 0}
        maps = sequences_of_maps = False
        for type_name in type_names:
            kind, _, element = type_name.rstrip(")").rpartition("(")
            if kind in masks:
                masks[kind] |= 1 << numbers.Value(element.upper())
            elif kind == "map":
                maps = True
            elif kind == "seq(map":
                sequences_of_maps = True
            else:
                sys.exit(f"unknown type in a schema: {type_name}")
        row = "{" + ", ".join(f"{m:#x}" for m in masks.values())
        row += f", {str(maps).lower()}, {str(sequences_of_maps).lower()}}}"
        index = self.allowed.setdefault(row, len(self.allowed))
        return f"kAllowed + {index}"

    def formal(self, param, constraint_types):
        option = self.onnx.defs.OpSchema.FormalParameterOption
        kind = {option.Single: "kSingle", option.Optional: "kOptional", option.Variadic: "kVariadic"}[param.option]
        types = constraint_types.get(param.type_str, [param.type_str])
        return (
            f"{{{self.text.view(param.name)}, {self.text.view(param.type_str)}, {self.allowed_types(types)}, "
            f"FormalKind::{kind}, {str(param.is_homogeneous).lower()}, {param.min_arity}}}"
        )

    def attribute(self, attr):
        kinds = self.onnx.AttributeProto
        default = attr.default_value
        f, i, s, ints, strings = "0", "0", "{}", "{}", "{}"
        if default.type == kinds.FLOAT:
            f = float(default.f).hex() + "f"
        elif default.type == kinds.INT:
            i = str(default.i)
        elif default.type == kinds.STRING:
            s = self.text.view(default.s)
        elif default.type == kinds.INTS:
            ints = self.ints.add([str(v) for v in default.ints])
        elif default.type == kinds.STRINGS:
            strings = self.strings.add([self.text.view(v) for v in default.strings])
        elif default.type != kinds.UNDEFINED:
            sys.exit(f"a default of type {default.type} is not foreseen (attribute {attr.name})")
        return (
            f"{{{self.text.view(attr.name)}, static_cast<AttrType>({int(attr.type.value)}), "
            f"{str(attr.required).lower()}, {str(default.type != 0).lower()}, {f}, {i}, {s}, {ints}, {strings}}}"
        )

    def schema(self, schema):
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        attributes = [self.attribute(a) for _, a in sorted(schema.attributes.items())]
        constraints = [f"{{{self.text.view(n)}, {self.allowed_types(t)}}}" for n, t in types.items()]
        bodies = [
            f"{{{v}, {self.text.view(schema.get_function_with_opset_version(v))}}}"
            for v in sorted(schema.function_opset_versions)
        ]
        determinism = self.onnx.defs.OpSchema.NodeDeterminism
        flags = [
            schema.deprecated,
            schema.node_determinism == determinism.NonDeterministic,
            schema.has_context_dependent_function,
        ]
        return ", ".join(
            [
                f"    {{{self.text.view(schema.domain)}",
                self.text.view(schema.name),
                str(schema.since_version),
                *[str(f).lower() for f in flags],
                self.formals.add([self.formal(p, types) for p in schema.inputs]),
                self.formals.add([self.formal(p, types) for p in schema.outputs]),
                f"{schema.min_input}, {schema.max_input}, {schema.min_output}, {schema.max_output}",
                self.attributes.add(attributes),
                self.constraints.add(constraints),
                self.bodies.add(bodies) + "},",
            ]
        )

    def run(self):
        schemas = self.onnx.defs.get_all_schemas_with_history()
        schemas = sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version))
        rows = [self.schema(s) for s in schemas]
        out = [f"// Operator schemas of onnx {ONNX_VERSION}; made by src/graph/schema/generate.py."]
        out += ['#include "graph/schema/table.h"', "", "namespace forethought::schema_table {", "namespace {"]
        out += ["// clang-format off", "const char kText[] =", self.text.literal() + ";"]
        out += ["const AllowedTypes kAllowed[] = {", *[f"    {row}," for row in self.allowed], "};"]
        self.ints.emit(out, "int64_t")
        self.strings.emit(out, "std::string_view")
        self.formals.emit(out, "FormalParam")
        self.attributes.emit(out, "AttributeSchema")
        self.constraints.emit(out, "TypeConstraint")
        self.bodies.emit(out, "FunctionBody")
        out += ["}  // namespace", "", "extern const OpSchema kSchemas[] = {", *rows, "};"]
        out += [f"extern const size_t kSchemaCount = {len(rows)};", "", "}  // namespace forethought::schema_table"]
        return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    text = Generator(load_onnx()).run()
    os.makedirs(os.path.dirname(os.path.abspath(sys.argv[1])), exist_ok=True)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
