"""What holds of a session, whatever its agent does, besides the shape of its log: what is shown is
what happened, and each end of the wire gets what it is owed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import agentrt
from agentrt.testing import check_log
from agentrt.tracing import TraceConversation, TraceRecord, TraceRow
from simulation.fold import Fold, as_json

_WRONG = frozenset(
    {
        "answers no request",
        "answered a second time",
        "asks by an id that is still in use",
        "not a message of the protocol",
        "not UTF-8",
    }
)
"""What agentrt itself never says on the wire."""


def check_shown(events: list[Any], snapshot: agentrt.events.Snapshot | None) -> None:
    """The events are what the session says of itself, to the last word."""
    check_log(events)
    if snapshot is not None:
        fold = Fold()
        fold.advance(events[: snapshot.seq])
        assert not fold.differs(as_json(snapshot))


def check_wire(records: Iterable[TraceRecord], protocol: str) -> None:
    """Each request of the agent is answered once, before agentrt leaves; a prompt is only sent when
    none is under way."""
    conversation = TraceConversation()
    asked: dict[tuple[int, Any], TraceRow] = {}
    prompt: dict[int, Any] = {}
    for record in records:
        if record.kind == "stdin_closed":
            owed = [row.what for (process, _), row in asked.items() if process == record.process]
            assert not owed, f"left without an answer to {owed}"
        if record.kind in ("exited", "stdout_closed", "signal"):
            asked = {key: row for key, row in asked.items() if key[0] != record.process}
            prompt.pop(record.process, None)
        for row in [*conversation.feed(record), *conversation.flush()]:
            message, key = row.message, (row.process, repr(row.id))
            if row.kind == "sent":
                wrong = _WRONG.intersection(row.odd)
                assert not wrong, f"{row.what}: {wrong}: {record.text}"
                if message is not None and message.kind == "answer":
                    asked.pop(key, None)
                elif row.what == "session/prompt":
                    assert row.process not in prompt, f"a second prompt: {record.text}"
                    prompt[row.process] = row.id
            elif message is not None and row.kind == "received" and not row.odd:
                if message.kind == "request" and not _is_of_claudes_own(row):
                    asked[key] = row
                elif message.kind == "answer" and prompt.get(row.process) == row.id:
                    del prompt[row.process]
                elif id := _withdrawn(message.body):
                    asked.pop((row.process, repr(id)), None)


def _is_of_claudes_own(row: TraceRow) -> bool:
    """What it says to its model stands in its messages as what is said to it."""
    return row.what == "user"


def _withdrawn(body: Any) -> Any:
    match body:
        case {"type": "control_cancel_request", "request_id": id} | {
            "method": "$/cancel_request",
            "params": {"requestId": id},
        }:
            return id
    return None
