"""The rules above the tree of `src/agentrt`: import contracts (`pyproject.toml`), no circles, and
nothing that reaches into another room."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import agentrt
from in_process import set_back
from public import MODULES

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
SOURCES = sorted(SRC.rglob("*.py"))
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"
CONTRACTS = ROOT / "pyproject.toml"


def lint_imports(src: Path) -> subprocess.CompletedProcess[str]:
    """Hold the contracts against the package below `src`."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo", "--config", CONTRACTS],
        cwd=src,
        env={**os.environ, "PYTHONPATH": str(src)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_imports_point_down_and_the_pure_rooms_never_import_trio() -> None:
    linted = lint_imports(SRC)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("_core/model/log.py", "import agentrt._core.runtime", "Imports point down"),
        ("_core/tools/tools.py", "import agentrt._core.runtime.open", "Imports point down"),
        ("_core/acp/driver.py", "import agentrt._core.claude.driver", "The protocols do not know"),
        ("_core/wire/lines.py", "import trio", "The pure rooms never import Trio"),
        ("_cli/stores.py", "import agentrt._cluster.server", "Imports point down"),
        ("_core/store/address.py", "import agentrt._cluster.server", "Imports point down"),
        ("_cluster/client.py", "import agentrt._serve.hub", "Stores in PostgreSQL know nothing"),
        ("_serve/hub.py", "import agentrt._core.model.log", "What is built on the core uses"),
        ("demo/words.py", "from .._core.wire import lines", "What is built on the core uses"),
    ],
)
@pytest.mark.slow
def test_a_wrong_import_is_found(module: str, line: str, contract: str, tmp_path: Path) -> None:
    shutil.copytree(SRC / "agentrt", tmp_path / "agentrt")
    with open(tmp_path / "agentrt" / module, "a") as file:
        file.write(f"\n{line}\n")
    linted = lint_imports(tmp_path)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert any(contract in row and "BROKEN" in row for row in linted.stdout.splitlines())


