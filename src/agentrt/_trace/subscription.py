"""Following a session's wire, as an async iterator."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import trio

from .._process.inherited import has_secret_name
from .assemble import Assembler
from .record import TraceRecord, Written
from .redact import SHORTEST_GIVEN, Redaction, Rule, check_rules
from .tap import Piece, Tap

WAITING: Final = 4 * 1024 * 1024
"""Bytes that are kept for who does not read."""


class TraceSubscription:
    """An async iterator of what goes over a session's wire; see `TraceRecord`. It ends with the
    session. Nobody waits for it: of what is not read, the newest is left out at some point, and a
    record of kind `lost` says how much. Close it with `close`, or use it as a block."""

    def __init__(self, tap: Tap, secrets: Iterable[str] = (), redact: Rule | None = None) -> None:
        given = check_rules(secrets, redact)
        known = [*os.environ.items(), *tap.env.items()]
        own = [value for name, value in known if has_secret_name(name)]
        self._tap = tap
        redaction = Redaction(own, redact)
        redaction.know(given, SHORTEST_GIVEN)
        self._assembler = Assembler(redaction)
        self._pieces: deque[Piece] = deque()
        self._making: Iterator[Written | None] | None = None
        """The records of the piece that is being looked through."""
        self._records: deque[TraceRecord] = deque()
        self._bytes = 0
        self._lost: Piece | None = None
        self._ended = tap.closed
        self._readers = trio.lowlevel.ParkingLot()
        if not self._ended:
            tap.add(self)

    def __enter__(self) -> TraceSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening. What was not read is forgotten."""
        self._tap.remove(self)
        self._pieces.clear()
        self._making = None
        self._records.clear()
        self.end()

    def put(self, piece: Piece) -> None:
        if self._bytes > WAITING:
            before = 0 if self._lost is None else (self._lost.fields or {})["count"]
            fields = {"count": before + 1}
            self._lost = Piece(piece.t, piece.session, piece.process, "lost", fields=fields)
            return
        self._pieces.append(piece)
        self._bytes += len(piece.data)
        self._readers.unpark_all()

    def end(self) -> None:
        self._ended = True
        self._readers.unpark_all()

    def __aiter__(self) -> TraceSubscription:
        return self

    def take(self, most_steps: int | None = None) -> list[TraceRecord]:
        """Return the records of what has come and was not given yet, without waiting.

        - `most_steps`: how often work of a moment may be done for it, where others wait; the rest
          comes with a later call. None: all of it.
        """
        steps = 0
        while steps != most_steps and self._step():
            steps += 1
        taken = list(self._records)
        self._records.clear()
        return taken

    async def __anext__(self) -> TraceRecord:
        """The next record. Cancelling it loses none."""
        await trio.lowlevel.checkpoint()
        while not self._records:
            if self._step():
                if not self._records:
                    await trio.lowlevel.checkpoint()
            elif self._ended:
                raise StopAsyncIteration
            else:
                await self._readers.park()
        return self._records.popleft()

    def _step(self) -> bool:
        """Make records of what waits, for a moment. False if nothing waits."""
        if self._making is None:
            if self._pieces:
                piece = self._pieces.popleft()
                self._bytes -= len(piece.data)
            elif self._lost is not None:
                piece, self._lost = self._lost, None
            else:
                return False
            self._making = self._assembler.records([piece])
        for written in self._making:
            if written is None:
                return True
            self._records.extend(written.records())
        self._making = None
        return True
