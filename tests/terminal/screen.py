"""A terminal whose screen can be read, as a person reads it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyte
from program import COMMAND, FAST_DEMO, PATIENCE, SIZE, Program, T, Terminal, on_terminal

READY = r"● ready"
ASLEEP = r"● paused"
"""The line below the prompt while nothing runs."""

ENTER = "\r"
ESCAPE = "\x1b"
ALT_ENTER = ESCAPE + ENTER
CTRL_J = "\n"
UP, DOWN = "\x1b[A", "\x1b[B"
ALT_UP = "\x1b\x1b[A"
SHIFT_TAB = "\x1b[Z"
BACKSPACE = "\x7f"


def paste(text: str) -> str:
    """What a terminal sends for text that is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


class Screen(Terminal):
    """A terminal of 100 columns with its scrollback."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(master, process)
        rows, columns = SIZE
        self.emulator = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.emulator)

    def _read(self, patience: float) -> bool:
        before = len(self.raw)
        alive = super()._read(patience)
        if len(self.raw) > before:
            self._stream.feed(self.raw[before:])
        return alive

    @property
    def text(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self.emulator.display).rstrip()

    @property
    def everything(self) -> str:
        """The same below all that has scrolled out of it."""
        past = [
            "".join(line[x].data for x in range(self.emulator.columns)).rstrip()
            for line in self.emulator.history.top
        ]
        return "\n".join([*past, self.text])

    def until(self, *patterns: str, gone: str | None = None) -> str:
        """Wait until all patterns are found on the screen, and `gone` is not; the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.text
            missing = [p for p in patterns if not re.search(p, text, re.MULTILINE)]
            if not missing and (gone is None or not re.search(gone, text, re.MULTILINE)):
                return text
            left = deadline - time.monotonic()
            assert left > 0, f"{missing or gone!r}:\n{text}"
            assert self._read(min(left, 0.5)), f"{missing or gone!r} before the end:\n{text}"

    def until_told(self, pattern: str) -> str:
        """Wait until this has been shown, even if it has scrolled out of the screen since."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, text := self.everything, re.MULTILINE):
            assert time.monotonic() < deadline, f"{pattern!r}:\n{text[-3000:]}"
            assert self._read(0.5), f"{pattern!r} before the end:\n{text[-3000:]}"
        return text

    def drain(self) -> None:
        """Read what is there."""
        while select.select([self.master], [], [], 0)[0] and self._read(0):
            pass

    def enter(self, text: str) -> None:
        """Type a line and Enter, as two keystrokes: a paste would be something else."""
        self.type(text)
        self.type(ENTER)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.drain()
        self.emulator.resize(rows, columns)

    def is_restored(self) -> bool:
        """Whether the terminal's settings are what they were, and its cursor is seen."""
        return (
            termios.tcgetattr(self.master) == self.settings
            and pyte.modes.DECTCEM in self.emulator.mode
            and (2004 << 5) not in self.emulator.mode
        )


@contextmanager
def on_screen(
    program: Program,
    *arguments: str,
    kind: Callable[[int, subprocess.Popen[bytes]], T] = Screen,  # type: ignore[assignment]
) -> Iterator[T]:
    """The program on a screen."""
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"}
    env["TERM"] = "xterm-256color"
    command = [*COMMAND, *arguments]
    with on_terminal(command, kind, cwd=program.folder, env=env) as screen:
        yield screen


@contextmanager
def talking(program: Program, *arguments: str) -> Iterator[Screen]:
    """A conversation with the demo agent that has begun."""
    with on_screen(program, *(arguments or FAST_DEMO)) as screen:
        screen.until(READY)
        yield screen


def processes_of(pid: int) -> list[int]:
    """Whether a process group lives: the processes in it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getpgid(int(name)) == pid:
                    found.append(int(name))
            except OSError:
                continue
    return found
