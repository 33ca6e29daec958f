"""Notices that come again and again, and names in a row."""

from __future__ import annotations

import json

import pytest
from acp_kit import opened
from trio.testing import MockClock

import agentrt
from agentrt.events import Notice
from agentrt.testing import FakeClaudeAgent, MemoryAgent, open_fake_session

from .rig import Json, Rig

ALL_REPORTED = 16
"""So many notices about one subject are all reported; later ones at powers of two."""


def noticed(rig: Rig, *lines: Json | bytes) -> list[str]:
    return [each.message for each in rig.feed(*lines) if isinstance(each, Notice)]


def test_the_first_are_all_reported_and_later_ones_ever_more_rarely(rig: Rig) -> None:
    told = [message for _ in range(20) for message in noticed(rig, *[b"tick\n"] * 500)]
    first = told[0]
    assert told[:ALL_REPORTED] == [first] * ALL_REPORTED
    assert told[ALL_REPORTED] == f"{first} (32 times so far)"
    assert told[-1] == f"{first} (8192 times so far)"
    assert len(told) == ALL_REPORTED + 9


def test_what_happened_often_at_once_is_counted_so() -> None:
    peer = opened()

    def last(lines: int) -> str | None:
        found = [each for each in peer.raw(b"tick\n" * lines) if isinstance(each, Notice)]
        return found[-1].message if found else None

    assert last(1000) == "not a message (999 times so far)"  # ahead of the last line of a read
    assert last(20) is None
    assert last(20) == "not a message (1039 times so far)"


def test_things_are_counted_apart_but_not_without_end(rig: Rig) -> None:
    assert len(noticed(rig, *({"type": f"new{number}"} for number in range(3_000)))) < 300


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["make"] * 80, "make (80 times)"),
        (["make", "serve", "make"], "make (2 times), serve"),
        ([str(number) for number in range(7)], "0, 1, 2, 3, 4 and 2 more"),
    ],
)
async def test_names_in_a_row_are_named_once_and_not_all_of_them(
    autojump_clock: MockClock, names: list[str], listed: str
) -> None:
    async def program(process: MemoryAgent) -> None:
        async with FakeClaudeAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                for number, name in enumerate(names):
                    started = {"task_id": f"b{number}", "description": name}
                    agent.send({"type": "system", "subtype": "task_started", **started})
                prompt.end()

    opening = open_fake_session(lambda: MemoryAgent(program), protocol="claude")
    async with opening as session:
        told = session.subscribe(after=0)
        await session.run("work")
    notices = [event.message async for event in told if isinstance(event, agentrt.Notice)]
    assert any(message.endswith(f": {listed}") for message in notices), json.dumps(notices)
