"""A real terminal, driven as a person drives it: tmux, with a server and a socket of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0
"""Seconds for anything that is waited for: agents may take long to start."""

MISSING = "tmux is not installed: apt-get install tmux"


def has_tmux() -> bool:
    return shutil.which("tmux") is not None


class Tmux:
    """A window with a program in it."""

    def __init__(self, socket: Path) -> None:
        self._command = ("tmux", "-S", str(socket), "-f", "/dev/null")

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """What is seen now."""
        lines = self.run("capture-pane", "-p", "-t", "it").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip()

    @property
    def everything(self) -> str:
        """The same, and what has scrolled out of it."""
        return self.run("capture-pane", "-p", "-J", "-S", "-", "-t", "it")

    def until(self, *patterns: str, gone: str | None = None) -> str:
        """Wait until all patterns are found on the screen, and `gone` is not; the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.screen
            missing = [p for p in patterns if not re.search(p, text, re.MULTILINE)]
            if not missing and (gone is None or not re.search(gone, text, re.MULTILINE)):
                return text
            assert time.monotonic() < deadline, f"{missing or gone!r}:\n{text}"
            time.sleep(0.05)  # there is nothing to wait for but another look

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", "-t", "it", text)

    def key(self, *names: str) -> None:
        """Keys by tmux's names: `Enter`, `C-c`, `M-Up`."""
        self.run("send-keys", "-t", "it", *names)

    def enter(self, text: str) -> None:
        self.type(text)
        self.key("Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Returns when the program has been sent the size: tmux does so once in 250 ms."""
        self.run("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))
        terminal = self.run("display-message", "-p", "-t", "it", "#{pane_tty}").strip()
        deadline = time.monotonic() + PATIENCE
        while _size(terminal) != (columns, rows):
            assert time.monotonic() < deadline, f"its size stays {_size(terminal)}"
            time.sleep(0.02)


def _size(terminal: str) -> tuple[int, int]:
    with open(terminal) as tty:
        return tuple(os.get_terminal_size(tty.fileno()))


@contextmanager
def in_tmux(
    folder: Path,
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    size: tuple[int, int] = (100, 30),
) -> Iterator[Tmux]:
    """A window of its own with a command in it; when that ends, its status is shown and the
    window stays."""
    tmux = Tmux(folder / "tmux")
    columns, rows = map(str, size)
    words = shlex.join(["env", "-i", *(f"{k}={v}" for k, v in env.items()), *command])
    line = f"{words}; echo exit status $?; exec sleep 600"
    tmux.run("new-session", "-d", "-s", "it", "-x", columns, "-y", rows, "-c", str(cwd), line)
    try:
        yield tmux
    finally:
        tmux.run("kill-server")
