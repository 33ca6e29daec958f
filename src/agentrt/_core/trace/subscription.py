"""Following a session's wire messages, as an async iterator, and the most recent ones.

A reader must not delay the session. `_WireReader.put` is called while the session works, so it only
keeps the raw piece. Assembling lines and replacing secrets, which takes far longer, is done when
the reader takes a record, in its own task. The bytes of a slow reader are limited; pieces that name
secrets are never dropped, because later lines would be shown with these secrets.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import trio
from msgspec import Struct, json

from ..model.content import JsonObject
from ..process.inherited import has_secret_name
from ..process.tap import TELLS_SECRETS, Piece, Tap
from ..wire.json import DECODE_ERRORS
from .assemble import Assembler
from .conversation import TraceConversation, TraceRow
from .record import TraceRecord, Written
from .redact import MIN_GIVEN_SECRET_CHARS, Redaction, Rule, check_rules

MAX_BUFFERED_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are kept for a slow reader."""


class TraceSubscription:
    """An async iterator of a session's wire messages; see `TraceRecord`.

    It ends with the session. It never delays the session: if too much is unread, the newest
    messages are dropped, and a record of kind `lost` has their number. Close it with `close`, or
    use it as a context manager.
    """

    _wire: _WireReader

    def __init__(self) -> None:
        raise TypeError("a trace subscription is made by Session.trace")

    def __enter__(self) -> TraceSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and discard unread records."""
        self._wire.close()

    def __aiter__(self) -> TraceSubscription:
        return self

    def take(self, most_steps: int | None = None) -> list[TraceRecord]:
        """Return the records that have arrived and were not returned yet, without waiting.

        `most_steps` limits the number of short work steps if other tasks are waiting, and the
        records to `STEP_RECORDS` for each; a later call returns the rest. None: no limit.
        """
        return self._wire.take(most_steps)

    async def __anext__(self) -> TraceRecord:
        """Return the next record. Cancelling this loses no record."""
        return await self._wire.next_record()


def subscribe_to(
    tap: Tap, secrets: Iterable[str] = (), redact: Rule | None = None
) -> TraceSubscription:
    """Follow a tap; `secrets` and `redact` are those of `open_trace`."""
    made = TraceSubscription.__new__(TraceSubscription)
    made._wire = _WireReader(tap, secrets, redact)
    return made


class _WireReader:
    """The records of a tap that were not read yet. It is a `Sink`."""

    def __init__(self, tap: Tap, secrets: Iterable[str], redact: Rule | None) -> None:
        """Follow a tap. The secrets of this process's and of the agent's environment are
        removed.
        """
        given = check_rules(secrets, redact)
        known = [*os.environ.items(), *tap.env.items()]
        own = [value for name, value in known if has_secret_name(name)]
        self._tap = tap
        redaction = Redaction((*own, *tap.secrets), redact)
        redaction.add_secrets(given, MIN_GIVEN_SECRET_CHARS)
        self._assembler = Assembler(redaction)
        self._pieces: deque[Piece] = deque()
        self._making: Iterator[Written | None] | None = None
        """The records of the piece that is being scanned."""
        self._records: deque[TraceRecord] = deque()
        self._bytes = 0
        self._lost: Piece | None = None
        self._ended = tap.closed
        self._readers = trio.lowlevel.ParkingLot()
        if not self._ended:
            tap.add(self)

    def put(self, piece: Piece) -> None:
        """As `Sink.put`."""
        if self._bytes > MAX_BUFFERED_BYTES and piece.kind not in TELLS_SECRETS:
            before = 0 if self._lost is None else (self._lost.fields or {})["count"]
            fields = {"count": before + 1}
            self._lost = Piece(piece.t, piece.session, piece.process, "lost", fields=fields)
            return
        self._pieces.append(piece)
        self._bytes += len(piece.data)
        self._readers.unpark_all()

    def end(self) -> None:
        """As `Sink.end`."""
        self._ended = True
        self._readers.unpark_all()

    def close(self) -> None:
        """Stop listening, and discard unread records."""
        self._tap.remove(self)
        self._pieces.clear()
        self._making = None
        self._records.clear()
        self.end()

    def take(self, most_steps: int | None) -> list[TraceRecord]:
        """As `TraceSubscription.take`."""
        steps, records = 0, self._records
        most = sys.maxsize if most_steps is None else most_steps * STEP_RECORDS
        while len(records) < most and steps != most_steps and self._step():
            steps += 1
        return [records.popleft() for _ in range(min(len(records), most))]

    async def next_record(self) -> TraceRecord:
        """Wait for the next record. Raises `StopAsyncIteration` at the end."""
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
        """Make records of the waiting pieces, for a moment. Returns False if there are none."""
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


class WireMessage(Struct, frozen=True, kw_only=True):
    """A message between agentrt and an agent, decoded."""

    t: float
    """The time, in seconds since the epoch."""
    process: int
    """Number of the agent process in the session, from 1."""
    sent: bool
    """True if agentrt sent it, false if the agent did."""
    body: JsonObject
    """The message, in the shape of the agent's protocol. Secrets in it were replaced."""


