"""Reading lines from standard input or a terminal, with cancellation."""

from __future__ import annotations

import os
import stat

import trio


class LineReader:
    """Reads the lines of a descriptor.

    The event loop waits for a terminal or a pipe. Ctrl-C is left to the signals.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._waits = not self._regular

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
        line = bytes(self._buffer[:cut]).decode(errors="replace")
        del self._buffer[: cut + 1]
        return line.removesuffix("\r")

    async def _read(self) -> bytes:
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
