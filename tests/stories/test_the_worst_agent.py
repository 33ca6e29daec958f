"""All of it at once: an agent that never reads its input, whose pipe is full of answers so that no
cancel gets in; that floods its output, ignores the end of its input and SIGTERM, and has a
grandchild in a session of its own that holds its pipes open. Its turn ends in bounded time, and the
next prompt on the same session works."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import BOUND, LADDER, SHORT, bad_session

Open: TypeAlias = Callable[[Path], AbstractAsyncContextManager[agentrt.Session]]


def misbehave(agent: Agent, prompt: Message) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent.spawn("trap '' TERM; while :; do sleep 1; done", start_new_session=True)
    for _ in range(2000):  # whose answers fill its input, so that nothing else gets in
        agent.begin_request("_vendor/question", {})
    while True:
        agent.say("nothing but noise " * 100)


def acp(ran: Path) -> AbstractAsyncContextManager[agentrt.Session]:
    return bad_session(misbehave=misbehave, once=ran, limits=SHORT)


@asynccontextmanager
async def claude(ran: Path) -> AsyncIterator[agentrt.Session]:
    program = str(Path(__file__).with_name("worst_claude.py"))
    agent = agentrt.agents.claude([sys.executable, program, str(ran)])
    with trio.fail_after(2 * BOUND):
        async with agentrt.open_session(agent, limits=SHORT) as session:
            yield session


@pytest.mark.slow
@pytest.mark.parametrize("worst", [acp, claude])
@pytest.mark.parametrize("how", ["by its caller's scope", "by a stop", "by the hard limit"])
async def test_the_worst_agent_costs_one_turn(worst: Open, how: str, tmp_path: Path) -> None:
    async with worst(tmp_path / "ran") as session:
        first = session.agent.pid
        with trio.fail_after(0.5 + SHORT.cancel_grace_s + LADDER + BOUND / 2):  # a busy machine's
            if how == "by its caller's scope":
                with trio.move_on_after(0.5):
                    await session.run("misbehave")
            elif how == "by a stop":
                async with session.prompt("misbehave") as turn:
                    async for event in turn:
                        if isinstance(event, agentrt.TextDelta):
                            session.cancel()
            else:
                limits = agentrt.Limits(turn_timeout_s=0.5, cancel_grace_s=SHORT.cancel_grace_s)
                await session.run("misbehave", limits=limits, check=False)
            assert "hello" in (await session.run("hello")).text
        assert session.agent.pid != first
        ended = "timed_out" if how == "by the hard limit" else "cancelled"
        assert [turn.outcome for turn in session.snapshot().turns] == [ended, "completed"]
