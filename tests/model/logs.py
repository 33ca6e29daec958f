"""Logs, and readers of everything in them."""

from __future__ import annotations

from agentrt import Limits
from agentrt.events import Event
from agentrt.lowlevel import Cursor, Log, SessionState


def make_log(events: int = 4096, size: int = 4 * 1024 * 1024) -> Log:
    return Log("s1", "e1", Limits(recent_events=events, recent_events_bytes=size), SessionState())


def fill(log: Log, *events: Event, batch: int = 1) -> None:
    for number, event in enumerate(events, 1):
        log.append(event)
        if number % batch == 0:
            log.publish()
    log.publish()


def drain(cursor: Cursor) -> list[Event]:
    return [event for _, event in drain_numbered(cursor)]


def drain_numbered(cursor: Cursor) -> list[tuple[int, Event]]:
    found = []
    while (event := cursor.pop()) is not None:
        found.append((cursor.seq, event))
    return found
