"""The table of escapes: nothing that is tried inside a sandbox reaches the machine outside."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

import agentrt

HERE = Path(__file__).resolve().parent
SRC = Path(agentrt.__file__).parents[1]

POSSIBLE = {
    "write through a hard link that was there",
    "create .envrc that was not there",
    "64 MiB in /tmp",
    "300 processes",
}
"""The attempts that a sandbox without limits does not stop; the guide says so."""

POSSIBLE_WITH_LANDLOCK = POSSIBLE | {
    # It cannot make exceptions in a folder that can be written, and does not cover modes.
    "write .git/hooks/pre-commit",
    "write .git/config",
    "rename .git and put another there",
    "rename .git/hooks",
    "unlink .git/config and write it anew",
    "git config core.fsmonitor",
    "lead git to another configuration",
    "the same in a linked working tree",
    "create hooks where there are none",
    "write the configuration of a submodule",
    "write the hooks of a submodule",
    "replace the file that leads git to a configuration",
    "git runs a program of the agent's configuration",
    "write the hooks of a nested repository",
    "write .mcp.json that was there",
    "write .claude/settings.json that was there",
    "write the agent's settings in its state",
    "change the mode of a file outside",
    # `hide` is refused, so these files are ordinary ones.
    "read a hidden file",
    "read a hidden folder",
    "read home/project/hidden.txt",
    "read home/project/secrets/key",
    "write home/project/hidden.txt",
    "write home/project/secrets/new",
    # There are no namespaces: sockets of services and the names of processes are visible, and so is
    # the first process of the machine, which has rights.
    "Unix socket in /run",
    "Unix socket in /tmp",
    "Unix socket next to the folder",
    "see the host in /proc",
    "see other processes",
    "gain rights by taking over pid 1",
    "devices of the machine",
    "priority of the host",
}
"""The attempts that the weaker mechanism does not stop either."""

NESTED = {"unshare a user namespace", "clone a user namespace", "build a sandbox inside"}
"""The attempts that `nested` is for."""

ROWS = {"shell": 89, "terminal": 89, "files": 24}
"""The least number of rows, so that a table that ends early is noticed."""

NOBODY = 65534


def user_python() -> str | None:
    """Return a Python of this version that every user can run."""
    version = "{}.{}".format(*sys.version_info)
    for name in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        if (
            os.path.exists(name)
            and subprocess.run(as_user(name, "-c", "1"), check=False).returncode == 0
        ):
            return name
    return None


def as_user(*command: str) -> list[str]:
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    limited = ["setpriv", *user, "--inh-caps=-all", "--bounding-set=-all"]
    return [*limited, "sh", "-c", 'exec "$0" "$@"', *command]


def run_attacks(way: str, *, user: bool, tier: str = "bwrap") -> dict[str, str]:
    """Run the table, and return the state of each row."""
    command = [sys.executable, str(HERE / "escape.py"), way, tier]
    env = {**os.environ, "PYTHONPATH": ":".join([str(SRC), *site.getsitepackages()])}
    if user:
        if os.getuid() != 0:
            pytest.skip("this is an ordinary user already")
        if shutil.which("setpriv") is None or (python := user_python()) is None:
            pytest.skip("no Python here that every user can run")
        command = as_user(python, *command[1:])
        env |= {"HOME": "/nonexistent", "PATH": "/usr/local/bin:/usr/bin:/bin"}
        env.pop("AGENTRT_GUARD", None)
    done = subprocess.run(
        command, cwd="/", env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    states = {row[0]: row[1] for row in rows}
    assert len(states) >= ROWS[way], done.stdout + done.stderr
    return states


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("way", ["shell", "terminal", "files"])
@pytest.mark.parametrize("user", [False, True], ids=["this-user", "ordinary-user"])
def test_no_attempt_gets_out(way: str, user: bool) -> None:
    states = run_attacks(way, user=user)
    for name, state in states.items():
        if name.startswith("control"):
            assert state == "done", name
    done = {name for name, state in states.items() if state == "done"}
    assert {name for name in done if not name.startswith("control")} <= POSSIBLE


@pytest.mark.sandbox
@pytest.mark.slow
def test_nested_sandboxes_can_be_built_and_nothing_else_gets_out() -> None:
    states = run_attacks("shell", user=os.getuid() == 0, tier="nested")
    done = {name for name, state in states.items() if state == "done"}
    assert {name for name in done if not name.startswith("control")} - POSSIBLE == NESTED


@pytest.mark.landlock
@pytest.mark.slow
@pytest.mark.parametrize("way", ["shell", "terminal", "files"])
def test_landlock_stops_what_it_can(way: str) -> None:
    states = run_attacks(way, user=os.getuid() == 0, tier="landlock")
    done = {name for name, state in states.items() if state == "done"}
    controls = {name for name in states if name.startswith("control")}
    assert controls <= done
    assert done - controls <= POSSIBLE_WITH_LANDLOCK
