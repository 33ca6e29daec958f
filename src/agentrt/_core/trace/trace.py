"""A trace that is written while sessions run.

Events are collected in a list; a task passes them to a thread, a tenth of a second's worth at a
time. Sessions never wait: events that the disk does not accept in time are counted, and the trace
contains their number.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Final

import trio

from ..._base.nesting import open_service_nursery
from ..._version import __version__
from ..errors import LocalProtocolError
from ..process.inherited import has_secret_name
from ..process.tap import TELLS_SECRETS, Piece, Tap
from ..trio_task import check_trio
from .assemble import Assembler
from .file import TraceFile
from .record import FORMAT_VERSION, Written
from .redact import MIN_GIVEN_SECRET_CHARS, Redaction, check_rules
from .secrets import load

WRITE_DELAY_S: Final = 0.1
"""Seconds for which events are collected."""
WRITE_NOW_BYTES: Final = 4 * 1024 * 1024
"""Bytes of collected events that are written without further delay."""
MAX_UNWRITTEN_BYTES: Final = 32 * 1024 * 1024
"""Maximum number of bytes waiting for the disk."""
LAST_WRITE_TIMEOUT_S: Final = 1.8
"""Seconds for the disk to write the rest at the end."""
STOP_TIMEOUT_S: Final = 0.2
"""Seconds for a thread that is still working to notice that it must stop.

A thread that continues while the interpreter exits would abort the program.
"""
MIN_FILE_BYTES: Final = 4096
"""Minimum size limit of a file, in bytes."""
THREAD_PAUSE_S: Final = 0.0002
"""Seconds for which the thread releases the interpreter.

