"""Writing to standard output and standard error without ever holding up the conversation.

The reader of a pipe may be slow, and a plain `write` would wait for it in the middle of the event
loop. Here text is collected, and a worker thread writes what has come meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from .._config import ColorChoice
from .._nesting import bare_errors
from .text import safe, without_controls, wrapped

ROOM: Final = 1024 * 1024
"""Bytes that may wait before `room` does: beyond, the log merges for us what is not read."""


class Output:
    """A stream that takes text at once. Made by `open_output`.

    When nobody reads it any more, what is written goes nowhere.
    """

    def __init__(self, fd: int, encoding: str, color: ColorChoice) -> None:
        self.is_terminal = os.isatty(fd)
        self.colour = wants_colour(fd, color)
        self.at_line_start = True
        self.count = 0
        """How many times something was written."""
        self.closed = False
        """True when nobody reads it any more."""
        self._fd = fd
        self._encoding = encoding
        self._waiting: list[bytes] = []
        self._size = 0
        self._ending = False
        self._more = trio.Event()
        self._room = trio.Event()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal; of what is none, the usual ones."""
        return terminal_size(self._fd)

    def data(self, data: bytes) -> None:
        """Have bytes written soon; whole lines of them."""
        if data and not self.closed:
            self.count += 1
            self._waiting.append(data)
            self._size += len(data)
            self._more.set()

    def write(self, text: str) -> None:
        """Have text of our own written soon. Never waits."""
        if text:
            self.data(text.encode(self._encoding, "replace"))
            self.at_line_start = text.endswith("\n")

    def say(self, text: str) -> None:
        """The same for running text of an agent, which has no power here."""
        self.write(safe(text) if self.is_terminal or self.colour else without_controls(text))

    def line(self, text: str = "", *, dim: bool = False) -> None:
        """A line of its own, of our own words; on a terminal broken at spaces."""
        if self.is_terminal:
            text = wrapped(text, self.size[0])
        if dim:
            text = self.dim(text)
        self.write(f"{text}\n" if self.at_line_start else f"\n{text}\n")

    def dim(self, text: str) -> str:
        """Text that matters less."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    @property
    def full(self) -> bool:
        """Whether so much waits that one should wait, too."""
        return self._size > ROOM

    async def room(self) -> None:
        """Wait until it is not full any more. Cancelling it changes nothing."""
        while self.full and not self.closed:
            self._room = trio.Event()
            await self._room.wait()

    async def _run(self, on_closed: Callable[[OSError], None]) -> None:
        while not (self._ending and not self._waiting):
            await self._more.wait()
            self._more = trio.Event()
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not data:
                continue
            try:
                # Left to itself when cancelled: a reader who never reads must not keep us here.
                await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
            except OSError as error:  # a broken pipe, a terminal that is gone, a full disk
                self.closed = True
                self._waiting.clear()
                self._room.set()
                on_closed(error)
                return
            self._size -= len(data)
            if not self.full:
                self._room.set()

    def _write(self, data: bytes) -> None:
        # Not through `sys.stdout`: its lock would hang the interpreter's end.
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _end(self) -> None:
        self._ending = True
        self._more.set()


@asynccontextmanager
async def open_output(
    fd: int,
    *,
    encoding: str = "utf-8",
    color: ColorChoice = "auto",
    on_closed: Callable[[OSError], None] = lambda error: None,
) -> AsyncIterator[Output]:
    """An `Output` on a descriptor. Leaving the block normally writes out what waits; by an error
    or a cancellation it gives up what waits. `on_closed` gets the reason for
    it, where nothing can be written any more."""
    output = Output(fd, encoding, color)
    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(output._run, on_closed)
        yield output
        output._end()


def terminal_size(fd: int) -> tuple[int, int]:
    """Columns and rows of the terminal on a descriptor, or the usual ones."""
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


def encoding_of(stream: object) -> str:
    """The encoding that a standard stream was set to."""
    return getattr(stream, "encoding", None) or "utf-8"


def forget_stdout() -> None:
    """After a broken pipe: keep the interpreter from complaining about it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    os.close(null)


def wants_colour(fd: int, color: ColorChoice) -> bool:
    """Whether there are to be colours on a descriptor."""
    if color == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return os.isatty(fd) and not plain
    return color == "always"
