"""An object is complete when constructed: no other code gives it a collaborator afterwards."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

SRC = Path(__file__).parents[1] / "src" / "agentrt"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Assignment(NamedTuple):
    owner: str
    """The name of the object."""
    attribute: str
    node: ast.Assign | ast.AnnAssign
    function: Function


def assignments(function: Function) -> Iterator[Assignment]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                        yield Assignment(ast.unparse(part.value), part.attr, node, function)


def is_empty(node: ast.Assign | ast.AnnAssign) -> bool:
    return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)


def makes(function: Function, name: str) -> bool:
    """Return True if the function constructs or copies the object of a name, as a factory does."""
    return any(
        isinstance(node, ast.Assign)
        and name in map(ast.unparse, node.targets)
        and (".__new__(" in (made := ast.unparse(node.value)) or made.startswith("copy("))
        for node in ast.walk(function)
    )


class Package:
    """The classes of the package, and the attributes that functions assign."""

    def __init__(self, sources: list[str]) -> None:
        self.empty: dict[str, set[str]] = defaultdict(set)
        """Attributes that a class declares without a value, and their annotations."""
        self.outside: list[Assignment] = []
        self._behaving: set[str] = set()
        """Classes that are no mere data: with an `__init__`, or protocols."""
        for source in sources:
            tree = ast.parse(source)
            for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
                self._add(kind)
            inside = {
                id(function)
                for kind in ast.walk(tree)
                if isinstance(kind, ast.ClassDef)
                for function in ast.walk(kind)
            }
            for function in ast.walk(tree):
                if isinstance(function, Function):
                    self.outside += [
                        each
                        for each in assignments(function)
                        if each.owner != "self" or id(function) not in inside
                    ]

    def _add(self, kind: ast.ClassDef) -> None:
        methods = [node for node in kind.body if isinstance(node, Function)]
        constructed = any(method.name == "__init__" for method in methods)
        if constructed or any("Protocol" in ast.unparse(base) for base in kind.bases):
            self._behaving.add(kind.name)
        own = [each for method in methods for each in assignments(method) if each.owner == "self"]
        given = {each.attribute for each in own if not is_empty(each.node)}
        declared = [node for node in kind.body if isinstance(node, ast.AnnAssign)]
        for node, name in [(each.node, each.attribute) for each in own] + [
            (node, ast.unparse(node.target)) for node in declared
        ]:
            if isinstance(node, ast.AnnAssign) and is_empty(node) and name not in given:
                if constructed:
                    self.empty[name].add(ast.unparse(node.annotation))

    def late(self) -> list[str]:
        """Assignments that give an object a collaborator which its class only declares."""
        data = ("Error", "ErrorInfo", "Refused", "Table")
        behaving = {name for name in self._behaving if not name.endswith(data)}
        kinds = {"Callable", "Nursery", "CancelScope", *behaving}
        return sorted(
            {
                f"{each.owner}.{each.attribute} (in {each.function.name})"
                for each in self.outside
                if not is_empty(each.node) and not makes(each.function, each.owner)
                for annotation in self.empty[each.attribute]
                if kinds & names(annotation)
            }
        )


def names(annotation: str) -> set[str]:
    tree = ast.parse(annotation)
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.slow
def test_no_collaborator_is_assigned_to_an_object_after_its_construction() -> None:
    late = Package([path.read_text() for path in sorted(SRC.rglob("*.py"))]).late()
    assert late == []


def test_a_collaborator_that_is_assigned_afterwards_is_found() -> None:
    source = """
class Store:
    def __init__(self):
        self.notify: Callable[[], None] | None = None
        self.count: int | None = None

def open_store(hub):
    store = Store()
    store.count = 3
    store.notify = hub.wake
    return store
"""
    assert Package([source]).late() == ["store.notify (in open_store)"]


def test_a_factory_and_the_object_itself_may_assign() -> None:
    source = """
class Store:
    _wake: Callable[[], None]

    def __init__(self):
        raise TypeError("made by open_store")

class Hub:
    def __init__(self):
        self.wake: Callable[[], None] | None = None

    def listen(self, wake):
        self.wake = wake

def open_store(wake):
    store = Store.__new__(Store)
    store._wake = wake
    return store
"""
    assert Package([source]).late() == []
