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

ROWS = {"shell": 76, "terminal": 76, "files": 23}
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


def run_attacks(way: str, *, user: bool) -> dict[str, str]:
    """Run the table, and return the state of each row."""
    command = [sys.executable, str(HERE / "escape.py"), way]
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
