"""The screen in a real terminal: what an emulator in the tests might forgive."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from program import COMMAND, FAST_DEMO, Program, odd
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


def test_a_size_that_changes_while_it_streams_doubles_nothing(
    program: Program, tmp_path: Path
) -> None:
    with window(program, tmp_path, *odd("streams")) as tmux:
        tmux.enter("go")
        tmux.until("^word0 ")
        for columns in (90, 75, 60, 80, 100, 85, 70, 50):
            tmux.resize(columns, 30)
            time.sleep(0.3)  # of several changes within 250 ms tmux tells the program one, late
            last = re.findall(r"word(\d+) ", tmux.screen)[-1]
            tmux.until("^❯$", "working", gone=rf"word{last} ?\n\n")
        tmux.key("C-c")
        tmux.until("^— cancelled$", READY)
        words = re.findall(r"\bword(\d+)\b", tmux.everything)
        assert words == [str(n) for n in range(len(words))]


def test_a_small_window_shows_the_prompt_and_what_is_asked(
    program: Program, tmp_path: Path
) -> None:
    with window(program, tmp_path, size=(20, 5)) as tmux:
        tmux.enter("create a.txt with x")
        tmux.until(r"^Enter/d\?", "waits for you")
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
