"""The screen in a real terminal: what an emulator in the tests might forgive."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from program import COMMAND, FAST_DEMO, Program
from tmux import MISSING, Tmux, has_tmux, in_tmux

pytestmark = pytest.mark.skipif(not has_tmux(), reason=MISSING)

READY = "● ready"


@contextmanager
def window(program: Program, folder: Path, *arguments: str, **options: Any) -> Iterator[Tmux]:
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env |= {"TERM": "tmux-256color", "LANG": "C.UTF-8"}
    command = [*COMMAND, *(arguments or FAST_DEMO)]
    with in_tmux(folder, command, cwd=program.folder, env=env, **options) as tmux:
        tmux.until(READY)
        yield tmux


@pytest.fixture
def tmux(program: Program, tmp_path: Path) -> Iterator[Tmux]:
    with window(program, tmp_path) as tmux:
        yield tmux


@pytest.mark.slow
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


@pytest.mark.slow
def test_rows_that_a_narrower_window_breaks_are_not_left_behind(
    program: Program, tmp_path: Path
) -> None:
    # Nothing moves here, and each size is waited for, and time given to draw to it: what a program
    # writes for one size while tmux has another lands where tmux has moved it.
    with window(program, tmp_path) as tmux:
        tmux.enter("/flood 60")  # of an empty window tmux moves what is at the top out of reach
        tmux.until("^line 60$", READY)
        words = [f"word{n}" for n in range(60)]
        tmux.type(" ".join(words))
        tmux.until("word59$", READY)
        for columns in (80, 55, 90, 60, 100, 45):
            tmux.resize(columns, 30)
            drawn = rf"^❯ .{{{columns - 4},{columns}}}\n  .{{{columns - 6},{columns}}}$"
            tmux.until(drawn, READY)
            time.sleep(1.0)  # tmux breaks rows as the program does: no look tells them apart
        assert re.findall(r"word\d+", "".join(tmux.everything.split("\n  "))) == words


@pytest.mark.slow
def test_a_small_window_shows_the_prompt_and_what_is_asked(
    program: Program, tmp_path: Path
) -> None:
    with window(program, tmp_path, size=(20, 5)) as tmux:
        tmux.enter("create a.txt with x")
        tmux.until(r"^Enter/d\?", "needs your answer")
        for _ in range(20):
            if re.search(r"^y/a/n/x\?", tmux.screen, re.MULTILINE):
                break
            tmux.key("Enter")
            tmux.until("")
        tmux.enter("y")
        tmux.until("^❯$", READY)
        assert "Create a.txt" in tmux.everything
    assert (program.folder / "a.txt").read_text() == "x\n"


def test_the_scrollback_has_each_line_once_and_no_prompts(tmux: Tmux) -> None:
    tmux.run("set-option", "-g", "history-limit", "10000")
    tmux.enter("/flood 1500")
    tmux.until("^line 1500$", READY)
    told = tmux.everything
    lines = [line for line in told.split("\n") if line.startswith("line ")]
    assert lines == [f"line {n}" for n in range(1, 1501)]
    assert told.count("working") == 0
    assert told.count("● ready") == 1


@pytest.mark.slow
def test_the_shell_gets_its_terminal_back(tmux: Tmux) -> None:
    tmux.enter("list the files")
    tmux.until("notes.txt", READY)
    tmux.key("C-d")
    text = tmux.until("^exit status 0$")
    assert "❯ list the files" in text
    assert READY not in text


@pytest.mark.slow
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
