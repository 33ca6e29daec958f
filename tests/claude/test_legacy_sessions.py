"""Whole sessions with a program of the older dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import agentrt

from .test_fakecli import QUICK, session, texts, told

LEGACY: dict[str, Any] = {"legacy": True}


async def cancelled_at_the_question(s: agentrt.Session) -> agentrt.Turn:
    async with s.prompt("run it") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                turn.cancel()
    return turn


@pytest.mark.parametrize("scenario", ["legacy", "legacy_mute", "legacy_late"])
@pytest.mark.door("legacy", "prompt", "permission", "cancel")
async def test_a_cancelled_turn_ends_and_the_conversation_goes_on(scenario: str) -> None:
    """By the program's result, or by silence; never by the end of the process."""
    patient = structs.replace(QUICK, cancel_grace_s=60)
    async with session(scenario, limits=patient, permissions=agentrt.ask, claude=LEGACY) as s:
        turn = await cancelled_at_the_question(s)
        assert turn.result.outcome == "cancelled"
        pid = s.agent.pid
        async with s.prompt("and now") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.answer(event.request, "allow_once")
        assert (turn.result.outcome, turn.result.text) == (
            "completed",
            "I will run a command.\n\nIt was: approve",
        )
        assert s.agent.pid == pid


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"session_id": "11111111-2222-4333-8444-555555555555"}])
async def test_after_a_death_the_session_goes_on_under_another_id(
    given: dict[str, str], tmp_path: Path
) -> None:
    used = tmp_path / "used"
    claude = {"legacy": True, **given}
    agent_env = {"FAKELEGACY_USED": str(used)}
    async with session("legacy_dies", claude=claude, agent_env=agent_env) as s:
        assert (await s.run("one")).text == "Said: one"
        for _ in range(2):
            assert (await s.run("die", check=False)).outcome == "agent_died"
            assert (await s.run("two")).text == "Said: two"
        restarted = await told(s, agentrt.Notice)
        assert restarted.data == {"resumed": False}
    ids = used.read_text().split()
    assert len(set(ids)) == len(ids) == 3
    assert not given or ids[0] == given["session_id"]


async def test_what_it_cannot_do_is_refused_before_anything_is_started() -> None:
    @agentrt.tool
    async def record(summary: str) -> str:
        """Persist the outcome."""
        return summary

    for more, name in (({"tools": [record]}, "tools"), ({"resume": "s1"}, "resume")):
        with pytest.raises(agentrt.LocalProtocolError, match=f"has no {name}"):
            async with session("never_starts", claude=LEGACY, **more):
                pytest.fail("there is no session")


@pytest.mark.door("legacy", "stream")
async def test_texts_are_reported_once_though_they_come_as_snapshots() -> None:
    async with session("legacy", permissions=agentrt.allow_all, claude=LEGACY) as s:
        await s.run("go")
        assert texts(s) == ["I will run a command.", "It was: approve"]
