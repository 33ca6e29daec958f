"""What may happen to a recording: the same agent, cut anywhere, late, out of order, repeating
itself, dying, or stopped by somebody at any step."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from .._trace.record import TraceRecord
from .replay import Replay, records_of

MutationKind: TypeAlias = Literal["cut", "late", "reordered", "repeated", "dead", "cancelled"]
"""What is done to a recording:

- `cut`: a line comes in two pieces;
- `late`: a pause in front of a line;
- `reordered`: neighbours change places, one of which says nothing about the other;
- `repeated`: the answer to a prompt comes once more (ACP);
- `dead`: the agent is killed in the middle of a line, or in front of it;
- `cancelled`: the turn is cancelled behind a line, of which the agent takes no notice."""
HARMLESS: Final = frozenset[MutationKind]({"cut", "reordered", "repeated"})
"""What no host may notice."""
PAUSES: Final = (1.0, 45.0)
"""Seconds of a `late` line."""

_ASIDE: Final = frozenset(
    {
        *("available_commands_update", "session_info_update", "usage_update", "status"),
        *("thinking_tokens", "current_mode_update", "config_option_update"),
    }
)
"""Messages that say nothing about what stands beside them."""
_KINDS: Final[tuple[MutationKind, ...]] = get_args(MutationKind)

Records = list[TraceRecord]


class Mutation(Struct, frozen=True, kw_only=True):
    """A recording to which something has happened. `record` is the number of the line, from 1 on;
    `detail` says more: the byte, or the seconds."""

    kind: MutationKind
    record: int
    detail: str
    records: list[TraceRecord]
    stop: TraceRecord | None = None

    def __str__(self) -> str:
        return f"{self.kind} at record {self.record}" + (f", {self.detail}" if self.detail else "")

    def replay(self, *, speed: float = 1.0, patience: float = 60.0) -> Replay:
        """The agent; see `replay`."""
        return Replay(self.records, speed=speed, patience=patience, stop=self.stop)


def mutations(
    file: str | Path,
    kinds: Iterable[MutationKind] = _KINDS,
    *,
    session: str = "",
    step: int = 1,
) -> Iterator[Mutation]:
    """A trace, and all that may happen to it, one after the other::

        for mutation in mutations("night.trace", ["dead"]):
            run_seeded(program, mutation.replay(), seed=0)

    - `session`: the beginning of its id, where the trace has several.
    - `step`: bytes of a line between two places at which it is cut, or the agent dies. 1 is each.

    Raises `TraceError`, `Departed` as `replay` does, `ValueError`.
    """
    if step < 1:
        raise ValueError(f"step is a number of bytes from 1 on, not {step!r}")
    chosen = tuple(kinds)
    for kind in chosen:
        if kind not in _KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are: {', '.join(_KINDS)}")
    return changed_so(chosen, records_of(file, session), step)


def changed_so(
    kinds: Iterable[MutationKind], records: Records, step: int = 1
) -> Iterator[Mutation]:
    """All that may happen to these, in these ways."""
    for kind in kinds:
        for number in received(records):
            yield from _of(kind, records, number, step)


def picked(records: Records, random: Random) -> Mutation:
    """One of all."""
    while True:
        kind = random.choice(_KINDS)
        number = random.choice(received(records))
        step = max(1, random.randrange(max(1, len(records[number].data))))
        if found := list(_of(kind, records, number, step)):
            return random.choice(found)


def _of(kind: MutationKind, records: Records, number: int, step: int) -> Iterator[Mutation]:
    """What of one kind may happen to the line at that place."""
    stop = None
    changed: Iterator[tuple[str, Records]]
    match kind:
        case "cut":
            places = range(step, len(records[number].data), step)
            changed = ((f"byte {byte}", split(records, number, byte)) for byte in places)
        case "late":
            changed = ((f"{pause:g} s", late(records, number, pause)) for pause in PAUSES)
        case "reordered":
            changed = (("", each) for each in reordered(records, number))
        case "repeated":
            changed = (("", each) for each in repeated(records, number))
        case "dead":
            places = range(0, len(records[number].data), step)
            changed = ((f"byte {byte}", dead(records, number, byte)) for byte in places)
        case "cancelled":
            stop = replace(records[number], kind="sent", line="", raw=None)
            changed = iter([("", stopped(records, number, stop))])
    for detail, each in changed:
        yield Mutation(kind=kind, record=number + 1, detail=detail, records=each, stop=stop)


def received(records: Records) -> list[int]:
    """The places of what the agent said."""
    return [number for number, record in enumerate(records) if record.kind == "received"]


def _part(record: TraceRecord, data: bytes, *, cut: bool) -> TraceRecord:
    raw = base64.b64encode(data).decode()
    return replace(record, line=None, raw=raw, cut=cut)


def split(records: Records, number: int, byte: int) -> Records:
    record = records[number]
    first = _part(record, record.data[:byte], cut=True)
    rest = _part(record, record.data[byte:], cut=record.cut)
    return [*records[:number], first, rest, *records[number + 1 :]]


def dead(records: Records, number: int, byte: int) -> Records:
    record = records[number]
    said = [_part(record, record.data[:byte], cut=True)] if byte else []
    death = TraceRecord(
        t=record.t, kind="exited", session=record.session, process=record.process, code=-9
    )
    # What the host has said behind that, it may say to what came ahead of it.
    later = [
        each
        for each in records[number:]
        if each.process > record.process or (each.process == record.process and each.kind == "sent")
    ]
    return [*records[:number], *said, death, *later]


def late(records: Records, number: int, seconds: float) -> Records:
    return [
        replace(record, t=record.t + seconds) if place >= number else record
        for place, record in enumerate(records)
    ]


def stopped(records: Records, number: int, stop: TraceRecord) -> Records:
    # What a host decides behind it is another thing.
    rest = [
        replace(later, redacted=True) if later.kind == "sent" else later
        for later in records[number + 1 :]
    ]
    return [*records[: number + 1], stop, *rest]


def reordered(records: Records, number: int) -> Iterator[Records]:
    places = received(records)
    for first, second in pairwise(places):
        one, other = records[first], records[second]
        aside = (_kind(one) in _ASIDE) != (_kind(other) in _ASIDE)
        if first == number and second == first + 1 and aside and not (one.cut or other.cut):
            yield [
                *records[:first],
                replace(other, t=one.t),
                replace(one, t=other.t),
                *records[second + 1 :],
            ]


def repeated(records: Records, number: int) -> Iterator[Records]:
    """At each place behind it."""
    process = records[number].process
    prompts = {
        body["id"]
        for record in records
        if record.kind == "sent" and (body := _body(record)).get("method") == "session/prompt"
    }
    body = _body(records[number])
    if "method" not in body and body.get("id") in prompts:
        for place in range(number + 2, len(records)):
            if records[place - 1].process == process and not records[place - 1].cut:
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
    try:
        body = json.loads(record.text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
