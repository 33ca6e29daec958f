"""Changes to a recording.

The same agent, with its output split, late, reordered or repeated; or the agent is killed, or its
turn cancelled, at any step.

A change has a kind and a place. The kinds in `HARMLESS` are such that a correct host cannot tell
the difference, so the turns must be the same as with the unchanged recording. After the others, the
host may behave differently; after a cancel, its later messages are compared by their kind only.

`mutations` yields every change, for a search without gaps; `picked` one at random, for `simulate`.

Every change keeps the recording playable: a line that is cut has both of its pieces, and messages
are only swapped if no other message lies between them.
"""

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

from ..tracing import TraceRecord
from .replay import Replay, records_of

MutationKind: TypeAlias = Literal["cut", "late", "reordered", "repeated", "dead", "cancelled"]
"""Kinds of changes to a recording:

- `cut`: a line arrives in two pieces;
- `late`: a pause before a line;
- `reordered`: two neighbouring messages that do not depend on each other are swapped;
- `repeated`: the answer to a prompt arrives twice (ACP);
- `dead`: the agent is killed in the middle of a line, or before it;
- `cancelled`: the turn is cancelled after a line, and the agent ignores it."""
HARMLESS: Final = frozenset[MutationKind]({"cut", "reordered", "repeated"})
"""Changes that no host may notice."""
LATE_DELAYS_S: Final = (1.0, 45.0)
"""Delays of a `late` line, in seconds."""

_ASIDE: Final = frozenset(
    {
        "available_commands_update",
        "session_info_update",
        "usage_update",
        "status",
        "thinking_tokens",
        "current_mode_update",
        "config_option_update",
    }
)
"""Messages that do not depend on the messages next to them."""
_KINDS: Final[tuple[MutationKind, ...]] = get_args(MutationKind)

Records = list[TraceRecord]


class Mutation(Struct, frozen=True, kw_only=True):
    """A recording with one change.

    `record` is the number of the changed line, starting at 1. `detail` adds the byte or the
    seconds. `str` of it names the change, for the id of a test.
    """

    kind: MutationKind
    """The kind of the change."""
    record: int
    detail: str
    records: list[TraceRecord]
    """The changed recording."""
    stop: TraceRecord | None = None
    """The record at which the turn is cancelled; None if this is not part of the change."""

    def __str__(self) -> str:
        return f"{self.kind} at record {self.record}" + (f", {self.detail}" if self.detail else "")

    def replay(self, *, speed: float = 1.0, patience: float = 60.0) -> Replay:
        """Return the changed recording as an agent; see `replay`."""
        return Replay(self.records, speed=speed, patience=patience, stop=self.stop)


def mutations(
    file: str | Path,
    kinds: Iterable[MutationKind] = _KINDS,
    *,
    session: str = "",
    step: int = 1,
) -> Iterator[Mutation]:
    """Yield every changed version of a trace.

    Example::

        for mutation in mutations("night.trace", ["dead"]):
            run_seeded(program, mutation.replay(), seed=0)

    - `kinds`: the kinds of changes; all by default.
    - `session`: prefix of the session's id, if the trace has several sessions.
    - `step`: bytes between two places in a line at which it is cut or the agent is killed; 1 tries
      every place.

    Raises `TraceError` and `ReplayMismatch` like `replay`, and `ValueError` for an invalid `step`.
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
    """Yield every change of these kinds to the records."""
    for kind in kinds:
        for number in received(records):
            yield from _of(kind, records, number, step)


def picked(records: Records, random: Random) -> Mutation:
    """Return one random change."""
    while True:
        kind = random.choice(_KINDS)
        number = random.choice(received(records))
        step = max(1, random.randrange(max(1, len(records[number].data))))
        if found := list(_of(kind, records, number, step)):
            return random.choice(found)


def _of(kind: MutationKind, records: Records, number: int, step: int) -> Iterator[Mutation]:
    """Yield the changes of one kind to the line at `number`."""
    stop = None
    changed: Iterator[tuple[str, Records]]
    match kind:
        case "cut":
            places = range(step, len(records[number].data), step)
            changed = ((f"byte {byte}", split(records, number, byte)) for byte in places)
        case "late":
            changed = ((f"{pause:g} s", delayed(records, number, pause)) for pause in LATE_DELAYS_S)
        case "reordered":
            changed = (("", each) for each in reordered(records, number))
        case "repeated":
            changed = (("", each) for each in repeated(records, number))
        case "dead":
            places = range(0, len(records[number].data), step)
            changed = ((f"byte {byte}", killed(records, number, byte)) for byte in places)
        case "cancelled":
            stop = replace(records[number], kind="sent", line="", raw=None)
            changed = iter([("", stopped(records, number, stop))])
    for detail, each in changed:
        yield Mutation(kind=kind, record=number + 1, detail=detail, records=each, stop=stop)


def received(records: Records) -> list[int]:
    """Return the places of the agent's messages."""
    return [number for number, record in enumerate(records) if record.kind == "received"]


def _part(record: TraceRecord, data: bytes, *, cut: bool) -> TraceRecord:
    """Return a record with other data, in the form in which a trace stores any bytes."""
    raw = base64.b64encode(data).decode()
    return replace(record, line=None, raw=raw, cut=cut)


def split(records: Records, number: int, byte: int) -> Records:
    """Return the records with one line in two pieces, divided at `byte`."""
    record = records[number]
    first = _part(record, record.data[:byte], cut=True)
    rest = _part(record, record.data[byte:], cut=record.cut)
    return [*records[:number], first, rest, *records[number + 1 :]]


def killed(records: Records, number: int, byte: int) -> Records:
    """Return the records with the agent killed after `byte` bytes of one line."""
    record = records[number]
    said = [_part(record, record.data[:byte], cut=True)] if byte else []
    death = TraceRecord(
        t=record.t, kind="exited", session=record.session, process=record.process, code=-9
    )
    # The host's later messages may now come before the messages that they followed.
    later = [
        each
        for each in records[number:]
        if each.process > record.process or (each.process == record.process and each.kind == "sent")
    ]
    return [*records[:number], *said, death, *later]


def delayed(records: Records, number: int, seconds: float) -> Records:
    """Return the records with one line and all later ones delayed by `seconds`."""
    return [
        replace(record, t=record.t + seconds) if place >= number else record
        for place, record in enumerate(records)
    ]


def stopped(records: Records, number: int, stop: TraceRecord) -> Records:
    """Return the records with the record `stop` inserted after one line."""
    # After the cancel, the host may decide differently.
    rest = [
        replace(later, redacted=True) if later.kind == "sent" else later
        for later in records[number + 1 :]
    ]
    return [*records[: number + 1], stop, *rest]


def reordered(records: Records, number: int) -> Iterator[Records]:
    """Yield the records with one line and the next swapped, if they are independent."""
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
    """Yield the recording with the answer repeated, at each later place."""
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
    """Return the kind of an update or system message; empty for others."""
    match _body(record):
        case {"params": {"update": {"sessionUpdate": str(kind)}}} | {
            "type": "system",
            "subtype": str(kind),
        }:
            return kind
    return ""


def _body(record: TraceRecord) -> dict[str, Any]:
    """Return a record as a JSON object; empty if it is not one."""
    try:
        body = json.loads(record.text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
