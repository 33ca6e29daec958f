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

REASONS: dict[str, str] = {
    "the state machine or table gets every input, most of which no agent or client sends": (
        "model/test_any_order acp/test_acp_messages web/test_tenant_doors"
        " runtime/test_standing_refusals runtime/test_project_trust test_project_files"
        " acp/test_host"
    ),
    "a planted defect, a fault or a fuzzed input goes into the part that it is about": (
        "simulation/defects faults/failing_store faults/inject faults/test_cancel_at_each_step"
        " owners/routing owners/test_routing fuzz/targets"
    ),
    "a world of its own has the package's parts, with the time and the order of steps": (
        "simulation/kept simulation/process simulation/viewers simulation/world owners/tables"
        " owners/test_remote_command journal/test_gathering"
    ),
    "the kit of several files: tests get from it what they need, and name no private part": (
        "clients/random_turns consent/asked journal/composed journal/disk postgres/parts"
        " remote/cutting runtime/child_programs web/hub_kit web/sockets web/tool_calls"
    ),
    "it runs alone, or before everything else, and cannot import `inside`": ("forked"),
    "an operating system, a clock, a folder or a library is replaced in this one module": (
        "runtime/test_guard runtime/test_platforms runtime/test_inherited"
        " runtime/test_stored_sessions acp/test_terminals trace/test_file postgres/test_schema"
        " claude/test_sessions"
    ),
    "a stream, a frame or a file is cut at each byte, which a socket does not let a client do": (
        "web/test_stdio"
    ),
    "the pages or pieces of a long value are compared with the whole": "model/test_pages",
    "the values are compared with those of another language, program or document": (
        "conformance/test_unknown test_exports shown/ignored"
    ),
    "the command or its screen is run in the process of the test, with chosen values": (
        "terminal/test_attended terminal/test_usage terminal/test_markdown telemetry/test_metrics"
    ),
}
"""Why files outside of `inside` import private names, with the files of each reason (their paths
without `.py`). A file that can use the public API or `inside` is not added."""

NAMES = 393
"""Private names that the tests use, with those of `inside`: this number may only fall."""

FILES = 78
"""Files that use a private name, imported from agentrt or from another file of the tests that has
imported it, such as those of `inside`: this number may only fall."""

Import: TypeAlias = tuple[str, str]
"""The module and the name."""

PLACES = (TESTS, TESTS / "acp")
"""The folders whose files each test can import (`pythonpath` in pyproject.toml)."""


def imports_of(source: str) -> Iterator[Import]:
    """Yield everything that a file imports from other packages; `*` for a module."""
    yield from (found for _, found in named_imports_of(source))


def named_imports_of(source: str) -> Iterator[tuple[str, Import]]:
    """Yield everything that a file imports from other packages, with its name in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, (alias.name, "*")


def is_private(found: Import) -> bool:
    """True if a name of a module is not public, as `__main__` and `__version__` are."""
    (first, *rest), name = found[0].split("."), found[1]
    hidden = [part for part in (*rest, *(() if rest else (name,))) if part.startswith("_")]
    return first == "agentrt" and any(not part.startswith("__") for part in hidden)


def is_taken_over(path: Path, found: Import) -> bool:
    """True if `path` imports a private name from a file of the tests that has imported it."""
    module, name = found
    for folder in (path.parent, *PLACES):
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        if file.is_file():
            given = [each for own, each in named_imports_of(file.read_text()) if own == name]
            return any(is_private(each) or is_taken_over(file, each) for each in given)
    return False


@pytest.fixture(scope="module")
def imports() -> dict[Path, list[Import]]:
    """Everything that each file imports."""
    return {path: list(imports_of(path.read_text())) for path in sorted(TESTS.rglob("*.py"))}


@pytest.mark.slow
def test_each_file_with_private_names_has_its_reason_and_names_get_fewer(
    imports: dict[Path, list[Import]],
) -> None:
    found = {path: set(filter(is_private, names)) for path, names in imports.items()}
    own = {
        path.relative_to(TESTS).with_suffix("").as_posix()
        for path, names in found.items()
        if names and path.parent != INSIDE
    }
    assert own == {path for paths in REASONS.values() for path in paths.split()}
    assert len(set().union(*found.values())) <= NAMES


@pytest.mark.slow
def test_files_with_private_names_get_fewer_through_whatever_file_they_take_them(
    imports: dict[Path, list[Import]],
) -> None:
    users = [
        path
        for path, names in imports.items()
        if (path.parent != INSIDE or path.stem.startswith("test_"))
        and any(is_private(each) or is_taken_over(path, each) for each in names)
    ]
    assert len(users) <= FILES


def test_a_private_name_is_found_through_other_files_of_the_tests(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("from agentrt._core.model.log import joined as join\n")
    (tmp_path / "kit.py").write_text("from first import join\n\ndef joined(): return join()\n")
    test = tmp_path / "test_it.py"
    assert is_taken_over(test, ("first", "join"))
    assert is_taken_over(test, ("kit", "join"))
    assert not is_taken_over(test, ("first", "joined"))
    assert not is_taken_over(test, ("kit", "joined"))


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
        ("from agentrt import __version__", []),
        ("from agentrt.__main__ import run", []),
        ("def test():\n    import agentrt._core.files", [("agentrt._core.files", "*")]),
        ("from agentrt.lowlevel import Log", []),
        ("from inside.server import Hub", []),
    ],
)
def test_private_imports_are_found(line: str, found: list[tuple[str, str]]) -> None:
    assert list(filter(is_private, imports_of(line))) == found
