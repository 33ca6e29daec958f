"""What is public is what the reference documents: a new name is a decision, and must be kept."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType

import agentrt
import agentrt.testing
from agentrt import _public

REFERENCE = (Path(__file__).parents[1] / "docs/reference/python.md").read_text()


def test_every_public_name_is_in_the_reference_and_nothing_else_is() -> None:
    public = {
        name
        for package in (agentrt, agentrt.testing)
        for name in dir(package)
        if not name.startswith("_") and not isinstance(getattr(package, name), ModuleType)
    }
    documented = re.findall(r"^\.\. auto\w+:: (\w+)(?:\(\))?$", REFERENCE, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert public == set(documented)


def test_a_star_import_gives_what_is_public_also_as_the_first_import() -> None:
    code = (
        "from agentrt import *; import agentrt; assert open_session and Turn;"
        " assert set(agentrt.__all__) <= set(globals()), agentrt.__all__;"
        " print(*agentrt.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    public = {name for name in dir(agentrt) if not name.startswith("_")}
    public -= {name for name in public if isinstance(getattr(agentrt, name), ModuleType)}
    assert done.stdout.split() == sorted(public)


def test_a_public_name_is_the_same_for_a_program_and_for_those_who_read_types() -> None:
    # What begins with "@" is pytest's: it rewrites the assertions of a package with a plugin.
    typed = {name: value for name, value in vars(_public).items() if name[0] not in "_@"}
    assert sorted(typed) == agentrt.__all__
    assert all(getattr(agentrt, name) is value for name, value in typed.items())


def test_a_session_imports_what_it_needs(tmp_path: Path) -> None:
    agent = ("sh", "-c", "read line; exit 3")  # it never gets as far as a session
    code = (
        "import sys, agentrt, trio\n"
        "async def main():\n"
        f"    async with agentrt.open_session(agentrt.acp({agent!r})): pass\n"
        "try: trio.run(main)\n"
        "except agentrt.AgentStartError: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    modules = set(done.stdout.split())
    assert "agentrt._acp.driver" in modules
    unused = [
        "_claude.driver",
        "_journal",
        "_permissions.rules",
        "_tools.http",
        "_tools.server",
        "_trace.trace",
        "_web",
    ]
    assert not modules & {"h11", "difflib", *(f"agentrt.{name}" for name in unused)}


ERRORS = [
    value
    for value in (getattr(agentrt, name) for name in dir(agentrt))
    if isinstance(value, type) and issubclass(value, agentrt.AgentrtError)
]


def test_an_error_prints_by_the_name_that_a_program_imports() -> None:
    assert len(ERRORS) > 10
    for error in ERRORS:
        line = traceback.format_exception_only(error.__new__(error, "why"))[0]
        assert line.startswith(f"agentrt.{error.__name__}")
        assert pickle.loads(pickle.dumps(error)) is error


def test_an_error_can_be_pickled() -> None:
    result = agentrt.TurnResult(turn="t1", outcome="failed")
    for error in (
        agentrt.AgentDied("died", result),
        agentrt.AgentStartError("no", returncode=3, stderr="why"),
        agentrt.RequestError(-1, "refused", {"a": 1}),
        agentrt.RemoteProtocolError("what", b"line"),
        agentrt.Busy("now"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
