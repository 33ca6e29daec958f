"""The standard streams: the answer on standard output, everything else on standard error, and lines
from standard input.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import trio

from ..config import ColorChoice
from ..errors import AgentrtError, AgentStartError
from ..events import JsonObject
from .command_output import laid_out
from .output import Output, encoding_of, open_output
from .text import plain

STDERR_LINES: Final = 12
"""Lines of an agent's standard error that are quoted."""

LAST_OUTPUT_S: Final = 1.0
"""Seconds that a reader of the output still has when the program must exit."""


class Console:
    """Standard output and standard error.

    `out` and `err` are the same object if both are the same terminal, so that lines stay whole.
    """

    def __init__(self, out: Output, err: Output) -> None:
        self.out = out
        self.err = err

    @property
    def shared(self) -> bool:
        return self.out is self.err

    def interrupted(self) -> None:
        """Handle Ctrl-C: the terminal has written `^C` into the line."""
        self.err.at_line_start &= not self.err.is_terminal

    def end(self) -> None:
        """End the current line, so that a shell's prompt starts on a new one."""
        for output in (self.out, self.err):
            if output.is_terminal and not output.at_line_start:
                output.write("\n")

    def report(self, text: str, stderr: str = "") -> None:
        """Show a line for the user, followed by the end of the agent's standard error."""
        self.err.line(f"agentrt: {plain(text)}")
        for line in quoted(stderr):
            self.err.line(line)

    def report_error(self, error: AgentrtError) -> None:
        """Show an error in one line, with the agent's standard error if it did not start."""
        if isinstance(error, AgentStartError):
            self.report(str(error).partition("\n---")[0], error.stderr)
        else:
            self.report(str(error))


def quoted(stderr: str) -> list[str]:
    """Return the end of an agent's standard error, marked as its output."""
    return [f"  │ {line}" for line in laid_out(stderr).strip().splitlines()[-STDERR_LINES:]]


def stderr_of(data: object) -> str:
    """Return the end of a dead agent's standard error from the data of its error."""
    fields: JsonObject = data if isinstance(data, dict) else {}
    return str(fields.get("stderr") or "")


@asynccontextmanager
async def open_console(
    on_closed: Callable[[OSError], None], color: ColorChoice = "auto"
) -> AsyncIterator[Console]:
    """Open the console of this process.

    `on_closed` is called when standard output cannot be written any more; a closed standard error
    is ignored.
    """
    encoding = encoding_of(sys.stdout)
    async with open_output(1, encoding=encoding, color=color, on_closed=on_closed) as out:
        if out.is_terminal and os.isatty(2) and os.fstat(1).st_rdev == os.fstat(2).st_rdev:
            yield Console(out, out)
        else:
            async with open_output(2, encoding=encoding_of(sys.stderr), color=color) as err:
                yield Console(out, err)


@contextmanager
def open_terminal() -> Iterator[int | None]:
    """Open the terminal of this process, for questions when the standard streams are redirected.

    Yields None if there is none.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


class LineReader:
    """Reads the lines of a descriptor.

    The event loop waits for a terminal or a pipe. Ctrl-C is left to the signals.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._waits = not self._regular
        self._terminal = os.isatty(fd)

    @property
    def gone(self) -> bool:
        """True if this was a terminal that has disappeared, so that the end of the input is not an
        act of its user.
        """
        return self._terminal and not os.isatty(self._fd)

    async def readline(self) -> str | None:
        """Return the next line without its newline, or None at the end of the input.

        On a terminal more input may follow the end (Ctrl-D). Cancelling this loses nothing.
        """
        while (cut := self._buffer.find(b"\n")) < 0:
            data = await self._read()
            if not data:
                cut = len(self._buffer)
                break
            self._buffer += data
        else:
            return self._take(cut)
        return self._take(cut) if cut else None

    async def read_all(self) -> bytes:
        """Read up to the end of the input."""
        while data := await self._read():
            self._buffer += data
        everything = bytes(self._buffer)
        self._buffer.clear()
        return everything

    def _take(self, cut: int) -> str:
        """Remove a line from the buffer and return it without its end."""
        line = bytes(self._buffer[:cut]).decode(errors="replace")
        del self._buffer[: cut + 1]
        return line.removesuffix("\r")

    async def _read(self) -> bytes:
        """Read some bytes; empty at the end of the input.

        A regular file is read in a thread, as it can be slow and cannot be waited for.
        """
        if self._regular:
            return await trio.to_thread.run_sync(os.read, self._fd, 65536)
        if self._waits:
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except PermissionError:  # the null device is always readable, and cannot be waited for
                self._waits = False
        try:
            return os.read(self._fd, 65536)
        except OSError:  # a terminal that disappeared
            return b""
