"""What may happen to a recording: the same agent, cut anywhere, late, out of order, dying,
repeating itself, or cancelled at any step."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from agentrt._trace.record import TraceRecord

Records = list[TraceRecord]

_ASIDE = frozenset(
    {
        *("available_commands_update", "session_info_update", "usage_update", "status"),
        *("thinking_tokens", "current_mode_update", "config_option_update"),
    }
)
"""Messages that say nothing about what stands beside them."""


def received(records: Records) -> list[int]:
    """The places of what the agent said."""
    return [number for number, record in enumerate(records) if record.kind == "received"]


def _part(record: TraceRecord, data: bytes, *, t: float = 0.0, cut: bool) -> TraceRecord:
    raw = base64.b64encode(data).decode()
    return replace(record, t=record.t + t, line=None, raw=raw, cut=cut)


def split(records: Records, number: int, byte: int) -> Records:
    """The line comes in two pieces."""
    record = records[number]
    first = _part(record, record.data[:byte], cut=True)
    rest = _part(record, record.data[byte:], cut=False)
    return [*records[:number], first, rest, *records[number + 1 :]]


def dead(records: Records, number: int, byte: int) -> Records:
    """The agent is killed in the middle of the line, or in front of it."""
    record = records[number]
    said = [_part(record, record.data[:byte], cut=True)] if byte else []
    death = TraceRecord(
        t=record.t, kind="exited", session=record.session, process=record.process, code=-9
    )
    return [*records[:number], *said, death]


def late(records: Records, number: int, seconds: float) -> Records:
    """A pause in front of the line."""
    return [
        replace(record, t=record.t + seconds) if place >= number else record
        for place, record in enumerate(records)
    ]


def cancelled(records: Records, number: int) -> Records:
    """The host cancels behind the line, of which the agent takes no notice."""
    record = records[number]
    notice = json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
    cancel = replace(record, kind="sent", line=notice)
    # What is decided then is another thing.
    rest = [
        replace(later, redacted=True) if later.kind == "sent" else later
        for later in records[number + 1 :]
    ]
    return [*records[: number + 1], cancel, *rest]


def reordered(records: Records) -> Iterator[Records]:
    """Neighbours changed round, one of which is about something else."""
    places = received(records)
    for first, second in pairwise(places):
        one, other = records[first], records[second]
        if second == first + 1 and (_kind(one) in _ASIDE) != (_kind(other) in _ASIDE):
            yield [
                *records[:first],
                replace(other, t=one.t),
                replace(one, t=other.t),
                *records[second + 1 :],
            ]


def repeated(records: Records) -> Iterator[Records]:
    """The answer to a prompt once more, at each place behind it."""
    prompts = {
        body["id"]
        for record in records
        if record.kind == "sent" and (body := _body(record)).get("method") == "session/prompt"
    }
    for number in received(records):
        body = _body(records[number])
        if "method" not in body and body.get("id") in prompts:
            for place in range(number + 2, len(records)):
                again = replace(records[number], t=records[place - 1].t)
                yield [*records[:place], again, *records[place:]]


def _kind(record: TraceRecord) -> str:
    match _body(record):
        case {"params": {"update": {"sessionUpdate": str(kind)}}} | {
            "type": "system",
            "subtype": str(kind),
        }:
            return kind
    return ""


def _body(record: TraceRecord) -> dict[str, Any]:
    body = json.loads(record.text)
    return body if isinstance(body, dict) else {}
