"""A property of turns that holds for every implementation; `benchmarks/costs.py` reports more."""

from __future__ import annotations

import gc

import pytest

import agentrt
from agentrt.testing import ScriptedAgents, says

TURNS = 20


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
async def test_turns_leave_nothing_for_the_garbage_collector(
    agent: str, scripted_agents: ScriptedAgents
) -> None:
    scripted_agents[agent] = says("a word")
    async with agentrt.open_session(agent, cwd="/") as session:
        await session.run("first")
        gc.collect()
        gc.disable()
        try:
            for _ in range(TURNS):
                await session.run("next")
            assert gc.collect() < TURNS
        finally:
            gc.enable()
