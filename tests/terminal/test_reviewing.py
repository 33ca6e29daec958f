"""Reviewing a conversation on a screen: changes, the pager, search, copies, earlier prompts."""

from __future__ import annotations

import base64
import re

import pytest
from program import FAST_DEMO, Program
from screen import ENTER, ESCAPE, READY, Screen, talking

pytest.importorskip("prompt_toolkit", reason='pip install "agentrt[repl]"')


RUNS = (*FAST_DEMO, "--permissions", "allow-all", "--no-sandbox")
DONE = "context"
"""In the status line after the first turn."""


def leave(it: Screen) -> None:
    it.until(READY)
    it.ctrl("d")
    assert it.ended() == 0
    assert it.is_restored()


# --- on the screen


@pytest.mark.slow
def test_output_has_its_colours_and_its_rows_are_counted(program: Program) -> None:
    (program.folder / "out.sh").write_text(
        "printf '\\033[38;5;208mwarning\\033[0m: x\\n'\n"
        "printf '1%%\\r2%%\\r3%%\\n'\n"
        "printf %0300d 7\n"
    )
    with talking(program, *RUNS) as it:
        it.enter("run sh out.sh")
        it.until(DONE, READY)
        card = it.everything.partition("✓ execute · Run sh out.sh")[2]
        # 300 digits in rows of 95 columns: 4 rows, and 1 of the 2 others
        assert re.match(
            r"[^\n]*\n  │ … 1 more line, ctrl-o shows it\n  │ 3%\n  │ 0{95}\n.*\n.*\n  │ 0+7\n",
            card,
        )
        it.ctrl("o")
        it.until("^  │ warning: x$")
        assert b"\x1b[33mwarning\x1b[0m" in it.raw
        leave(it)


@pytest.mark.slow
def test_long_output_and_the_whole_conversation_are_shown_in_a_pager(program: Program) -> None:
    with talking(program, *RUNS) as it:
        it.enter("run seq 60")
        it.until(DONE, READY)
        it.ctrl("o")
        it.until(r"\(END\)$", "^  │ 60$")
        it.type("g")
        it.until(r"execute · Run seq 60$", "^  │ 1$")
        it.type("q")
        it.until(READY)
        assert b"\x1b[?1049l" in it.raw  # the pager has given the screen back
        it.ctrl("o")
        it.until("nothing before that was shortened")
        it.ctrl("t")
        it.until(r"\(END\)$")
        it.type("g")
        it.until("^❯ run seq 60$", "^✻ They want to run a command: seq 60", '"command": "seq 60"')
        it.type("q")
        it.until(READY)
        leave(it)


@pytest.mark.slow
def test_a_pager_of_the_user_and_one_that_is_missing(program: Program) -> None:
    program.env["PAGER"] = "cat -n"
    with talking(program, *RUNS) as it:
        it.enter("run seq 60")
        it.until(DONE, READY)
        it.ctrl("o")
        it.until_told(r"^ +1\s+execute · Run seq 60$")
        leave(it)
    program.env["PAGER"] = "no-such-pager"
    with talking(program, *RUNS) as it:
        it.enter("run seq 60")
        it.until(DONE, READY)
        it.ctrl("o")
        it.until_told("the pager: .*no-such-pager")
        it.until("^  │ 60$", READY)  # above the prompt instead
        leave(it)


@pytest.mark.slow
def test_changes_are_shown_with_and_without_checkpoints(program: Program) -> None:
    (program.folder / "a.py").write_text("one = 1\ntwo = 2\n")
    for options in ((), ("--checkpoints",)):
        with talking(program, *RUNS, *options) as it:
            it.enter("edit a.py replace two = 2 by two = 3")
            it.until(DONE, READY)
            before = len(it.raw)
            it.enter("/diff")
            it.until_told(r"^.*a\.py\b.*$")
            it.until(r"^\+two = 3$", READY)
            assert b"\x1b[1;4;32m3\x1b[0m" in it.raw[before:]
            it.enter("/diff x")
            it.until("takes a number of turns")
            leave(it)
        (program.folder / "a.py").write_text("one = 1\ntwo = 2\n")


@pytest.mark.slow
def test_an_answer_is_found_and_copied(program: Program) -> None:
    with talking(program) as it:
        it.enter("/copy")
        it.until("there are 0 answers")
        it.enter("read notes.txt")
        it.until(DONE, READY)
        it.enter("/search SECOND")
        it.until(r"^agent: second line$", READY)
        it.enter("/search nowhere-to-be-found")
        it.until("^Nothing found: nowhere-to-be-found$")
        it.enter("/copy code")
        it.until("characters sent to the terminal's clipboard")
        (copied,) = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", bytes(it.raw))
        assert base64.b64decode(copied) == b"first line\nsecond line"
        leave(it)


@pytest.mark.slow
def test_a_terminal_without_a_clipboard_is_named(program: Program) -> None:
    program.env["VTE_VERSION"] = "6800"
    with talking(program) as it:
        it.enter("read notes.txt")
        it.until(DONE, READY)
        it.enter("/copy")
        it.until("this terminal cannot set the clipboard", "/export FILE")
        assert b"\x1b]52" not in it.raw
        leave(it)


@pytest.mark.slow
def test_an_earlier_prompt_is_edited_in_a_copy_that_ends_before_it(program: Program) -> None:
    with talking(program) as it:
        it.enter("read notes.txt:1")
        it.until("^  first line$", DONE, READY)
        it.enter("read notes.txt:2")
        it.until("^  second line$", READY)
        it.type(ESCAPE + ESCAPE)
        it.until("^❯ /edit 1$", "^  1  read notes.txt:2$", "^  2  read notes.txt:1$")
        it.type(ENTER)
        it.until("^❯ read notes.txt:2\n● ready")
        it.type(" please" + ENTER)
        told = it.until_told("^❯ read notes.txt:2 please$")
        copy = told[told.rindex("agentrt 0.1.0") :]
        assert "❯ read notes.txt:1\n" in copy
        assert "❯ read notes.txt:2\n" not in copy
        it.until(DONE, READY)
        leave(it)


@pytest.mark.slow
def test_the_output_of_an_own_command_is_sent_only_when_asked(program: Program) -> None:
    with talking(program) as it:
        it.enter("/send")
        it.until("with !COMMAND")
        it.enter("!printf '\\033[31mred\\033[0m\\n'; exit 3")
        it.until("^red$", "^exit status 3$", "/send sends this output to the agent", READY)
        it.enter("/send what is that?")
        it.until_told(
            "^❯ what is that\\?\n *\n  Output of `printf .*` .exit status 3.:\n *\n"
            "  ```\n  red\n  ```$"
        )
        it.until(DONE, READY)
        leave(it)
