"""Writing to standard output and standard error without blocking the event loop.

The reader of a pipe may be slow, and a plain `write` would wait for it in the middle of the event
loop. So the text is buffered, and a worker thread writes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from .._base.nesting import bare_errors
from ..config import ColorChoice
from .text import safe, without_controls, wrapped

BUFFER_BYTES: Final = 1024 * 1024
"""Bytes in the buffer above which `room` waits; then the log merges the unread events for us."""


class Output:
    """A stream that buffers text immediately. Create one with `open_output`.

    Text is discarded once the stream has no reader.
    """

    def __init__(self, fd: int, encoding: str, color: ColorChoice) -> None:
        self.is_terminal = os.isatty(fd)
        self.colour = wants_colour(fd, color)
        self.at_line_start = True
        self.count = 0
        """The number of writes."""
        self.closed = False
        """True once the stream has no reader."""
        self._fd = fd
        self._encoding = encoding
        self._waiting: list[bytes] = []
        self._size = 0
        self._ending = False
        self._more = trio.Event()
        self._room = trio.Event()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal; the usual values if it is not a terminal."""
        return terminal_size(self._fd)

    def data(self, data: bytes) -> None:
        """Queue bytes for writing, as complete lines."""
        if data and not self.closed:
            self.count += 1
            self._waiting.append(data)
            self._size += len(data)
            self._more.set()

    def write(self, text: str) -> None:
        """Queue agentrt's own text for writing. Never waits."""
        if text:
            self.data(text.encode(self._encoding, "replace"))
            self.at_line_start = text.endswith("\n")

    def say(self, text: str) -> None:
        """Queue running text of an agent, without control characters on a terminal."""
        self.write(safe(text) if self.is_terminal or self.colour else without_controls(text))

    def line(self, text: str = "", *, dim: bool = False) -> None:
        """Queue agentrt's own text as a separate line; on a terminal it is wrapped at spaces."""
        if self.is_terminal:
            text = wrapped(text, self.size[0])
        if dim:
            text = self.dim(text)
        self.write(f"{text}\n" if self.at_line_start else f"\n{text}\n")

    def dim(self, text: str) -> str:
        """Return the text as less important, if colours are used."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    @property
    def full(self) -> bool:
        """True if the buffer is so large that the caller should wait."""
        return self._size > BUFFER_BYTES

    async def room(self) -> None:
        """Wait until it is not full any more. Cancelling this changes nothing."""
        while self.full and not self.closed:
            self._room = trio.Event()
            await self._room.wait()

    async def _run(self, on_closed: Callable[[OSError], None]) -> None:
        """Write what is waiting, in a thread, until the end is reached and nothing is waiting.

        `on_closed` is called after an error; later output is discarded. A write that never returns
        is abandoned at cancellation.
        """
        while not (self._ending and not self._waiting):
            await self._more.wait()
            self._more = trio.Event()
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not data:
                continue
            try:
                # Abandoned when cancelled, so that a reader that never reads cannot block the exit.
                await trio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
            except OSError as error:  # a broken pipe, a terminal that disappeared, a full disk
                self.closed = True
                self._waiting.clear()
                self._room.set()
                on_closed(error)
                return
            self._size -= len(data)
            if not self.full:
                self._room.set()

    def _write(self, data: bytes) -> None:
        # Not through `sys.stdout`: its lock would block the end of the interpreter.
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
    """Open an `Output` on a descriptor.

    Leaving the block normally writes the buffer; an error or a cancellation discards it.
    `on_closed` is called with the error if the stream cannot be written any more.
    """
    output = Output(fd, encoding, color)
    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(output._run, on_closed)
        yield output
        output._end()


def terminal_size(fd: int) -> tuple[int, int]:
    """Return the columns and rows of the terminal on a descriptor, or the usual values."""
    try:
        columns, rows = os.get_terminal_size(fd)
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


def encoding_of(stream: object) -> str:
    """Return the encoding of a standard stream."""
    return getattr(stream, "encoding", None) or "utf-8"


def forget_stdout() -> None:
    """Redirect standard output after a broken pipe, so that the interpreter's exit reports no
    error.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    os.close(null)


def wants_colour(fd: int, color: ColorChoice) -> bool:
    """Return True if a descriptor gets colours."""
    if color == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return os.isatty(fd) and not plain
    return color == "always"
