"""A trace that is written while sessions run.

What happens is put into a list; a task hands it to a thread, a tenth of a second's worth at a time.
Sessions never wait: what the disk does not take in time is counted, and the trace says how much it
was.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from .._errors import LocalProtocolError
from .._nesting import open_service_nursery
from .._process.inherited import has_secret_name
from .._version import __version__
from .assemble import Assembler
from .file import TraceFile
from .record import VERSION, TraceRecord, encode
from .redact import Redaction, Rule
from .tap import Piece, Tap

DELAY: Final = 0.1
"""Seconds for which what happens is collected."""
WAITING: Final = 16 * 1024 * 1024
"""Bytes that may wait for the disk."""
LAST: Final = 2.0
"""Seconds that a disk has at the end for what still waits."""
SMALLEST: Final = 4096
"""Bytes that a file must be able to hold."""

_logger = logging.getLogger("agentrt.trace")


class Trace:
    """A file that traces of sessions are written into. Made by `open_trace`."""

    def __init__(self, file: TraceFile, redaction: Redaction) -> None:
        self.path = file.path
        """Where it is written."""
        self.lost = 0
        """Records that the disk did not take; what is here is said in the trace, too."""
        self._file = file
        self._assembler = Assembler(redaction)
        self._pieces: list[Piece] = []
        self._bytes = 0
        self._missed = 0  # since something was written last
        self._waiting = trio.Event()
        self._failing = False

    # --- what sessions do

    def put(self, piece: Piece) -> None:
        if self._bytes > WAITING:
            self._lose(1)
            return
        if not self._pieces:
            self._waiting.set()
        self._pieces.append(piece)
        self._bytes += len(piece.data)

    def end(self) -> None:
        """A session is over; others go on."""

    # --- what the task does

    async def _run(self) -> None:
        while True:
            await self._waiting.wait()
            await trio.sleep(DELAY)
            await self.flush()

    async def flush(self) -> None:
        """Have written what has happened until now. A disk that fails raises nothing here. Being
        cancelled, it may still be written."""
        await trio.lowlevel.checkpoint()
        self._waiting = trio.Event()
        pieces, missed = self._take()
        if pieces or missed:
            # A disk that hangs keeps the thread, not the session.
            lost = await trio.to_thread.run_sync(
                self._write, pieces, missed, abandon_on_cancel=True
            )
            self._missed += lost
            self.lost += max(0, lost - missed)

    def _lose(self, count: int) -> None:
        self._missed += count
        self.lost += count

    def _take(self) -> tuple[list[Piece], int]:
        """What waits, and how much more there was."""
        taken = self._pieces, self._missed
        self._pieces, self._bytes, self._missed = [], 0, 0
        return taken

    async def _close(self) -> None:
        """Have the rest written, and end."""
        pieces, missed = self._take()
        await trio.to_thread.run_sync(self._finish, pieces, missed, abandon_on_cancel=True)

    # --- what the thread does

    def _write(self, pieces: list[Piece], missed: int, end: bool = False) -> int:
        """How many records could not be written."""
        records = list(self._assembler.records(pieces))
        if end:
            records += self._assembler.rest(time.time())
        if not records and not missed:
            return 0
        lost = [TraceRecord(t=time.time(), kind="lost", count=missed)] if missed else []
        try:
            self._file.append(encode(lost + records))
        except OSError as error:
            if not self._failing:
                self._failing = True
                _logger.warning("the trace %s cannot be written: %s", self.path, error.strerror)
            return len(records) + missed
        self._failing = False
        return 0

    def _finish(self, pieces: list[Piece], missed: int) -> None:
        try:
            self._write(pieces, missed, end=True)
        finally:
            self._file.close()


@asynccontextmanager
async def open_trace(
    file: str | os.PathLike[str],
    *,
    max_bytes: int = 64 * 1024 * 1024,
    files: int = 4,
    secrets: Iterable[str] = (),
    redact: Rule | None = None,
) -> AsyncIterator[Trace]:
    """A file that the wire of sessions is written into, as NDJSON: give it as `trace` to
    `open_session` or `open_runtime`. A trace that is there is continued; nobody but its owner can
    read it.

    - `max_bytes`: of one file. A full one becomes `FILE.1`, and so on; of these there are `files`.
    - `secrets`: values that must not be in it, wherever they stand.
    - `redact`: a further rule: takes a line and returns it without what is secret. Called in a
      thread; a line for which it raises is left out.

    What looks like a secret is replaced before anything is written. A disk that is full, fails or
    hangs never holds up a session: the trace says how much is missing. To be left behind the
    sessions; that takes two seconds at the most.

    Raises `TraceError` if the file cannot be written.
    """
    if max_bytes < SMALLEST or files < 1:
        raise LocalProtocolError(f"a trace needs {SMALLEST} bytes and a file at the least")
    path = os.path.abspath(file)  # noqa: ASYNC240 - asks nothing of the disk but where we are
    opening = partial(TraceFile, path, max_bytes=max_bytes, files=files, header=_header)
    own = [value for name, value in os.environ.items() if has_secret_name(name)]
    trace = Trace(await trio.to_thread.run_sync(opening), Redaction([*own, *secrets], redact))
    async with open_service_nursery() as services:
        services.start_soon(trace._run)
        try:
            yield trace
        finally:
            services.cancel_scope.cancel()
            with trio.move_on_after(LAST, shield=True):
                await trace._close()


def _header() -> bytes:
    by = f"agentrt {__version__}"
    return encode(
        [TraceRecord(t=time.time(), kind="trace", version=VERSION, by=by, pid=os.getpid())]
    )


@asynccontextmanager
async def opened(trace: Trace | str | os.PathLike[str] | None) -> AsyncIterator[Trace | None]:
    """A trace that is open, or the one in a file of that name."""
    if trace is None or isinstance(trace, Trace):
        yield trace
    else:
        async with open_trace(trace) as made:
            yield made


@asynccontextmanager
async def tapped(trace: Trace | str | os.PathLike[str] | None, tap: Tap) -> AsyncIterator[None]:
    """With a session written into a trace."""
    async with opened(trace) as sink:
        if sink is not None:
            tap.add(sink)
        yield
