"""What clients, agents and tables say happened, and whether that can be.

A history is data: a run collects one, and a test makes one up in which something is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from agentrt.events import Event
from agentrt.testing import LogBroken, check_log
from web.killable import standing_for

Json = dict[str, Any]

ENDED = ("completed", "cancelled")
"""How a turn ends that nobody has disturbed."""


class Shown(Struct):
    """An event that a client was shown. `since`: the number before it, or before the first of those
    that it stands for."""

    client: str
    session: str
    epoch: str
    since: int
    seq: int
    event: Json


class Said(Struct):
    """A prompt that a client has sent, under one id or several; no text is used twice.

    `answer`: what the server has said at last, `error` what it has refused it for before. None: it
    is not known what became of it."""

    client: str
    session: str
    text: str
    answer: Json | None = None
    refused: list[str] = field(default_factory=list)


class Frame(Struct):
    """A row of the table of frames."""

    first: int
    last: int
    owner: int
    events: list[Json]


class Stored(Struct):
    """A session as the tables have it."""

    id: str
    epoch: str
    next: int
    owner: int
    frames: list[Frame]


class Process(Struct):
    """An agent that is alive. `of`: the process id of the server that has started it."""

    pid: int
    of: int
    started: float


class Lease(Struct):
    num: int
    pid: int
    since: float
    until: float


class Look(Struct):
    """The leases that the database had at an instant, and the agents that were alive behind it."""

    at: float
    leases: list[Lease]
    agents: list[Process]


class History(Struct):
    shown: list[Shown] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What clients found wrong themselves: a gap, an event that came twice, a turn that ended
    again."""
    received: list[str] = field(default_factory=list)
    """The prompts that agents got, all of them together."""
    overdue: list[str] = field(default_factory=list)
    """Agents that lived longer than their lease."""
    sessions: list[Stored] = field(default_factory=list)


def check(history: History) -> list[str]:
    """What cannot be, in words; nothing if all is well."""
    found = [*history.broken, *history.overdue]
    for session in history.sessions:
        found += frames_of(session)
        found += ends_of(session)
    found += shown_of(history)
    found += prompts_of(history)
    return found


def frames_of(session: Stored) -> Iterator[str]:
    """The frames follow each other without a gap and without an overlap, no earlier owner has
    written behind a later one, and what is in them is a log."""
    expected, owner = 1, 0
    for frame in session.frames:
        where = f"{session.id}: frame {frame.first} to {frame.last}"
        if frame.first != expected:
            yield f"{where} follows {expected - 1}"
        if len(frame.events) != frame.last - frame.first + 1:
            yield f"{where} has {len(frame.events)} events"
        if frame.owner < owner:
            yield f"{where} is of the owner {frame.owner}, behind one of {owner}"
        expected, owner = frame.last + 1, max(owner, frame.owner)
    if expected != session.next:
        yield f"{session.id}: the next event is {session.next}, and the last frame's {expected - 1}"
    if owner > session.owner:
        yield f"{session.id}: a frame is of the owner {owner}, and the last is {session.owner}"
    events = [event for frame in session.frames for event in frame.events]
    try:
        # What an agent had asked outlives it, and may be open in the end.
        check_log(msgspec.convert(events, list[Event]), whole=False)
    except LogBroken as broken:
        yield f"{session.id}: {broken}"


def ends_of(session: Stored) -> Iterator[str]:
    """Each turn that has begun has ended, once; that it was open until then `check_log` says."""
    count: Counter[str] = Counter()
    for _, event in numbered(session):
        if event["kind"] in ("turn.started", "turn.ended"):
            count[event["turn"]] += 1
    for turn, marks in count.items():
        if marks != 2:
            yield f"{session.id}: the turn {turn} has begun and not ended, or has ended twice"


def shown_of(history: History) -> Iterator[str]:
    """What anybody was shown is stored, as it was shown. A session that ends without ever having
    had a turn is kept nowhere."""
    stored = {session.id: (session.epoch, dict(numbered(session))) for session in history.sessions}
    used = {said.session for said in history.said if said.answer is not None}
    used |= {shown.session for shown in history.shown if shown.event["kind"] == "turn.started"}
    for shown in history.shown:
        if shown.session not in stored and shown.session not in used:
            continue
        if shown.session not in stored:
            yield f"{shown.client} was shown {shown.session}, of which nothing is stored"
            continue
        epoch, events = stored[shown.session]
        what = f"{shown.client} was shown {shown.session} {shown.seq}"
        if shown.epoch != epoch:
            yield f"{what} in the epoch {shown.epoch}; it is {epoch}"
            continue
        for number in range(shown.since + 1, shown.seq + 1):
            if number not in events:
                yield f"{shown.client} was shown {shown.session} {number}, which is lost"
        if shown.seq in events and standing_for(events, shown.since, shown.seq) != shown.event:
            yield f"{what} as {shown.event}; stored is {events[shown.seq]}"


def prompts_of(history: History) -> Iterator[str]:
    """A prompt is a turn once at the most, and at least if it was acknowledged as one; an agent
    gets it once, and only if it is stored."""
    turns: defaultdict[str, list[str]] = defaultdict(list)
    waits: set[str] = set()
    for session in history.sessions:
        for _, event in numbered(session):
            if event["kind"] == "turn.started" and event.get("prompt"):
                turns[text_of(event["prompt"])].append(event["turn"])
            elif event["kind"] == "queue":
                waits.update(text_of(entry["content"]) for entry in event["queue"])
    for text, ids in turns.items():
        if len(ids) > 1:
            yield f"the prompt {text} was the turns {ids}"
    for text, count in Counter(history.received).items():
        if count > 1:
            yield f"an agent got the prompt {text} {count} times"
        if text not in turns:
            yield f"an agent got the prompt {text}, which is not stored"
    for said in history.said:
        answer = said.answer
        if answer is None:
            continue
        turn = answer.get("turn")
        if turn is not None and turns[said.text] != [turn]:
            yield f"{said.text} was acknowledged as {turn}, and is {turns[said.text]}"
        elif turn is None and said.text not in waits and not turns[said.text]:
            yield f"{said.text} was acknowledged as waiting, and is nowhere"


def numbered(session: Stored) -> Iterator[tuple[int, Json]]:
    for frame in session.frames:
        yield from enumerate(frame.events, frame.first)


def text_of(content: list[Json]) -> str:
    return "".join(block.get("text", "") for block in content)


def overdue(look: Look) -> Iterator[str]:
    """Agents that were alive when the lease under which they were started was over. A lease that is
    over is never renewed, and one that is no longer there was given back."""
    for agent in look.agents:
        if agent.started >= look.at:
            continue
        before = [
            lease for lease in look.leases if lease.pid == agent.of and lease.since <= agent.started
        ]
        lease = max(before, key=lambda lease: lease.since, default=None)
        if lease is None or lease.until < look.at:
            late = (
                "was given back" if lease is None else f"is over for {look.at - lease.until:.2f} s"
            )
            yield f"the agent {agent.pid} of the server {agent.of} is alive, and its lease {late}"


def disturbed(history: History) -> list[str]:
    """What a client would not have seen if nobody had restarted anything: prompts that were
    refused, and turns that did not end by themselves."""
    found = [f"{each.text} was refused: {each.refused}" for each in history.said if each.refused]
    for session in history.sessions:
        found += [
            f"{session.id}: the turn {event['turn']} ended as {event['outcome']}:"
            f" {event.get('error')}"
            for _, event in numbered(session)
            if event["kind"] == "turn.ended" and event["outcome"] not in ENDED
        ]
    return found
