"""Every field of a public class is described, next to the field or in the class's docstring."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator

import agentrt.testing
from public import PUBLIC
from tables import for_each

CLASSES = {
    f"{item.__module__}.{item.__qualname__}": item
    for item in (*PUBLIC.values(), *(getattr(agentrt.testing, n) for n in agentrt.testing.__all__))
    if inspect.isclass(item) and item.__module__.startswith("agentrt")
    if not issubclass(item, BaseException)
    if item.__module__ != "agentrt._core.codex.messages"  # made from a protocol's schema
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


@for_each("name", sorted(CLASSES))
def test_every_field_of_a_public_class_is_described(name: str) -> None:
    assert [field for field, described in fields(CLASSES[name]) if not described] == []
