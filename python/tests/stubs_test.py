"""The type stubs say what the package has: the same names, and the same parameters in the same order."""
import ast
import inspect
import pathlib
import types

import pytest
from small_models import ADD

import forethought as ft

STUB = ast.parse(pathlib.Path(ft.__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))
CLASSES = {n.name: n for n in STUB.body if isinstance(n, ast.ClassDef)}
FUNCTIONS = {n.name: n for n in STUB.body if isinstance(n, ast.FunctionDef)}


def public(thing) -> set[str]:
    return {n for n, v in vars(thing).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}


def parameters(node: ast.FunctionDef) -> list[str]:
    a = node.args
    return [p.arg for p in [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs,
                            *([a.kwarg] if a.kwarg else [])]]


def test_names():
    assert set(CLASSES) | set(FUNCTIONS) == public(ft)
    assert pathlib.Path(ft.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert parameters(FUNCTIONS[name]) == list(inspect.signature(getattr(ft, name)).parameters)


@pytest.mark.parametrize("name", [n for n in CLASSES if n != "ModelMetadata"])  # its fields are made by its instances
def test_classes(name):
    kind = getattr(ft, name)
    body = [n for k in reversed(kind.__mro__) if k.__name__ in CLASSES for n in CLASSES[k.__name__].body]
    methods = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
    fields = {n.target.id for n in body if isinstance(n, ast.AnnAssign)} | {
        t.id for n in body if isinstance(n, ast.Assign) for t in n.targets
    }
    assert [b.id for b in CLASSES[name].bases if isinstance(b, ast.Name)] in ([], [b.__name__ for b in kind.__bases__])
    have = set().union(*(public(k) for k in kind.__mro__ if k.__module__.startswith("forethought")))
    if "IntEnum" in str(kind.__mro__):
        have = set(kind.__members__)
    assert {n for n in methods if not n.startswith("_")} | fields == have
    for method, node in methods.items():
        if isinstance(inspect.getattr_static(kind, method), property):
            continue
        real = list(inspect.signature(getattr(kind, method)).parameters)
        if "classmethod" in {d.id for d in node.decorator_list if isinstance(d, ast.Name)}:
            real.insert(0, "cls")
        assert parameters(node) == real, method


def test_metadata():
    fields = {n.target.id for n in CLASSES["ModelMetadata"].body if isinstance(n, ast.AnnAssign)}
    assert fields == set(vars(ft.InferenceSession(ADD).get_modelmeta()))
