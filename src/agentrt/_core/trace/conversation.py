"""A trace as a conversation: each request with its answer and duration, and anything unusual.

The rows of one agent process are made with one `_WireState`, which pairs answers with requests by
direction and id, and knows whether a turn runs. A row is marked as odd if the protocol does not
allow it or if it usually is a fault: a second answer, an answer without a request, output outside
of a turn, an exit that was not asked for. The protocol of the agent need not be known:
`messages.py` recognizes the messages by their shape.

Neighbouring pieces of a text become one row, which is returned when the next record does not
continue it, or by `flush`. A row may still change after that, when its answer arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from .messages import MAX_DETAIL_CHARS, PROMPT, TraceMessage, understand
from .record import TraceRecord

LATE_AFTER_S: Final = 10.0
"""Seconds after which an answer is late, unless a person or model has to think about it."""
MAX_ANSWERED_REQUESTS: Final = 10_000
"""Number of answered requests remembered per process, to recognize a second answer."""
MAX_ID_CHARS: Final = 100
"""Maximum number of characters kept of an id that is a text or has another shape."""

Direction = Literal["received", "sent"]
_OTHER: Final[dict[Any, Direction]] = {"received": "sent", "sent": "received"}


class TraceRow(Struct, kw_only=True):
    """A line of a conversation, which joins neighbouring pieces of a text.

    It is updated when its answer arrives.
    """

    t: float
    """Time of the first record, in seconds since the epoch."""
    session: str
    """The session's id."""
    process: int
    """Number of the agent process in the session, from 1."""
    kind: str
    """The kind of the record."""
    what: str
    """The method or type of the message."""
    detail: str = ""
    """The important part of the message, in one line."""
    id: Any = None
    """Id of the request, or of the request that it answers."""
    count: int = 1
    """Number of messages in the row."""
    took: float | None = None
    """Seconds from the request to its answer, in both rows."""
    answer: str = ""
    """The outcome, if it is an answered request."""
    odd: list[str] = []
    """Anything unusual about the messages, for people."""
    lines: list[str] = []
    """The first lines in the row, in full."""
    message: TraceMessage | None = None
    """The first message in the row, decoded."""


class _WireState:
    """State of the wire of one process."""

    def __init__(self) -> None:
        """Begin without requests and turns."""
        self.open: dict[tuple[Direction, Any], TraceRow] = {}
        """Unanswered requests, by direction and id."""
        self.answered: dict[tuple[Direction, Any], None] = {}
        """The most recently answered requests, in order."""
        self.running: set[str] = set()
        """Running turns, named by the agent (Codex), and busy sessions (version 2 of ACP)."""
        self.ended_by_us = False

    @property
    def in_turn(self) -> bool:
        """True if a turn is running."""
        if self.running:
            return True
        return any(row.what in ("session/prompt", "turn/start") for row in self.open.values())

    def follow(self, message: TraceMessage) -> None:
        """Track the start and end of turns in protocols that answer a prompt immediately."""
        match message.body:
            case {
                "method": "session/update",
                "params": {
                    "sessionId": str(session),
                    "update": {"sessionUpdate": "state_update", "state": state},
                },
            }:
                (self.running.discard if state == "idle" else self.running.add)(session)
            case {"method": "turn/started", "params": {"turn": {"id": str(turn)}}}:
                self.running.add(turn)
            case {"method": "turn/completed", "params": {"turn": {"id": str(turn)}}}:
                self.running.discard(turn)


