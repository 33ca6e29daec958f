"""How much of the package's inside the tests hold: a property that the public API can show is
tested through it, so that the inside can change.

Private names that several tests need come from `tests/inside`, where each module has the reason.
There are also the tests of one part of the inside that no public API can drive; each gives its
reason, too. Another test that takes a private name for itself alone counts here.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

TESTS = Path(__file__).parent
INSIDE = TESTS / "inside"

FILES = 93
"""Files outside of `inside` that import private names: this number may only fall."""

NAMES = 482
"""Private names that the tests use, with those of `inside`: this number may only fall."""


Import: TypeAlias = tuple[str, str]
"""The module and the name."""


def imports_of(source: str) -> Iterator[Import]:
    """Yield everything that a file imports from other packages; `*` for a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, "*"


def is_private(found: Import) -> bool:
    """True if a name of a module is not public."""
    (first, *rest), name = found[0].split("."), found[1]
    inside = any(part.startswith("_") for part in rest)
    return first == "agentrt" and (inside or (not rest and name.startswith("_")))


@pytest.fixture(scope="module")
def imports() -> dict[Path, list[Import]]:
    """Everything that each file imports."""
    return {path: list(imports_of(path.read_text())) for path in sorted(TESTS.rglob("*.py"))}


@pytest.mark.slow
def test_ever_fewer_files_and_names_are_private(imports: dict[Path, list[Import]]) -> None:
    found = {path: set(filter(is_private, names)) for path, names in imports.items()}
    own = [path for path, names in found.items() if names and path.parent != INSIDE]
    assert len(own) <= FILES, own
    assert len(set().union(*found.values())) <= NAMES


@pytest.mark.slow
def test_each_module_of_inside_gives_its_reason_and_only_shared_names(
    imports: dict[Path, list[Import]],
) -> None:
    taken = Counter(found for names in imports.values() for found in set(names))
    for path in sorted(INSIDE.glob("[a-z]*.py")):
        assert len((ast.get_docstring(ast.parse(path.read_text())) or "").split()) > 12, path.stem
        if path.stem.startswith("test_"):
            continue
        given = [name for module, name in imports[path] if module != "__future__"]
        assert [each for each in given if taken[f"inside.{path.stem}", each] < 2] == [], path.stem


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from agentrt._core.model.log import Log", [("agentrt._core.model.log", "Log")]),
        ("from agentrt import _public", [("agentrt", "_public")]),
        ("def test():\n    import agentrt._core.files", [("agentrt._core.files", "*")]),
        ("from agentrt.lowlevel import Log", []),
        ("from inside.server import Hub", []),
    ],
)
def test_private_imports_are_found(line: str, found: list[tuple[str, str]]) -> None:
    assert list(filter(is_private, imports_of(line))) == found
