"""Undoing a turn's files from the command line and in a conversation."""

from __future__ import annotations

import json

import pytest
from program import FAST_DEMO, Program
from test_repl import PROMPT, talking

WRITE = (
    "run echo changed > notes.txt",
    "--permissions",
    "allow-all",
    "--no-sandbox",
    "--checkpoints",
)


@pytest.mark.slow
def test_the_command_line_lists_compares_and_restores(program: Program) -> None:
    program.demo(*WRITE)
    notes = program.folder / "notes.txt"
    assert notes.read_text() == "changed\n"
    before, after = json.loads(program.run("checkpoints", "--json").stdout)
    assert [before["when"], after["when"]] == ["before", "after"]
    assert "-first line\n" in program.run("checkpoints", "diff", str(before["number"])).stdout
    done = program.run("checkpoints", "restore", str(before["number"]))
    assert done.stdout == "modified  notes.txt\n"
    assert notes.read_text() == "first line\nsecond line\n"
    undo = done.stderr.strip().removeprefix("to undo this: agentrt ").split()
    program.run(*undo)
    assert notes.read_text() == "changed\n"


def test_a_checkpoint_that_does_not_exist_is_an_error(program: Program) -> None:
    assert program.run("checkpoints").stderr.startswith("no checkpoints of ")
    done = program.run("checkpoints", "restore", "7", status=2)
    assert "no checkpoint 7" in done.stderr


@pytest.mark.slow
def test_undo_and_diff_in_a_conversation(program: Program) -> None:
    options = (*FAST_DEMO, "--permissions", "allow-all", "--no-sandbox", "--checkpoints")
    with talking(program, *options) as it:
        it.line("run echo changed > notes.txt")
        it.expect("1 file changed during this turn")
        it.line("/diff")
        it.expect("+changed")
        it.expect(PROMPT)
        it.line("/undo")
        it.expect("restored to checkpoint 1")
        it.expect(PROMPT)
        assert (program.folder / "notes.txt").read_text() == "first line\nsecond line\n"
        it.line("/undo 5")
        it.expect("there are checkpoints of 1 turns")
        it.line("/undo x")
        it.expect("takes a number of turns")


@pytest.mark.slow
def test_undo_without_checkpoints_says_how_to_get_them(program: Program) -> None:
    with talking(program) as it:
        it.line("/undo")
        it.expect("without checkpoints")
        it.line("/quit")
        assert it.ended() == 0
