"""A trace that is written while sessions run.

What happens is put into a list; a task hands it to a thread, a tenth of a second's worth at a time.
Sessions never wait: what the disk does not take in time is counted, and the trace says how much it
was.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Final

import trio

from .._errors import LocalProtocolError
from .._nesting import check_trio, open_service_nursery
from .._process.inherited import has_secret_name
from .._version import __version__
from .assemble import Assembler
from .file import TraceFile
from .record import VERSION, Written
from .redact import SHORTEST_GIVEN, Redaction, Rule, check_rules
from .secrets import load
from .tap import Piece, Tap

DELAY: Final = 0.1
"""Seconds for which what happens is collected."""
MANY: Final = 4 * 1024 * 1024
"""Bytes that are not collected any longer."""
WAITING: Final = 32 * 1024 * 1024
"""Bytes that may wait for the disk."""
LAST: Final = 1.8
"""Seconds that a disk has at the end for what still waits."""
STOPPING: Final = 0.2
"""Seconds in which a thread that is still at work then sees that it is to stop: one that goes on
while the interpreter ends would abort the program."""
SMALLEST: Final = 4096
"""Bytes that a file must be able to hold."""
PAUSE: Final = 0.0002
"""Seconds for which the thread lets others have the interpreter, after a few milliseconds of work
on lines that may have a secret in them."""
PART: Final = 4
"""A record is not more than such a part of a file, where its lines can be several records."""

_logger = logging.getLogger("agentrt.trace")


class Trace:
    """A file that traces of sessions are written into. Made by `open_trace`."""

    def __init__(self, file: TraceFile, redaction: Redaction, together: int) -> None:
        self.path = file.path
        """Where it is written."""
        self.lost = 0
        """Records that the disk did not take; what is here is said in the trace, too."""
        self._file = file
        self._assembler = Assembler(redaction, together)
        self._pieces: list[Piece] = []
        self._bytes = 0
        self._missed = 0  # since something was written last
        self._waiting = trio.Event()
        self._many = trio.Event()
        self._failing = False
        self._stopping = False
        self._jobs: deque[tuple[list[Piece], int, bool]] = deque()
        self._working = threading.Lock()
        """Held by the thread that writes: one that was given up on may still be at it."""

    # --- what sessions do

    def put(self, piece: Piece) -> None:
        if self._bytes > WAITING:
            self._lose(1)
            return
        if not self._pieces:
            self._waiting.set()
        self._pieces.append(piece)
        self._bytes += len(piece.data)
        if self._bytes > MANY:
            self._many.set()

    def end(self) -> None:
        """A session is over; others go on."""

    # --- what the task does

    async def _run(self) -> None:
        while True:
            await self._waiting.wait()
            with trio.move_on_after(DELAY):
                await self._many.wait()
            await self.flush()

    async def flush(self) -> None:
        """Have written what has happened until now. A disk that fails raises nothing here. Being
        cancelled, it may still be written."""
        await trio.lowlevel.checkpoint()
        self._waiting, self._many = trio.Event(), trio.Event()
        pieces, missed = self._take()
        if pieces or missed:
            # A disk that hangs keeps the thread, not the session.
            self._jobs.append((pieces, missed, False))
            lost = await trio.to_thread.run_sync(self._work, abandon_on_cancel=True)
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
        """Have the rest written, and end. A disk that hangs is left to the thread."""
        self._jobs.append((*self._take(), True))
        ended = threading.Event()

        def work() -> None:
            try:
                self._work()
            finally:
                ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, work, abandon_on_cancel=True))
            # Not Trio's clock: one that jumps would leave the file behind that is being written.
            if not await trio.to_thread.run_sync(ended.wait, LAST):
                self._stopping = True
                await trio.to_thread.run_sync(ended.wait, STOPPING)
            nursery.cancel_scope.cancel()

    # --- what the thread does

    def _work(self) -> int:
        """Write what there is; how many records could not be written."""
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
        """How many records could not be written."""
        written: list[Written] = []
        if missed:
            written.append(Written(t=time.time(), kind="lost", fields={"count": missed}))
        made = self._assembler.records(pieces)
        for record in chain(made, self._assembler.rest(time.time()) if end else ()):
            if record is None:
                if self._stopping:
                    break
                time.sleep(PAUSE)
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
    redact: Rule | None = None,
) -> AsyncIterator[Trace]:
    """A file that the wire of sessions is written into: give it as `trace` to
    `open_session` or `open_runtime`. A trace that is there is continued; nobody but its owner can
    read it.

    - `max_bytes`: of one file. A full one becomes `FILE.1`, and so on; of these there are `files`.
    - `secrets`: values that must not be in it, wherever they stand, from four characters on.
    - `redact`: a further rule: takes a line and returns it without what is secret. Called in a
      thread; a line for which it raises is left out.

    What looks like a secret is replaced before anything is written. A disk that is full, fails or
    hangs never holds up a session: the trace says how much is missing. To be left behind the
    sessions; that takes two seconds at the most.

    Raises `TraceError` if the file cannot be written, `TypeError` and `ValueError` for options that
    are none.
    """
    check_trio("open_trace")
    given = check_rules(secrets, redact)
    if not (isinstance(max_bytes, int) and isinstance(files, int)):
        raise TypeError("max_bytes and files are whole numbers")
    if max_bytes < SMALLEST or files < 1:
        raise LocalProtocolError(f"a trace needs {SMALLEST} bytes and a file at the least")
    path = os.path.abspath(file)  # noqa: ASYNC240 - asks nothing of the disk but where we are
    opening = partial(TraceFile, path, max_bytes=max_bytes, files=files, header=_header)
    own = [value for name, value in os.environ.items() if has_secret_name(name)]
    opened, _ = await trio.to_thread.run_sync(lambda: (opening(), load()))
    redaction = Redaction(own, redact)
    redaction.know(given, SHORTEST_GIVEN)
    trace = Trace(opened, redaction, max_bytes // PART)
    async with open_service_nursery() as services:
        services.start_soon(trace._run)
        try:
            yield trace
        finally:
            services.cancel()
            with trio.CancelScope(shield=True):
                await trace._close()


def _header() -> bytes:
    fields = {"version": VERSION, "by": f"agentrt {__version__}", "pid": os.getpid()}
    return b"".join(Written(t=time.time(), kind="trace", fields=fields).encoded())


@asynccontextmanager
async def opened(trace: Trace | str | os.PathLike[str]) -> AsyncIterator[Trace]:
    """A trace that is open, or the one in a file of that name."""
    if isinstance(trace, Trace):
        yield trace
    else:
        async with open_trace(trace) as made:
            yield made


@asynccontextmanager
async def tapped(trace: Trace | str | os.PathLike[str], tap: Tap) -> AsyncIterator[None]:
    """With a session written into a trace."""
    async with opened(trace) as sink:
        tap.add(sink)
        yield
