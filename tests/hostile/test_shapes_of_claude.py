"""Failures of `docs/project/claude-shapes.md`, shown by scripted programs."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

import agentrt

from .kit import BOUND, PATIENT, notices, until

PROGRAM = str(Path(__file__).with_name("odd_claude.py"))


@asynccontextmanager
async def odd_claude(scenario: str, **options: Any) -> AsyncIterator[agentrt.Session]:
    agent = agentrt.agents.claude([sys.executable, PROGRAM, scenario])
    limits = options.pop("limits", PATIENT)
    with trio.fail_after(2 * BOUND):
        async with agentrt.open_session(agent, limits=limits, **options) as session:
            yield session


@agentrt.tool
async def record(summary: str) -> str:
    """Take a note."""
    await trio.lowlevel.checkpoint()
    return summary


async def test_4_sixty_tool_calls_of_a_turn_that_nobody_reads_are_answered() -> None:
    small = replace(PATIENT, recent_events=16, recent_events_bytes=4096)
    async with odd_claude("many_tools", tools=[record], limits=small) as session:
        async with session.prompt("go") as turn:
            await until(session, lambda: turn.ended)
        assert turn.result.outcome == "completed"
        told = json.loads(turn.result.text.rpartition("word ")[2])
        assert told == [str(number) for number in range(60)]


async def test_5_a_cancel_gets_through_although_nobody_reads() -> None:
    async with odd_claude("slow") as session:
        for _ in range(2):
            async with session.prompt("go") as turn:
                await until(session, lambda: len(session.snapshot().items) > 1)
                await trio.sleep(0.2)  # dozens of messages that nobody looks at
                turn.cancel()
            assert turn.result.outcome == "cancelled"
        assert await notices(session) == []


async def test_7_lines_that_are_too_long_cost_themselves_and_not_the_session() -> None:
    limits = replace(PATIENT, message_bytes=100_000)
    async with odd_claude("long_line", limits=limits) as session:
        assert (await session.run("go")).text == "short"
        assert await notices(session) == ["line_too_long"]
        result = await session.run("go")  # by the fate of its prompt: its result was lost
        assert result.text == "short"
        assert "You said: again" in (await session.run("again")).text
        assert await notices(session) == ["line_too_long", "line_too_long"]