class WireSubscription:
    """An async iterator of the decoded messages of a session; see `WireMessage`.

    It ends with the session and never delays it: of a slow reader's messages the newest are
    dropped, and `lost` has their number. Lines that are not JSON objects are skipped. Close it with
    `close`, or use it as a context manager.
    """

    def __init__(self, records: TraceSubscription) -> None:
        """Create a subscription that reads these records, and closes them with itself."""
        self._records = records
        self.lost: int = 0
        """The number of messages that were dropped so far."""

    def __enter__(self) -> WireSubscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and discard unread messages."""
        self._records.close()

    def __aiter__(self) -> WireSubscription:
        return self

    async def __anext__(self) -> WireMessage:
        """Return the next message. Cancelling this loses no message."""
        async for record in self._records:
            if record.kind == "lost":
                self.lost += record.count
            elif record.kind in ("sent", "received") and not record.left_out:
                try:
                    body = json.decode(record.data, type=JsonObject)
                except DECODE_ERRORS:
                    continue
                return WireMessage(
                    t=record.t, process=record.process, sent=record.kind == "sent", body=body
                )
        raise StopAsyncIteration


STEP_RECORDS: Final = 125
"""Maximum number of records for one step of a call with a limit."""
MAX_ROWS: Final = 500
"""Maximum number of rows; the oldest are dropped."""
MAX_STEPS: Final = 8
"""Maximum number of steps, of a few milliseconds each, for one call."""


class RecentWire:
    """The most recent rows of a session, from its creation until `listen` ends."""

    def __init__(self, records: TraceSubscription) -> None:
        """Keep the rows of these records."""
        self._records = records
        self._rows: deque[TraceRow] = deque(maxlen=MAX_ROWS)
        self._conversation = TraceConversation()

    async def listen(self) -> None:
        """Collect rows until the session is over, or this is cancelled."""
        with self._records:
            async for record in self._records:
                self._keep(*self._conversation.feed(record))

    def rows(self) -> list[TraceRow]:
        """Return the rows, oldest first. A row may still change when its answer arrives.

        The rows include all messages so far, unless processing them would delay other tasks: then a
        later call returns the newest.
        """
        for record in self._records.take(MAX_STEPS):
            self._keep(*self._conversation.feed(record))
        self._keep(*self._conversation.flush())
        return list(self._rows)

    def _keep(self, *rows: TraceRow) -> None:
        """Keep rows without the full lines; the oldest rows are dropped."""
        for row in rows:
            # The row has everything that is shown; the lines may be megabytes.
            row.lines.clear()
            if row.message is not None:
                row.message.body = None
            self._rows.append(row)
