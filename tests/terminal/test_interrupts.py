"""Ctrl-C, pressed several times at any moment: the program ends with its documented status."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from program import FAST_DEMO, PATIENCE, Program, Terminal
from screen import Screen, on_screen
from test_serve import serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

MARK = "AGENTRT_TEST_INTERRUPTED"
"""The variable that all processes of one program have."""


def alive(mark: str) -> list[str]:
    """The processes with this mark that have not ended, by their commands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def wait_for_handlers(process: subprocess.Popen[bytes]) -> None:
    """Wait until the program has its handlers, or has ended: before that, the interpreter is
    loaded, and has one for SIGINT only.
    """
    deadline = time.monotonic() + PATIENCE
    caught = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)
    while process.poll() is None:
        found = caught.search(Path(f"/proc/{process.pid}/status").read_text())
        if found is not None and int(found[1], 16) & 1 << signal.SIGHUP - 1:
            return
        assert time.monotonic() < deadline, "it is not loaded"
        time.sleep(0.01)


def interrupt(process: subprocess.Popen[bytes], pause: Callable[[], None]) -> int:
    """Send SIGINT again and again until the process has ended; its exit status."""
    wait_for_handlers(process)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline, "it does not end"
        process.send_signal(signal.SIGINT)
        pause()
    return process.returncode


@contextmanager
def marked(program: Program) -> Iterator[None]:
    """The program and its children are started in a new process, and are gone after the block."""
    program.fresh = True
    mark = program.env[MARK] = uuid.uuid4().hex
    yield
    deadline = time.monotonic() + PATIENCE
    while left := alive(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def at_a_terminal(terminal: Terminal, pause_s: float) -> None:
    """Interrupt a program on a terminal to its end, and look at what it leaves."""
    status = interrupt(terminal.process, lambda: terminal.read_for(pause_s))
    terminal.ended()  # a busy machine shows the last of it later
    assert (status, "Traceback" in terminal.shown) == (130, False), terminal.shown
    if isinstance(terminal, Screen):
        assert terminal.is_restored()


SEEDS = range(12)
PAUSES = (0.001, 0.02, 0.1, 0.4)
"""Seconds between two interrupts: a key that is held down repeats 30 times a second, and a
program may be quicker."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prompt_ends_with_its_status(program: Program, seed: int) -> None:
    moments = random.Random(seed)
    after, pause = moments.uniform(0.0, 2.0), moments.choice(PAUSES)
    with (
        marked(program),
        program.start(*FAST_DEMO, "-p", "/slow 600", stdin=subprocess.DEVNULL) as process,
    ):
        time.sleep(after)
        status = interrupt(process, lambda: time.sleep(pause))
        out, err = process.communicate()
    assert (status, b"Traceback" in out + err) == (130, False), (after, pause, err)


@pytest.mark.parametrize("prompt", ["/slow 600", "/stubborn 600", "!sleep 600", ""])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_conversation_line_by_line_ends_with_its_status(
    program: Program, prompt: str, seed: int
) -> None:
    moments = random.Random(f"{prompt} {seed}")
    pause = moments.choice(PAUSES)
    with marked(program), program.terminal(*FAST_DEMO) as terminal:
        terminal.expect("> ")
        terminal.line(prompt)
        terminal.read_for(moments.uniform(0.0, 1.0))
        at_a_terminal(terminal, pause)


@pytest.mark.parametrize("prompt", ["/slow 600", "/stubborn 600", "!sleep 600", ""])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_screen_ends_with_its_status_and_restores_the_terminal(
    program: Program, prompt: str, seed: int
) -> None:
    moments = random.Random(f"{prompt} {seed}")
    pause = moments.choice(PAUSES)
    with marked(program), on_screen(program, *FAST_DEMO) as screen:
        if seed % 2:  # while the agent is started, too
            screen.until("● ready")
            screen.enter(prompt)
        screen.read_for(moments.uniform(0.5, 1.5))
        at_a_terminal(screen, pause)


@pytest.mark.parametrize("seed", SEEDS[:4])
@pytest.mark.parametrize("once", [True, False])
def test_an_attached_terminal_ends_with_its_status(program: Program, seed: int, once: bool) -> None:
    moments = random.Random(seed)
    pause = moments.choice(PAUSES)
    with serving(program, *FAST_DEMO) as served, marked(program):
        served.link()
        arguments = ("-p", "/slow 600") if once else ()
        with program.terminal("attach", "--agent", "demo", *arguments) as terminal:
            terminal.read_for(moments.uniform(0.6, 2.0))
            at_a_terminal(terminal, pause)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_subcommand_ends_with_its_status(program: Program, seed: int) -> None:
    moments = random.Random(seed)
    command = moments.choice([["sessions"], ["doctor", "--agent", "demo"], ["agents"], ["serve"]])
    with marked(program), program.start(*command, stdin=subprocess.DEVNULL) as process:
        wait_for_handlers(process)
        time.sleep(moments.uniform(0.0, 1.5))
        for _ in range(moments.randint(1, 5)):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(moments.choice(PAUSES))
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 1, 130), err
    assert b"Traceback" not in out + err
