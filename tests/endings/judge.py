"""Decide whether an ending has lost a prompt, sent one twice or changed their order. No I/O."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct


class Session(Struct):
    """Everything that is known of one session before and after an ending."""

    name: str
    sent: list[str] = []
    """The prompts of the client, in the order in which they were sent."""
    acknowledged: list[str] = []
    """Those that the server has acknowledged before it ended."""
    turns: list[str] = []
    """The prompts of the turns that are there afterwards."""
    queue: list[str] = []
    """The prompts that wait afterwards."""
    paused: bool = True
    """Whether all of them are paused."""
    received: list[str] = []
    """The prompts that agents have got in the end, when the queue was resumed."""


class Verdict(Struct):
    """Prompts that break a promise, with the session's name."""

    lost: list[str] = []
    twice: list[str] = []
    order: list[str] = []
    unasked: list[str] = []
    """Prompts that waited, and were not paused afterwards."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.twice or self.order or self.unasked)

    def add(self, other: Verdict) -> None:
        self.lost += other.lost
        self.twice += other.twice
        self.order += other.order
        self.unasked += other.unasked


def judge(session: Session) -> Verdict:
    """Judge one session after its queue was resumed and has run out."""
    verdict = Verdict()
    there = [*session.turns, *session.queue]
    count, got = Counter(there), Counter(session.received)
    told = f"of {session.name}: turns {session.turns}, queue {session.queue}"
    for prompt in session.acknowledged:
        if not count[prompt]:
            verdict.lost.append(f"{prompt} {told}")
    for prompt in session.queue:
        if not got[prompt]:
            verdict.lost.append(f"{prompt} waited {told}, and no agent has got it")
    for prompt in session.sent:
        if count[prompt] > 1 or got[prompt] > 1:
            verdict.twice.append(f"{prompt} {told}, agents got {session.received}")
    for found in (there, session.received):
        known = [prompt for prompt in found if prompt in session.acknowledged]
        if known != sorted(known, key=session.sent.index):
            verdict.order.append(f"{known} {told}")
    if session.queue and not session.paused:
        verdict.unasked.append(f"{session.queue} {told}")
    return verdict
