"""Texts of every kind of message are powerless on a terminal, whatever the agent puts in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from program import PATIENCE, Program, Terminal
from screen import READY, on_screen

from everything.marks import CLAUDE, CODEX

AGENTS = Path(__file__).parents[1] / "everything"
HOSTILE = "\x1b[2Jwiped\x1b]0;owned\x07\x9b41mred\u202eturned\u200bhidden"
"""Clears the screen, sets the title, colours by a C1 code, turns text around, and is invisible."""

RAW = re.compile("\x1b\\[2Jwiped|\x1b\\]0;owned|\x07|[\x80-\x9f\u202e]")
"""What a terminal must not get of it. Zero-width characters are a part of running text."""
CLEARED = {"tool-output", "agent-output", "picture-text", "linked-name", "resource-text"}
"""Output of calls is laid out as on a terminal: the hostile text clears it, and only it."""
FOLDED = CLEARED | {"tool-progress", "structured-value", "draw-subject"}
"""Progress is a line of output. The others are shown on request."""
TYPED = {"new-command"}
"""Shown when it is typed."""
IN_LINES = FOLDED | TYPED | {"streamed-input", "was-old", "is-new", "search-result"}
"""Line mode shows the start of a call and no details."""
PACE_S = 0.3
"""Time in which the terminal shows a text that the next step replaces."""
MARKS = {"claude": CLAUDE, "codex": CODEX}

HINTS = {"claude": "hint-words", "codex": "warning-words"}
"""Marks of notices."""


def agent_of(name: str, pipe: Path) -> tuple[str, ...]:
    """Return the options for an agent that sends a message of every kind, with hostile text."""
    os.mkfifo(pipe)
    script = str(AGENTS / f"{name}_agent.py")
    command = [sys.executable, script, str(pipe), json.dumps(HOSTILE)]
    return ("--protocol", name, "--command", shlex.join(command))


def marks_of(name: str) -> set[str]:
    """Return the marks that are shown as the agent sent them."""
    marks = {mark for step in MARKS[name] for mark in step}
    return {mark for mark in marks if re.fullmatch(r"[a-z-]+", mark)}


def take_steps(name: str, pipe: Path, it: Terminal) -> None:
    """Let the agent take its steps, each one after the terminal was read for a while."""
    with pipe.open("wb", buffering=0) as steps:
        for _ in MARKS[name]:
            steps.write(b".")
            it.read_for(PACE_S)


def powerless(raw: bytes, name: str) -> set[str]:
    """Check that nothing of the hostile text was sent raw; return the marks that were sent."""
    text = raw.decode(errors="replace")
    found = RAW.search(text)
    assert found is None, text[max(0, found.start() - 200) : found.end() + 50]
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    return {mark for mark in marks_of(name) if mark in text}


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKS)
def test_on_a_screen(name: str, program: Program, tmp_path: Path) -> None:
    pipe = tmp_path / "steps"
    with on_screen(program, *agent_of(name, pipe)) as it:
        it.until(READY)
        it.enter("Say everything.")
        take_steps(name, pipe, it)
        it.until("last-words", READY)
        it.ctrl("o")  # the details of the calls
        it.until("structured result")
        it.until(READY)
        it.enter("/tasks")
        it.enter("/debug")
        it.until_told("process  ")
        it.ctrl("d")
        it.ended()
    assert powerless(it.raw, name) >= marks_of(name) - FOLDED - TYPED


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKS)
def test_in_line_mode(name: str, program: Program, tmp_path: Path) -> None:
    pipe = tmp_path / "steps"
    with program.terminal(*agent_of(name, pipe)) as it:
        it.expect("Ctrl-D quit")
        it.line("Say everything.")
        take_steps(name, pipe, it)
        it.expect("last-words")
        it.ctrl("d")
        it.ended()
    assert powerless(it.raw, name) >= marks_of(name) - IN_LINES


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize("name", MARKS)
def test_an_answer_on_a_terminal(name: str, form: str, program: Program, tmp_path: Path) -> None:
    pipe = tmp_path / "steps"
    options = (*agent_of(name, pipe), "-p", "Say everything.", "--output-format", form)
    with program.terminal(*options) as it:
        take_steps(name, pipe, it)
        it.ended()
    assert {"last-words", HINTS[name]} <= powerless(it.raw, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKS)
def test_an_answer_in_a_pipe(name: str, program: Program, tmp_path: Path) -> None:
    pipe = tmp_path / "steps"
    options = (*agent_of(name, pipe), "-p", "Say everything.")
    with program.start(*options, stdin=subprocess.DEVNULL) as process:
        with pipe.open("wb", buffering=0) as steps:
            steps.write(b"." * len(MARKS[name]))
        out, err = process.communicate(timeout=PATIENCE)
    assert HINTS[name] in powerless(err, name)
    turned = "\u202e".encode()  # characters that turn text around stay: a file is no terminal
    assert "last-words" in powerless(out.replace(turned, b""), name)


@pytest.fixture(scope="module")
def in_hostile_folder(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program in a folder in which it has run; the commands only read."""
    program = Program(tmp_path_factory.mktemp("hostile"))
    program.folder = program.folder / HOSTILE
    program.folder.mkdir()
    (program.folder / ".mcp.json").write_text(
        json.dumps({"mcpServers": {HOSTILE: {"command": HOSTILE}}})
    )
    program.demo("write a file", "--audit", "audit.jsonl", "--checkpoints", status=None)
    return program


@pytest.mark.parametrize(
    "command",
    [
        ("trust", "show", "--json"),
        ("doctor", "--project", ".", "--json"),
        ("doctor", "--json"),
        ("checkpoints", "list", "--json"),
        ("audit", "--file", "audit.jsonl", "--json"),
        ("rules", "check", "Bash(rm:*)", f"echo {HOSTILE}", "--json"),
        ("sessions", "--json"),
        ("config", "--json"),
        ("agents", "--json"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_json_of_a_hostile_folder(command: tuple[str, ...], in_hostile_folder: Program) -> None:
    done = in_hostile_folder.run(*command, status=None)
    json.loads(done.stdout.splitlines()[0] if command[0] == "audit" else done.stdout)
    assert not RAW.search(done.stdout + done.stderr)
