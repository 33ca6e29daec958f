"""The screen in a real terminal: what an emulator in the tests might forgive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from program import COMMAND, FAST_DEMO, Program
from tmux import MISSING, Tmux, has_tmux, in_tmux

pytestmark = pytest.mark.skipif(not has_tmux(), reason=MISSING)

READY = "● ready"


@pytest.fixture
def tmux(program: Program, tmp_path: Path) -> Iterator[Tmux]:
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env |= {"TERM": "tmux-256color", "LANG": "C.UTF-8"}
    command = [*COMMAND, *FAST_DEMO]
    with in_tmux(tmp_path, command, cwd=program.folder, env=env) as tmux:
        tmux.until(READY)
        yield tmux


def test_another_size_is_drawn_to_and_nothing_is_lost(tmux: Tmux) -> None:
    tmux.enter("read notes.txt")
    tmux.until("^  second line$", READY)
    tmux.enter("/slow 600")
    tmux.type("a draft")
    tmux.until("^❯ a draft$", "Say nothing")
    for columns, rows in ((60, 20), (120, 40), (40, 16), (100, 30)):
        tmux.resize(columns, rows)
        tmux.type("!")
        tmux.until("^❯ a draft!+$", "Say nothing", "working")
    tmux.key("C-c")
    tmux.until("^— cancelled$", "^❯ a draft!!!!$", READY)
    told = tmux.everything
    assert told.count("first line") == told.count("second line") == 1
    assert told.count("❯ read notes.txt") == 1


def test_the_scrollback_has_each_line_once_and_no_prompts(tmux: Tmux) -> None:
    tmux.run("set-option", "-g", "history-limit", "10000")
    tmux.enter("/flood 1500")
    tmux.until("^line 1500$", READY)
    told = tmux.everything
    lines = [line for line in told.split("\n") if line.startswith("line ")]
    assert lines == [f"line {n}" for n in range(1, 1501)]
    assert told.count("working") == 0
    assert told.count("● ready") == 1


def test_the_shell_gets_its_terminal_back(tmux: Tmux) -> None:
    tmux.enter("list the files")
    tmux.until("notes.txt", READY)
    tmux.key("C-d")
    text = tmux.until("^exit status 0$")
    assert "❯ list the files" in text
    assert READY not in text


def test_it_can_be_suspended_and_gone_on_with(program: Program, tmp_path: Path) -> None:
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env |= {"TERM": "tmux-256color", "LANG": "C.UTF-8", "PS1": "shell> "}
    shell = ["bash", "--norc", "-i"]
    with in_tmux(tmp_path, shell, cwd=program.folder, env=env) as tmux:
        tmux.until("^shell>$")
        tmux.enter(" ".join([*COMMAND, *FAST_DEMO]))
        tmux.until(READY)
        tmux.type("a draft")
        tmux.until("^❯ a draft$")
        tmux.key("C-z")
        tmux.until("Stopped", "^shell>$", gone=READY)
        tmux.enter("echo $((6 * 7))")
        tmux.until("^42$")
        tmux.enter("fg")
        tmux.until("^❯ a draft$", READY)
        tmux.type(" goes on")
        tmux.until("^❯ a draft goes on$")
        tmux.key("C-c", "C-c")
        tmux.until("^shell>$", gone=READY)
