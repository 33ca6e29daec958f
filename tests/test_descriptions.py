"""Every public class, field and method is described."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator

import pytest

import agentrt.testing
from public import PUBLIC
from tables import for_each

CLASSES = {
    f"{item.__module__}.{item.__qualname__}": item
    for item in (*PUBLIC.values(), *(getattr(agentrt.testing, n) for n in agentrt.testing.__all__))
    if inspect.isclass(item) and item.__module__.startswith("agentrt")
    if not issubclass(item, BaseException)
}


def fields(kind: type) -> Iterator[tuple[str, bool]]:
    """Yield the public fields of a class, and whether each is described."""
    module = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    [body] = [
        node
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ]
    text = ast.get_docstring(body) or ""
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                own = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                yield name, own or bool(re.search(rf"`{name}`", text))


@pytest.mark.slow
@for_each("name", sorted(CLASSES))
def test_every_field_of_a_public_class_is_described(name: str) -> None:
    assert [field for field, described in fields(CLASSES[name]) if not described] == []


def undescribed(kind: type) -> set[str]:
    """Return the public methods and properties of a class without a docstring."""
    return {
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
        if not inspect.getdoc(getattr(kind, name))
    }


DESCRIBED = {
    name
    for kind in CLASSES.values()
    if getattr(kind, "_is_protocol", False)
    for name in vars(kind).keys() - undescribed(kind)
}
"""Methods of public protocols; classes that implement one need not describe them again."""


@for_each("name", sorted(CLASSES))
def test_every_public_class_and_its_methods_have_a_docstring(name: str) -> None:
    kind = CLASSES[name]
    assert (bool(kind.__doc__), undescribed(kind) - DESCRIBED) == (True, set())
