"""What a program does with sessions, on Trio and on asyncio."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentrt
from agentrt import aio
from aio.kit import run

pytestmark = pytest.mark.slow


@agentrt.tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


def prompts(session: agentrt.Session) -> int:
    return sum(item.type == "user" for item in session.snapshot().items)


@pytest.mark.door("python", "resume", "tools")
async def test_a_program_resumes_and_lends_its_tools(tmp_path: Path) -> None:
    opening = agentrt.open_session
    async with opening("demo", cwd=tmp_path, tools=[add], mode="auto") as session:
        await session.run('/tool add {"a": 2, "b": 3}')
        [call] = [item.tool for item in session.snapshot().items if item.tool is not None]
        assert "the sum is 5" in str(call.content)
        known = session.agent_session
    async with opening("demo", cwd=tmp_path, resume=known) as session:
        assert prompts(session) == 1
        assert (await session.run("hello")).outcome == "completed"


@pytest.mark.door("asyncio", "resume", "fork")
def test_a_program_on_asyncio_resumes_and_forks(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_runtime() as runtime:
            first = await runtime.create("demo", cwd=tmp_path, model="instant")
            turn = (await first.run("hello")).turn
            await first.run("hello again")
            fork = await runtime.fork(first.id, at=turn)
            assert (prompts(first), prompts(fork)) == (2, 1)
            assert (await fork.run("hello")).outcome == "completed"
            known = first.agent_session
        async with aio.open_session("demo", cwd=tmp_path, resume=known) as session:
            assert prompts(session) == 2

    run(main)
