"""A question of a sandbox in a conversation, and the permission that `/sandbox` takes back."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest
from program import Program
from test_attach import with_session
from test_repl import INERT, PROMPT, talking

AGENT = Path(__file__).parents[1] / "sandbox" / "shell_agent.py"


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_folder_is_allowed_shown_and_taken_back(program: Program) -> None:
    outside = program.folder.parent / "outside"
    outside.mkdir()
    command = shlex.join([sys.executable, "-I", "-S", str(AGENT)])
    with talking(program, "--command", command, "--sandbox") as it:
        it.line(f"write {outside / 'new'}")
        it.expect("tool: Write")
        it.expect("y/a/n? ")
        time.sleep(INERT)
        it.line("a")
        it.expect('"result"')
        it.expect(PROMPT)
        it.line("/sandbox")
        it.expect("sandbox: workspace, 1 allowed")
        it.expect("allowed  Write")
        it.line("/sandbox revoke nothing")
        it.expect("no permission is for 'nothing'")
        it.line(f"/sandbox revoke {outside}")
        it.expect("no longer allowed")
        it.line("/sandbox narrow")
        it.expect("/sandbox revoke TARGET")
        it.line(f"shell cat {outside}/new")
        it.expect("No such file")
    assert (outside / "new").read_text() == "x"


@pytest.mark.sandbox
@pytest.mark.slow
def test_an_attached_terminal_takes_a_permission_back(program: Program) -> None:
    with with_session(program, "--sandbox") as (_, it):
        it.expect(PROMPT)
        it.line("run curl -s http://new.invalid/")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("y")
        it.expect("Connect to new.invalid:80")
        it.expect("y/a/n")
        time.sleep(INERT)
        it.line("a")
        it.expect("The command ended with status")
        it.expect(PROMPT)
        it.line("/sandbox revoke other.invalid:80")
        it.expect("no permission is for 'other.invalid:80'")
        it.line("/sandbox revoke new.invalid:80")
        it.expect("no longer allowed: new.invalid:80")
