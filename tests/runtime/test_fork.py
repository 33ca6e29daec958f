"""Copies of sessions, of which the first one stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.testing import MockClock

from agentrt import Busy, Runtime, SessionNotFound
from agentrt._errors import LocalProtocolError
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from runtime.fakes import Incarnations

FORKS = {"sessionCapabilities": {"fork": {}, "resume": {}}}


async def echo(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.say(prompt.text)
        if prompt.text != "wait":
            prompt.end()
        else:
            await prompt.cancelled.wait()
            prompt.end("cancelled")


@asynccontextmanager
async def runtime_with(**fake: object) -> AsyncIterator[tuple[Runtime, Incarnations]]:
    agents = Incarnations(echo, **fake)
    async with open_fake_runtime({"fake": agents.start}) as runtime:
        yield runtime, agents


async def test_a_fork_is_another_session_with_a_process_of_its_own(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(capabilities=FORKS) as (runtime, agents):
        first = await runtime.create("fake", cwd="/work")
        await first.run("hello")
        fork = await runtime.fork(first.id)
        assert fork.id != first.id
        assert (first.agent_session, fork.agent_session) == ("s1", "s1-fork")
        [asked] = agents.sent("session/fork")
        assert (asked["params"]["sessionId"], asked["params"]["cwd"]) == ("s1", "/work")
        assert (await fork.run("in the fork")).text == "in the fork"
        assert len(first.snapshot().turns) == 1
        await fork.aclose()
        assert (await first.run("still here")).text == "still here"


async def test_what_cannot_be_forked_is_refused(autojump_clock: MockClock) -> None:
    async with runtime_with(capabilities=FORKS) as (runtime, _):
        with pytest.raises(SessionNotFound, match="'nobody'"):
            await runtime.fork("nobody")
        session = await runtime.create("fake")
        with pytest.raises(LocalProtocolError, match="nothing was said"):
            await runtime.fork(session.id)
        async with session.prompt("wait") as turn:
            with pytest.raises(Busy, match="a turn runs"):
                await runtime.fork(session.id)
            turn.cancel()
        assert len(runtime.list()) == 1


async def test_an_agent_that_cannot_is_not_asked(autojump_clock: MockClock) -> None:
    async with runtime_with() as (runtime, agents):
        session = await runtime.create("fake")
        await session.run("hello")
        with pytest.raises(LocalProtocolError, match="fake cannot fork a session"):
            await runtime.fork(session.id)
        assert len(agents.processes) == 1