It does so after a few milliseconds of work on lines that may have a secret in them.
"""
RECORDS_PER_FILE: Final = 4
"""Minimum number of records in a full file, if lines can be split into several records."""

_logger = logging.getLogger("agentrt.trace")


class Trace:
    """A file that receives the traces of sessions. Created by `open_trace`."""

    _writer: TraceWriter

    def __init__(self) -> None:
        raise TypeError("a trace is opened by agentrt.tracing.open_trace")

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._writer.path

    @property
    def lost(self) -> int:
        """Number of records that the disk did not accept; the trace also contains this number."""
        return self._writer.lost

    async def flush(self) -> None:
        """Write all events so far.

        A failing disk raises nothing here. If this is cancelled, the events may still be written.
        """
        await self._writer.flush()


class TraceWriter:
    """The work of a `Trace`. It is the `Sink` of each of its sessions."""

    def __init__(self, file: TraceFile, redaction: Redaction, together: int) -> None:
        """Create a writer. `together`: the maximum number of bytes of lines in one record."""
        self.path: str = file.path
        self.lost: int = 0
        self._file = file
        self._assembler = Assembler(redaction, together)
        self._pieces: list[Piece] = []
        self._bytes = 0
        self._missed = 0  # since the last write
        self._waiting = trio.Event()
        self._many = trio.Event()
        self._failing = False
        self._stopping = False
        self._jobs: deque[tuple[list[Piece], int, bool]] = deque()
        self._working = threading.Lock()
        """Held by the thread that writes; an abandoned thread may still hold it."""

    # --- called by sessions

    def put(self, piece: Piece) -> None:
        """As `Sink.put`."""
        if self._bytes > MAX_UNWRITTEN_BYTES and piece.kind not in TELLS_SECRETS:
            self._lose(1)
            return
        if not self._pieces:
            self._waiting.set()
        self._pieces.append(piece)
        self._bytes += len(piece.data)
        if self._bytes > WRITE_NOW_BYTES:
            self._many.set()

    def end(self) -> None:
        """Do nothing at the end of a session; others continue."""

    # --- run by the task

    async def run(self) -> None:
        """Write what the sessions put, until it is cancelled."""
        while True:
            await self._waiting.wait()
            with trio.move_on_after(WRITE_DELAY_S):
                await self._many.wait()
            await self.flush()

    async def flush(self) -> None:
        """As `Trace.flush`."""
        await trio.lowlevel.checkpoint()
        self._waiting, self._many = trio.Event(), trio.Event()
        pieces, missed = self._take()
        if pieces or missed:
            self._jobs.append((pieces, missed, False))
        if self._jobs or self._working.locked():  # perhaps by `run`, with events from before
            # A hanging disk blocks the thread, not the session.
            lost = await trio.to_thread.run_sync(self._work, abandon_on_cancel=True)
            self._missed += lost
            self.lost += max(0, lost - missed)

    def _lose(self, count: int) -> None:
        """Count records that are dropped because the disk is too slow."""
        self._missed += count
        self.lost += count

    def _take(self) -> tuple[list[Piece], int]:
        """Return the waiting pieces, and the number of lost ones."""
        taken = self._pieces, self._missed
        self._pieces, self._bytes, self._missed = [], 0, 0
        return taken

    async def close(self) -> None:
        """Write the rest, and close. If the disk hangs, the thread is abandoned."""
        self._jobs.append((*self._take(), True))
        ended = threading.Event()

        def work() -> None:
            """Write the last records, and wake `close` in any case."""
            try:
                self._work()
            finally:
                ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, work, abandon_on_cancel=True))
            # Not Trio's clock: if that jumped, the file would be abandoned during a write.
            if not await trio.to_thread.run_sync(ended.wait, LAST_WRITE_TIMEOUT_S):
                self._stopping = True
                await trio.to_thread.run_sync(ended.wait, STOP_TIMEOUT_S)
            nursery.cancel_scope.cancel()

    # --- run by the thread

    def _work(self) -> int:
        """Write everything that is waiting. Returns the number of records that could not be
        written.
        """
        lost = 0
        with self._working:
            while self._jobs:
                pieces, missed, end = self._jobs.popleft()
                try:
                    lost += self._write(pieces, missed, end=end)
                finally:
                    if end:
                        self._file.close()
        return lost

    def _write(self, pieces: list[Piece], missed: int, *, end: bool) -> int:
        """Write records. Returns the number of those that could not be written."""
        written: list[Written] = []
        if missed:
            written.append(Written(t=time.time(), kind="lost", fields={"count": missed}))
        made = self._assembler.records(pieces)
        for record in chain(made, self._assembler.flush(time.time()) if end else ()):
            if record is None:
                if self._stopping:
                    break
                time.sleep(THREAD_PAUSE_S)
            else:
                written.append(record)
        try:
            self._file.append(record.encoded() for record in written)
        except OSError as error:
            if not self._failing:
                self._failing = True
                _logger.warning("the trace %s cannot be written: %s", self.path, error.strerror)
            return sum(map(len, written)) - bool(missed) + missed
        self._failing = False
        return 0


@asynccontextmanager
async def open_trace(
    file: str | os.PathLike[str],
    *,
    max_bytes: int = 64 * 1024 * 1024,
    files: int = 4,
    secrets: Iterable[str] = (),
    redact: Callable[[str], str] | None = None,
) -> AsyncIterator[Trace]:
    """Open a file for the wire messages of sessions.

    Pass it as `trace` to `open_session` or `open_runtime`. An existing trace is continued; only its
    owner can read it.

    - `max_bytes`: maximum size of one file. A full file becomes `FILE.1`, and so on.
    - `files`: maximum number of files.
    - `secrets`: values that must not appear anywhere in it, at least four characters each.
    - `redact`: an additional rule: takes a line and returns it without secrets. Called in a thread;
      a line for which it raises is left out.

    Apparent secrets are replaced before anything is written. A disk that is full, fails or hangs
    never blocks a session: the trace contains the number of missing records. Leave the block after
    the sessions have ended; this takes two seconds at most.

    Raises `TraceError` if the file cannot be written, `TypeError`, `ValueError` or
    `LocalProtocolError` for invalid options.
    """
    check_trio("open_trace")
    given = check_rules(secrets, redact)
    if not (isinstance(max_bytes, int) and isinstance(files, int)):
        raise TypeError("`max_bytes` and `files` must be integers")
    if max_bytes < MIN_FILE_BYTES or files < 1:
        raise LocalProtocolError(
            f"`max_bytes` must be at least {MIN_FILE_BYTES}, and `files` at least 1"
        )
    path = os.path.abspath(file)  # noqa: ASYNC240 - reads only the working folder, not the disk
    opening = partial(TraceFile, path, max_bytes=max_bytes, files=files, header=_header)
    own = [value for name, value in os.environ.items() if has_secret_name(name)]
    opened, _ = await trio.to_thread.run_sync(lambda: (opening(), load()))
    redaction = Redaction(own, redact)
    redaction.add_secrets(given, MIN_GIVEN_SECRET_CHARS)
    writer = TraceWriter(opened, redaction, max_bytes // RECORDS_PER_FILE)
    trace = Trace.__new__(Trace)
    trace._writer = writer
    async with open_service_nursery() as services:
        services.start_soon(writer.run)
        try:
            yield trace
        finally:
            services.cancel()
            with trio.CancelScope(shield=True):
                await writer.close()


def _header() -> bytes:
    """Return the first record of each file: the format, the version of agentrt and the process."""
    fields = {"version": FORMAT_VERSION, "by": f"agentrt {__version__}", "pid": os.getpid()}
    return b"".join(Written(t=time.time(), kind="trace", fields=fields).encoded())


@asynccontextmanager
async def opened(trace: Trace | str | os.PathLike[str]) -> AsyncIterator[Trace]:
    """Yield an open trace, or open the file with this name."""
    if isinstance(trace, Trace):
        yield trace
    else:
        async with open_trace(trace) as made:
            yield made


@asynccontextmanager
async def tapped(trace: Trace | str | os.PathLike[str], tap: Tap) -> AsyncIterator[None]:
    """Record a session in a trace while the block runs."""
    async with opened(trace) as sink:
        tap.add(sink._writer)
        yield