# --- circles and rooms


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All that is in a file."""
    return tuple(ast.walk(ast.parse(source)))


class Tree:
    """The files of the package below a folder, by module."""

    def __init__(self, src: Path) -> None:
        self.files: dict[str, tuple[ast.AST, ...]] = {}
        self._packages: set[str] = set()
        for path in sorted((src / "agentrt").rglob("*.py")):
            module = ".".join(path.relative_to(src).with_suffix("").parts)
            if path.name == "__init__.py":
                module = module.removesuffix(".__init__")
                self._packages.add(module)
            self.files[module] = nodes(path.read_text())

    def imports(self, module: str) -> Iterator[tuple[str, str | None, str]]:
        """Whatever a file imports, wherever in it: the module, the name in that or None, and the
        name that it gets."""
        for node in self.files[module]:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, None, alias.asname or alias.name
            elif isinstance(node, ast.ImportFrom):
                near = module.split(".")[: -node.level + (module in self._packages) or None]
                base = ".".join([*(near if node.level else []), *filter(None, [node.module])])
                for alias in node.names:
                    name = alias.asname or alias.name
                    if (whole := f"{base}.{alias.name}") in self.files:
                        yield whole, None, name
                    else:
                        yield base, alias.name, name

    def circle(self) -> list[str]:
        """Files that import each other, each the next one, or none."""
        graph = {
            module: {into for into, _, _ in self.imports(module) if into in self.files} - {module}
            for module in self.files
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return list(error.args[1])
        return []

    def intrusions(self) -> list[str]:
        """Where a file uses a name with an underscore that is another room's: one that it imports,
        or an attribute that only other rooms define."""
        defined: dict[str, set[str]] = defaultdict(set)
        for module, file in self.files.items():
            defined[room_of(module)] |= set(definitions(file))
        everywhere = set().union(*defined.values())
        foreign = {room: everywhere - names for room, names in defined.items()}
        found = []
        for module, file in self.files.items():
            room = room_of(module)
            bound: dict[str, str] = {}  # what is imported, by the room it is of, or none
            for into, name, known_as in self.imports(module):
                bound[known_as] = room_of(into) if into in self.files else ""
                if name is not None and is_private(name) and bound[known_as] not in ("", room):
                    found.append(f"{module}: {into}.{name}")
            for node in file:
                if isinstance(node, ast.Attribute) and is_private(node.attr):
                    theirs = node.attr in foreign[room]
                    if isinstance(node.value, ast.Name) and node.value.id in bound:
                        theirs = bound[node.value.id] not in ("", room)
                    if theirs:
                        found.append(f"{module}:{node.lineno}: {ast.unparse(node)}")
                elif named_in_a_string(node) in foreign[room]:
                    found.append(f"{module}:{node.lineno}: {ast.unparse(node)}")
        return found


def room_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["_core"] else 2])


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def named_in_a_string(node: ast.AST) -> str | None:
    """The private name that `getattr` or its like is given."""
    match node:
        case ast.Call(
            func=ast.Name("getattr" | "setattr" | "delattr" | "hasattr"),
            args=[_, ast.Constant(str(name)), *_],
        ) if is_private(name):
            return name
    return None


def definitions(file: tuple[ast.AST, ...]) -> Iterator[str]:
    """The names that a file gives to functions, classes, variables and its own attributes."""
    for node in file:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr


def planted(tmp_path: Path, module: str, line: str) -> Tree:
    """The package with a line more in one of its files."""
    shutil.copytree(
        SRC / "agentrt", tmp_path / "agentrt", ignore=shutil.ignore_patterns("page", "__pycache__")
    )
    with open(tmp_path / "agentrt" / module, "a") as file:
        file.write(f"\n{line}\n")
    return Tree(tmp_path)


@pytest.mark.slow
def test_no_file_imports_in_a_circle() -> None:
    assert Tree(SRC).circle() == []


@pytest.mark.parametrize(
    "line",
    [
        "from .hub import Hub",
        "import agentrt._serve.hub",
        "def late():\n    from .._serve import hub",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import hub as h",
    ],
)
@pytest.mark.slow
def test_a_circle_is_found(line: str, tmp_path: Path) -> None:
    circle = planted(tmp_path, "_serve/feed.py", line).circle()
    assert {"agentrt._serve.feed", "agentrt._serve.hub"} <= set(circle)


@pytest.mark.slow
def test_no_file_reaches_into_another_room() -> None:
    assert Tree(SRC).intrusions() == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from .._core.model.log import _anything", "agentrt._core.model.log._anything"),
        ("from .._core.model import log\nlog._json()", "log._json"),
        ("def look(log):\n    return log._lossless", "log._lossless"),
        ("def look(log):\n    return getattr(log, '_lossless')", "getattr(log, '_lossless')"),
        ("class Late:\n    def look(self):\n        self.log._lossless = 1", "self.log._lossless"),
    ],
)
@pytest.mark.slow
def test_a_reach_into_another_room_is_found(line: str, found: str, tmp_path: Path) -> None:
    [intrusion] = planted(tmp_path, "_serve/feed.py", line).intrusions()
    assert intrusion.startswith("agentrt._serve.feed:")
    assert intrusion.endswith(found)


@pytest.mark.slow
def test_every_file_says_what_lives_in_it() -> None:
    silent = [
        str(path.relative_to(SRC))
        for path in SOURCES
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


# --- tests use the public API

PRIVATE = re.compile(r"agentrt\b.*\._")


def private_imports() -> dict[Path, list[tuple[str, str]]]:
    """The private modules and names that each file of the tests imports."""
    found = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in nodes(path.read_text()):
            if isinstance(node, ast.Import):
                imported = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported = [(node.module or "", alias.name) for alias in node.names]
            else:
                continue
            found[path] += [
                each for each in imported if re.match(r"agentrt\b.*\._", ".".join(each))
            ]
    return {path: names for path, names in found.items() if names}


@pytest.mark.slow
def test_tests_import_public_names_from_their_public_modules() -> None:
    public = {
        (name, id(getattr(module, name)))
        for module in (agentrt, *MODULES.values())
        for name in module.__all__
    }
    with set_back():  # `agentrt.__main__` among them
        wrong = [
            f"{path.relative_to(ROOT)}: {module}.{name}"
            for path, names in private_imports().items()
            for module, name in names
            if name and (name, id(getattr(import_module(module), name, None))) in public
        ]
    assert not wrong
