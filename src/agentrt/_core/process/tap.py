"""The tap of a session's pipes: it passes what goes through them on to listeners, for traces.

Listeners get the data unchanged, in pieces as they were read, and split it into lines later, in
another place. Without listeners, the tap is never called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

TraceKind: TypeAlias = Literal[
    "trace",
    "session",
    "started",
    "received",
    "sent",
    "stderr",
    "stdin_closed",
    "stdout_closed",
    "signal",
    "exited",
    "lost",
]
"""Kinds of events between the host and an agent, and of a trace's own records."""

PieceKind: TypeAlias = TraceKind | Literal["secrets"]


class Piece(Struct, frozen=True, gc=False):
    """An event: `data` of a pipe, or `fields` of another event.

    The kind `secrets` is not an event: its `values` are replaced in all later pieces.
    """

    t: float
    session: str
    process: int
    kind: PieceKind
    data: bytes = b""
    fields: Mapping[str, Any] | None = None


TELLS_SECRETS: Final = frozenset({"started", "secrets"})
"""Kinds of pieces that name secrets to replace in later ones: a listener must not drop them."""


class Sink(Protocol):
    """A listener. Its methods must not raise or block."""

    def put(self, piece: Piece) -> None:
        """Take a piece."""
        ...

    def end(self) -> None:
        """Note that the session is over."""
        ...


class Tap:
    """The tap of a session's wire."""

    secrets: frozenset[str] = frozenset()
    """Further secrets in the messages so far."""

    def __init__(self) -> None:
        """Create a tap without listeners; `begin` names the session."""
        self.session: str = ""
        self.agent = ""
        self.protocol = ""
        self.env: Mapping[str, str] = {}
        """The agent's environment, some of which is secret."""
        self.closed: bool = False
        self._sinks: tuple[Sink, ...] = ()
        self._clock: Callable[[], float] = time.time
        self._offset_s = 0.0
        """The difference between the times of the pieces and `_clock`."""
        self._processes: tuple[ProcessTap, ...] = ()

    def begin(self, session: str, wall: Callable[[], float], clock: Callable[[], float]) -> None:
        """Set the session's name. Times start at `wall` and advance with `clock`, never
        backwards.
        """
        self.session = session
        self._offset_s = wall() - clock()
        self._clock = clock

    def add(self, sink: Sink) -> None:
        """Add a listener."""
        self._sinks = (*self._sinks, sink)
        self._switch()

    def remove(self, sink: Sink) -> None:
        """Remove a listener."""
        self._sinks = tuple(each for each in self._sinks if each is not sink)
        self._switch()

    def _switch(self) -> None:
        """Turn the taps of the processes on while there is a listener: otherwise they cost
        nothing.
        """
        for process in self._processes:
            process.on = bool(self._sinks)

    def hide(self, values: tuple[str, ...]) -> None:
        """Have all listeners replace these values from now on."""
        self.secrets |= set(values)
        self.put("secrets", 0, b"", {"values": values})

    def next_process(self) -> ProcessTap:
        """Return the tap of a process that is about to start."""
        number = self._processes[-1].number + 1 if self._processes else 1
        process = ProcessTap(self, number)
        process.on = bool(self._sinks)
        if process.on and number == 1:
            process.happened("session", agent=self.agent, protocol=self.protocol)
        # Of the earlier ones, the last may still be exiting.
        self._processes = (*self._processes[-1:], process)
        return process

    @property
    def process(self) -> ProcessTap:
        """The tap of the process that was started last."""
        return self._processes[-1] if self._processes else self.next_process()

    def put(
        self,
        kind: PieceKind,
        process: int,
        data: bytes,
        fields: Mapping[str, Any] | None,
    ) -> None:
        """Pass a piece on to all listeners."""
        piece = Piece(self._offset_s + self._clock(), self.session, process, kind, data, fields)
        for sink in self._sinks:
            sink.put(piece)

    def close(self) -> None:
        """Note the end of the session for all listeners."""
        self.closed = True
        for sink in self._sinks:
            sink.end()
        self._processes = ()  # they refer to this object


class ProcessTap:
    """The tap of one process: a `Watcher` (`pipes.py`)."""

    def __init__(self, tap: Tap, number: int) -> None:
        """Create the tap of process `number`, which reports to `tap`."""
        self.on = False
        self.number = number
        self._tap = tap

    def received(self, data: bytes) -> None:
        """Record data that was read from the agent."""
        self._tap.put("received", self.number, data, None)

    def sent(self, data: bytes) -> None:
        """Record data that was written to the agent."""
        self._tap.put("sent", self.number, data, None)

    def complained(self, data: bytes) -> None:
        """Record data from the agent's stderr."""
        self._tap.put("stderr", self.number, data, None)

    def happened(self, kind: TraceKind, **fields: Any) -> None:
        """Record another event."""
        self._tap.put(kind, self.number, b"", fields)