class TraceConversation:
    """Makes rows from records, in order. A row is returned once nothing more can be joined to
    it.
    """

    def __init__(self, *, late: float = LATE_AFTER_S) -> None:
        """Begin without rows. `late`: seconds after which an answer counts as late."""
        self._late = late
        self._wires: dict[tuple[str, int], _WireState] = {}
        self._growing: TraceRow | None = None

    def feed(self, record: TraceRecord) -> Iterator[TraceRow]:
        """Yield the rows that are now complete."""
        row = self._row(record)
        growing = self._growing
        if growing is not None and _joins(growing, row):
            growing.count += 1
            growing.detail = (growing.detail + row.detail)[:MAX_DETAIL_CHARS]
            return
        yield from self.flush()
        if row.message is not None and row.message.grows and not row.odd:
            self._growing = row
        else:
            yield row

    def flush(self) -> Iterator[TraceRow]:
        """Yield the row that more could have been joined to."""
        if self._growing is not None:
            yield self._growing
            self._growing = None

    def end(self) -> None:
        """Mark all open requests as never answered, at the end of the trace."""
        for wire in self._wires.values():
            self._unanswered(wire)

    def _row(self, record: TraceRecord) -> TraceRow:
        """Return the row of one record, before it is joined to others."""
        wire = self._wires.setdefault((record.session, record.process), _WireState())
        row = TraceRow(
            t=record.t,
            session=record.session,
            process=record.process,
            kind=record.kind,
            what=record.kind,
            lines=[record.text],
        )
        match record.kind:
            case "received" | "sent":
                self._line(wire, record, row)
            case "stderr":
                row.detail = record.text[:MAX_DETAIL_CHARS]
            case _:
                self._event(wire, record, row)
        return row

    def _line(self, wire: _WireState, record: TraceRecord, row: TraceRow) -> None:
        """Fill the row of a line, and pair answers with their requests.

        Marked as odd are damaged lines, lines that are no message, and output outside of a turn.
        """
        direction: Direction = "received" if record.kind == "received" else "sent"
        row.odd += _damage(record)
        message = row.message = understand(record.data)
        if message is None:
            row.what, row.detail = "no message", record.text[:MAX_DETAIL_CHARS]
            if not row.odd:
                row.odd.append("not a message of the protocol")
            return
        message.id = _short_id(message.id)
        row.what, row.detail, row.id = message.what, message.detail, message.id
        if direction == "received":
            wire.follow(message)
        if message.kind == "request":
            self._request(wire, direction, row, message)
        elif message.kind == "answer":
            self._answer(wire, (_OTHER[direction], message.id), row)
        elif message.of_turn and direction == "received" and not wire.in_turn:
            row.odd.append("outside of a turn")

    def _request(
        self, wire: _WireState, direction: Direction, row: TraceRow, message: TraceMessage
    ) -> None:
        """Note a request, and mark an id that is in use."""
        key = (direction, message.id)
        if message.id == PROMPT:
            if direction == "received":
                return  # a prompt that Claude repeats
        elif key in wire.open:
            row.odd.append("asks by an id that is still in use")
        wire.open[key] = row

    def _answer(self, wire: _WireState, key: tuple[Direction, Any], row: TraceRow) -> None:
        """Pair an answer with its request, in both rows.

        `key` has the direction of the request. Answers are marked as odd if they come late, twice
        or without a request; the end of a turn that the agent began is not.
        """
        request = wire.open.pop(key, None)
        if request is None:
            if key[1] == PROMPT:  # a turn that the agent started by itself
                return
            again = key in wire.answered
            row.odd.append("answered a second time" if again else "answers no request")
            return
        wire.answered[key] = None
        if len(wire.answered) > MAX_ANSWERED_REQUESTS:
            del wire.answered[next(iter(wire.answered))]
        row.took = request.took = row.t - request.t
        row.what = f"{row.what} to {request.what}"
        request.answer = row.detail or "answered"
        assert request.message is not None
        if row.took > self._late and not request.message.patient:
            row.odd.append("late")

    def _event(self, wire: _WireState, record: TraceRecord, row: TraceRow) -> None:
        """Fill the row of a record that is no line: starts, signals, the exit, and lost records.

        Only an exit that the host has not caused is marked as odd.
        """
        match record.kind:
            case "trace":
                row.detail = f"{record.by}, process {record.pid}"
            case "session":
                row.detail = f"{record.agent} ({record.protocol})"
            case "started":
                row.detail = f"{' '.join(record.command)} in {record.cwd} (pid {record.pid})"
            case "stdin_closed":
                row.what, wire.ended_by_us = "standard input closed", True
            case "stdout_closed":
                row.what = "its output ended"
            case "signal":
                row.detail, wire.ended_by_us = record.signal, True
            case "exited":
                row.detail = _status(record.code)
                if not wire.ended_by_us:
                    row.odd.append("ended by itself")
                self._unanswered(wire)
            case "lost":
                row.detail = f"{record.count} records"
                row.odd.append("not kept")

    def _unanswered(self, wire: _WireState) -> None:
        """Mark all open requests: their process has ended, or the trace has."""
        for row in wire.open.values():
            row.odd.append("never answered")
        wire.open.clear()


def _damage(record: TraceRecord) -> list[str]:
    """Return the reasons why a line is not as it was on the wire."""
    found = ["not UTF-8"] if record.raw is not None else []
    if record.left_out:
        found.append(f"{record.left_out} bytes of it were not kept")
    elif record.cut:
        found.append("ends in the middle of a line")
    return found


def _joins(growing: TraceRow, row: TraceRow) -> bool:
    """Return True if a row continues the text of the growing one."""
    new, old = row.message, growing.message
    if new is None or old is None or not new.grows or row.odd:
        return False
    same = (growing.session, growing.process, growing.kind, growing.what)
    return same == (row.session, row.process, row.kind, row.what)


def _short_id(id: Any) -> str | int | float | None:
    """Return an id that is hashable and short. Two long ones stay different."""
    if isinstance(id, int | float | None):
        return id
    text = id if isinstance(id, str) else repr(id)
    if len(text) <= MAX_ID_CHARS:
        return text
    return f"{text[:MAX_ID_CHARS]}… ({len(text)} characters, {hash(text):x})"


def _status(code: int | None) -> str:
    """Describe an exit status."""
    if code is None:
        return ""
    return f"by signal {-code}" if code < 0 else f"with status {code}"
