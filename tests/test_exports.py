"""What is public is what the reference documents: a new name is a decision, and must be kept."""

from __future__ import annotations

import ast
import os
import pickle
import re
import subprocess
import sys
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import agentrt
import agentrt.events
import agentrt.testing
from agentrt import _public
from agentrt._homes import HOMES as AT_THE_TOP
from public import HOMES, MODULES

SRC = Path(agentrt.__file__).parent
REFERENCE = (Path(__file__).parents[1] / "docs/reference/python.md").read_text()


def documented() -> dict[str, list[str]]:
    """The names in the reference, by module."""
    names: dict[str, list[str]] = {}
    module = ""
    for kind, word in re.findall(r"^\.\. ([\w:]+):: ([\w.]+)(?:\(.*\))?$", REFERENCE, re.MULTILINE):
        if kind == "currentmodule":
            module = word
        elif kind != "automodule":
            names.setdefault(module, []).append(word)
    return names


def test_the_reference_has_a_section_per_module_with_all_names_of_it() -> None:
    found = documented()
    for name, module in {"": agentrt, "testing": agentrt.testing, **MODULES}.items():
        public = set(module.__all__)
        if not name:  # the names of the top that have another home are documented there
            public -= set(HOMES)
        place = f"agentrt.{name}" if name else "agentrt"
        assert len(found[place]) == len(set(found[place])), place
        assert set(found.pop(place)) == public, place
    assert not found


def test_every_kind_of_event_is_public() -> None:
    kinds = {kind.__name__ for kind in get_args(agentrt.events.Event)}
    assert kinds <= set(agentrt.events.__all__)


def test_the_top_has_what_most_programs_need() -> None:
    assert len(agentrt.__all__) <= 48
    assert len(set(agentrt.__all__)) == len(agentrt.__all__)


def test_a_name_has_one_home_and_may_be_at_the_top_too() -> None:
    names = Counter(name for module in MODULES.values() for name in module.__all__)
    assert [name for name, count in names.items() if count > 1] == []
    for name in set(agentrt.__all__) & set(HOMES):
        assert getattr(agentrt, name) is getattr(MODULES[HOMES[name]], name)


@pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.__name__)
def test_all_names_every_name_of_a_module(module: ModuleType) -> None:
    names = {name for name, value in vars(module).items() if not name.startswith(("_", "@"))}
    assert names == set(module.__all__)


@pytest.mark.parametrize("name", ["", *MODULES])
def test_the_names_of_a_module_are_listed_by_purpose(name: str) -> None:
    file = SRC / (f"{name}.py" if name else "_homes.py")
    begin, end = ("__all__ = [", "]") if name else ("HOMES = {", "}")
    text = file.read_text().split(begin, 1)[1].split(end, 1)[0]
    groups = [line.strip() for line in text.strip().splitlines() if line.strip().startswith("#")]
    assert text.strip().startswith("#")
    assert len(groups) == len(set(groups))


@pytest.mark.slow
def test_a_star_import_gives_what_is_public_also_as_the_first_import() -> None:
    code = (
        "from agentrt import *; import agentrt; assert open_session and Turn;"
        " assert set(agentrt.__all__) <= set(globals()), agentrt.__all__;"
        " print(*agentrt.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == agentrt.__all__


@pytest.mark.slow
def test_a_module_is_imported_on_first_use() -> None:
    code = (
        "import sys, agentrt\n"
        "assert 'agentrt.web' not in sys.modules and 'trio' not in sys.modules\n"
        "assert 'agentrt.web' in sys.modules if agentrt.web.serve else False\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_public_name_is_the_same_for_a_program_and_for_those_who_read_types() -> None:
    tree = ast.parse(Path(_public.__file__).read_text())
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("_homes")
        for alias in node.names
    }
    assert typed == AT_THE_TOP
    for name in agentrt.__all__:
        home = import_module(f"agentrt.{AT_THE_TOP[name]}")
        assert getattr(agentrt, name) is getattr(_public, name) is getattr(home, name)


@pytest.mark.slow
def test_a_session_imports_what_it_needs(tmp_path: Path) -> None:
    agent = ("sh", "-c", "read line; exit 3")  # it never gets as far as a session
    code = (
        "import sys, agentrt, trio\n"
        "async def main():\n"
        f"    async with agentrt.open_session(agentrt.agents.acp({agent!r})): pass\n"
        "try: trio.run(main)\n"
        "except agentrt.AgentStartError: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    modules = set(done.stdout.split())
    assert "agentrt._core.acp.driver" in modules
    unused = [
        "_core.claude.driver",
        "_core.store",
        "_core.permissions.rules",
        "_core.tools.http",
        "_core.tools.server",
        "_core.trace.trace",
        "_serve",
    ]
    assert not modules & {"h11", "difflib", *(f"agentrt.{name}" for name in unused)}


ERRORS = [getattr(agentrt.errors, name) for name in agentrt.errors.__all__]


def test_an_error_prints_by_the_name_that_a_program_imports() -> None:
    assert len(ERRORS) > 10
    for error in ERRORS:
        line = traceback.format_exception_only(error.__new__(error, "why"))[0]
        assert line.startswith(f"agentrt.errors.{error.__name__}")
        assert pickle.loads(pickle.dumps(error)) is error


def test_an_error_can_be_pickled() -> None:
    result = agentrt.TurnResult(turn="t1", outcome="failed")
    for error in (
        agentrt.errors.AgentDied("died", result),
        agentrt.AgentStartError("no", returncode=3, stderr="why"),
        agentrt.errors.RequestError(-1, "refused", {"a": 1}),
        agentrt.errors.RemoteProtocolError("what", b"line"),
        agentrt.Busy("now"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.slow
def test_the_types_of_all_public_names_are_complete() -> None:
    pytest.importorskip("pyright", reason="needs pyright (the group `types`)")
    environment = Path(sys.executable).parents[1]
    command = ["-m", "pyright", "--verifytypes", "agentrt", "--ignoreexternal"]
    done = subprocess.run(
        [sys.executable, *command],
        env={
            **os.environ,
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(environment),
            "PYTHONPATH": str(SRC.parent),
        },
        capture_output=True,
        text=True,
    )
    assert "Type completeness score: 100%" in done.stdout, done.stdout
