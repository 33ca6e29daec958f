"""Public signatures use public types only, so that a program can annotate whatever it handles."""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType

import pytest

import agentrt
import agentrt.aio
import agentrt.asgi
import agentrt.testing
from public import MODULES

pytestmark = pytest.mark.slow

ALL: dict[str, ModuleType] = {
    "agentrt": agentrt,
    **MODULES,
    "aio": agentrt.aio,
    "asgi": agentrt.asgi,
    "testing": agentrt.testing,
}
CALLED = {"__init__", "__aenter__", "__anext__", "__call__", "__enter__", "__getitem__"}
"""Special methods whose signatures a program sees."""


class File:
    """The definitions of a module, and what its names stand for."""

    def __init__(self, module: str) -> None:
        import_module(module)
        tree = ast.parse(inspect.getsource(sys.modules[module]))
        self.definitions: dict[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.names: dict[str, tuple[str, str]] = {}
        package = sys.modules[module].__package__ or ""
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.definitions[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), package)
                for alias in node.names:
                    self.names[alias.asname or alias.name] = (base, alias.name)
        for node in tree.body:
            for name in assigned(node):
                self.names[name] = (module, name)

    def value(self, name: str) -> object:
        """What a name stands for; None if it is not one of agentrt."""
        module, found = self.names.get(name, ("", ""))
        if not module.startswith("agentrt"):
            return None
        value = getattr(import_module(module), found, None)
        return None if isinstance(value, ModuleType) else value


def assigned(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            yield name


@cache
def file_of(module: str) -> File:
    return File(module)


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr | None]:
    """The annotations of a signature."""
    taken = function.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    yield from (each.annotation for each in every if each is not None)
    yield function.returns


def signatures(value: object) -> Iterator[tuple[str, str, ast.expr | None]]:
    """The annotations that a program sees of a public name, each with its module and its place."""
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith("agentrt") and base.__module__ != "agentrt.errors":
                definition = file_of(base.__module__).definitions[base.__name__]
                assert isinstance(definition, ast.ClassDef)
                yield from of_class(base.__module__, definition)
    elif inspect.isfunction(inspect.unwrap(value)) if callable(value) else False:
        function = inspect.unwrap(value)  # type: ignore[arg-type]
        definition = file_of(function.__module__).definitions.get(function.__name__)
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
            for annotation in annotations(definition):
                yield function.__module__, function.__name__, annotation


def of_class(module: str, definition: ast.ClassDef) -> Iterator[tuple[str, str, ast.expr | None]]:
    for node in definition.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                not name.startswith("_") or name in CALLED
            ):
                for annotation in annotations(node):
                    yield module, f"{definition.name}.{name}", annotation
                if name == "__init__":
                    for place, annotation in attributes(node):
                        yield module, f"{definition.name}.{place}", annotation
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                yield module, f"{definition.name}.{name}", node.annotation


def attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The public attributes that a constructor declares."""
    for node in ast.walk(init):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name)) if not name.startswith("_"):
                yield name, node.annotation


def private_types(modules: dict[str, ModuleType]) -> dict[str, set[str]]:
    """The types in public signatures that no public module has, each with the signatures."""
    public = {id(getattr(module, name)) for module in modules.values() for name in module.__all__}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for name in module.__all__:
            for where, place, annotation in signatures(getattr(module, name)):
                for used in names_in(annotation):
                    value = file_of(where).value(used)
                    if value is not None and id(value) not in public and is_a_type(value):
                        found[used].add(place)
    return found


def names_in(annotation: ast.expr | None) -> Iterator[str]:
    for node in ast.walk(annotation) if annotation is not None else ():
        match node:
            case ast.Name(id=name):
                yield name
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def is_a_type(value: object) -> bool:
    variables = (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple)
    return not isinstance(value, variables) and value not in (int, str, bytes, float, bool)


def test_public_signatures_use_public_types_only() -> None:
    assert private_types(ALL) == {}


def test_a_private_type_in_a_public_signature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    without = [name for name in agentrt.lowlevel.__all__ if name != "Cursor"]
    monkeypatch.setattr(agentrt.lowlevel, "__all__", without)
    assert "Log.cursor" in private_types(ALL)["Cursor"]
