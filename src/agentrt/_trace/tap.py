"""Where a session's wire can be listened to. While nobody does, nothing is called.

What comes is handed on as it is, in pieces as they were read: whoever listens makes lines of them,
later and elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from .record import Kind


class Piece(Struct, frozen=True, gc=False):
    """Something that happened: `data` of a pipe, or `fields` of something else."""

    t: float
    session: str
    process: int
    kind: Kind
    data: bytes = b""
    fields: Mapping[str, Any] | None = None


class Sink(Protocol):
    """Who listens. Neither may raise or wait."""

    def put(self, piece: Piece) -> None: ...

    def end(self) -> None:
        """The session is over."""
        ...


class Tap:
    """A session's wire."""

    def __init__(self) -> None:
        self.session = ""
        self.agent = ""
        self.protocol = ""
        self.env: Mapping[str, str] = {}
        """What the agent is given: some of it is secret."""
        self.closed = False
        self._sinks: tuple[Sink, ...] = ()
        self._now: Callable[[], float] = time.time
        self._processes: list[ProcessTap] = []

    def begin(self, session: str, wall: Callable[[], float], clock: Callable[[], float]) -> None:
        """The session has its name. Times go on from `wall` as `clock` goes on, never back."""
        self.session = session
        offset = wall() - clock()
        self._now = lambda: offset + clock()

    def add(self, sink: Sink) -> None:
        self._sinks = (*self._sinks, sink)
        self._switch()

    def remove(self, sink: Sink) -> None:
        self._sinks = tuple(each for each in self._sinks if each is not sink)
        self._switch()

    def _switch(self) -> None:
        for process in self._processes:
            process.on = bool(self._sinks)

    def next_process(self) -> ProcessTap:
        """The wire of a process that is about to start."""
        number = self._processes[-1].number + 1 if self._processes else 1
        process = ProcessTap(self, number)
        process.on = bool(self._sinks)
        if process.on and number == 1:
            process.happened("session", agent=self.agent, protocol=self.protocol)
        # Of those before, the last one may still be on its way out.
        self._processes = [*self._processes[-1:], process]
        return process

    @property
    def process(self) -> ProcessTap:
        """The wire of the process that was started last."""
        return self._processes[-1] if self._processes else self.next_process()

    def put(self, kind: Kind, process: int, data: bytes, fields: Mapping[str, Any] | None) -> None:
        piece = Piece(self._now(), self.session, process, kind, data, fields)
        for sink in self._sinks:
            sink.put(piece)

    def close(self) -> None:
        self.closed = True
        for sink in self._sinks:
            sink.end()


class ProcessTap:
    """One process's wire: a `Watcher` (`_process/pipes.py`)."""

    def __init__(self, tap: Tap, number: int) -> None:
        self.on = False
        self.number = number
        self._put = tap.put

    def received(self, data: bytes) -> None:
        self._put("received", self.number, data, None)

    def sent(self, data: bytes) -> None:
        self._put("sent", self.number, data, None)

    def complained(self, data: bytes) -> None:
        self._put("stderr", self.number, data, None)

    def happened(self, kind: Kind, **fields: Any) -> None:
        self._put(kind, self.number, b"", fields)
