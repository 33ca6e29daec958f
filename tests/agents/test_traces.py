"""What a real agent did is written down, and done again without it: to the same log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt.testing import check_log, replay, run_seeded, simulate

from .expectations import EXPECTATIONS
from .lab import Lab
from .story import Story, agent_of, session_with

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.parametrize("agent", [*EXPECTATIONS, "claude-2.1.165"]),
]

PATIENCE = 120.0
SCHEDULES = 10
CHANGES = 40


def test_what_an_agent_did_is_done_again_to_the_same_log(lab: Lab, tmp_path: Path) -> None:
    """Two prompts, a command that a person allows, and a cancel while text streams."""
    file = tmp_path / "trace.ndjson"
    story = trio.run(_lived, lab, file)
    logs = [run_seeded(_again, file, seed=seed) for seed in range(SCHEDULES)]
    assert all(log == logs[0] for log in logs)
    assert _told(logs[0]) == _told(story.events)
    # The program that was recorded, with whatever may happen to this agent.
    simulate(_talk_in_memory, lab, seeds=range(CHANGES), recorded={agent_of(lab).name: file})


async def _lived(lab: Lab, file: Path) -> Story:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.ask, trace=file) as (session, story):
            await _talk(session)
    return story


async def _talk(session: agentrt.Session) -> None:
    await session.run("Please [[text]]", check=False)
    async with session.prompt("Please [[shell]]") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                turn.answer(event.request, "allow_once")
    async with session.prompt("Please [[slow]]") as turn:
        async for event in turn:
            if isinstance(event, agentrt.TextDelta) and "word" in event.text:
                session.cancel()


async def _talk_in_memory(lab: Lab) -> None:
    async with agentrt.open_session(
        agent_of(lab), cwd=lab.work, permissions=agentrt.ask
    ) as session:
        await _talk(session)


async def _again(file: Path) -> list[Any]:
    events: list[Any] = []
    recorded = replay(file)
    async with recorded.open_session(permissions=agentrt.ask) as session:
        told = session.subscribe(after=0)
        await recorded.enact(session)
    events += [event async for event in told]
    recorded.check()
    check_log(events)
    return events


def _told(events: list[Any]) -> list[Any]:
    """What was said and done, without times, ids and the pieces in which it came."""
    said: dict[str, str] = {}
    told: list[Any] = []
    for event in events:
        match event:
            case agentrt.TurnStarted() | agentrt.PermissionOpened():
                told.append(type(event).__name__)
            case agentrt.TurnEnded(outcome=outcome, by=by):
                told.append((outcome, by))
            case agentrt.ItemOpened(item=item):
                told.append((item.type, item.tool.title if item.tool else item.text))
                said[item.id] = ""
            case agentrt.TextDelta(item=id, text=text):
                said[id] += text
            case agentrt.ItemClosed(item=id, status=status):
                told.append((status, said[id]))
            case agentrt.events.PermissionClosed(outcome=outcome):
                told.append(outcome)
    return told
