"""A property of turns that holds for every implementation; `benchmarks/costs.py` reports more."""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack

import pytest

import agentrt
from agentrt.testing import FakeAgent, ScriptedAgents, says

TURNS = 20


@pytest.mark.parametrize(
    "agent",
    ["gemini", *(pytest.param(name, marks=pytest.mark.slow) for name in ("claude", "codex"))],
)
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


CALLS = 200


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["claude", "gemini"])
async def test_a_long_conversation_does_not_lengthen_garbage_collections(
    agent: str, scripted_agents: ScriptedAgents
) -> None:
    async def works(fake: FakeAgent) -> None:
        count = 0
        async for prompt in fake.prompts:
            for _ in range(CALLS):
                count += 1
                fake.think(f"thought {count}")
                fake.use(f"c{count}", f"ls {count}")
                fake.used(f"c{count}", f"output {count}")
                fake.say(f"text {count}")
            prompt.end()

    def examined() -> int:
        scripted_agents.sessions[0].events.clear()
        gc.collect()
        return len(gc.get_objects())

    scripted_agents[agent] = works
    limits = agentrt.Limits(recent_events=20)  # those may be examined
    async with agentrt.open_session(agent, cwd="/", limits=limits) as session:
        await session.run("first")
        before = examined()
        await session.run("next")
        assert len(session.snapshot().items) > 6 * CALLS
        assert examined() - before < CALLS / 2


@pytest.mark.slow
async def test_an_idle_session_has_few_objects_for_the_garbage_collector(
    scripted_agents: ScriptedAgents,
) -> None:
    scripted_agents["gemini"] = says("a word")
    async with AsyncExitStack() as stack:
        counts = []
        for _ in range(4):
            await stack.enter_async_context(agentrt.open_session("gemini", cwd="/"))
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert (counts[-1] - counts[0]) / 3 < 580  # including the scripted agent
