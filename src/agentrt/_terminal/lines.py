"""Reading standard input, or the terminal, so that a wait for it can be cancelled."""

from __future__ import annotations

import os
import stat

import trio


class LineReader:
    """Lines of a descriptor, one at a time; None at its end.

    A terminal or a pipe is waited for by the event loop. Ctrl-C is the signals' business.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._waits = not self._regular

    async def readline(self) -> str | None:
        """The next line, without its newline. Behind the end of a terminal's input (Ctrl-D) there
        may be more of it. Cancelling it loses nothing."""
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
            except PermissionError:  # the null device is always ready, and cannot be waited for
                self._waits = False
        try:
            return os.read(self._fd, 65536)
        except OSError:  # a terminal that is gone
            return b""
