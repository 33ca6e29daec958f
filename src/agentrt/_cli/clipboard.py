"""The user's clipboard: through a program, tmux, or the terminal itself (OSC 52)."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from typing import Final

import trio

from .exit_status import UsageError

TERMINAL_BYTES: Final = 74_000
"""Bytes that a terminal accepts; xterm's limit is a sequence of 100,000 bytes in base64."""

_WRITERS: Final = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
    ("TMUX", ("tmux", "load-buffer", "-")),
)
"""Programs that take the clipboard, each with the variable that must be set."""
_READERS: Final = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
)


def _programs(table: tuple[tuple[str, tuple[str, ...]], ...]) -> list[tuple[str, ...]]:
    """Return the commands of the table that can be used: in this kind of desktop, and installed."""
    return [
        command
        for variable, command in table
        if os.environ.get(variable) and shutil.which(command[0])
    ]


async def copy(text: str, send: Callable[[str], None]) -> str:
    """Copy a text; returns a description of where it went.

    `send` writes a sequence to the terminal. Raises `UsageError` if there is no clipboard.
    """
    data = text.encode(errors="replace")
    for command in [*_programs(_WRITERS), ("pbcopy",)]:
        try:
            done = await trio.run_process(
                command,
                stdin=data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return f"copied with {command[0]}"
    if (reason := _incapable()) is not None:
        raise UsageError(f"{reason}; /export FILE writes the conversation to a file")
    if len(data) > TERMINAL_BYTES:
        raise UsageError(
            f"{len(data):,} bytes are too much for the terminal's clipboard (at most"
            f" {TERMINAL_BYTES:,}); /export FILE writes the conversation to a file"
        )
    send(f"\x1b]52;c;{b64encode(data).decode()}\x07")
    return "sent to the terminal's clipboard (some terminals do not allow that)"


def _incapable() -> str | None:
    """Return the reason why the terminal cannot set the clipboard, if that is known."""
    env = os.environ
    if env.get("TERM", "dumb") in ("dumb", "linux"):
        return "this terminal has no clipboard"
    if env.get("TERM_PROGRAM") == "Apple_Terminal" or env.get("VTE_VERSION"):
        return "this terminal cannot set the clipboard; install wl-clipboard, xclip or xsel"
    return None


async def pasted_image() -> bytes | None:
    """Return the image in the clipboard as PNG; None if there is none, or no program to read it."""
    for command in _programs(_READERS):
        try:
            done = await trio.run_process(
                command, capture_stdout=True, stderr=subprocess.DEVNULL, check=False
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return None
