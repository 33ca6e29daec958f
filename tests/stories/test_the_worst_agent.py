"""All of it at once: an agent that never reads its input, floods its output, ignores the cancel,
the end of its input and SIGTERM, and has a grandchild in a session of its own that holds its pipes
open. Its turn ends in bounded time, and the next prompt on the same session works."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import LADDER, SHORT, bad_session, works


def misbehave(agent: Agent, prompt: Message) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent.spawn("trap '' TERM; while :; do sleep 1; done", start_new_session=True)
    while True:
        agent.say("nothing but noise " * 100)


@pytest.mark.parametrize("how", ["by its caller's scope", "by a stop", "by the hard limit"])
async def test_the_worst_agent_costs_one_turn(how: str, tmp_path: Path) -> None:
    async with bad_session(misbehave=misbehave, once=tmp_path / "ran") as session:
        with trio.fail_after(0.5 + SHORT.cancel_grace + LADDER + 1):
            if how == "by its caller's scope":
                with trio.move_on_after(0.5):
                    await session.run("misbehave")
            elif how == "by a stop":
                async with session.prompt("misbehave") as turn:
                    async for event in turn:
                        if isinstance(event, agentrt.TextDelta):
                            session.cancel()
            else:
                limits = agentrt.Limits(hard=0.5, cancel_grace=SHORT.cancel_grace)
                await session.run("misbehave", limits=limits, check=False)
            await works(session)
        ended = "timed_out" if how == "by the hard limit" else "cancelled"
        assert [turn.outcome for turn in session.snapshot().turns] == [ended, "completed"]
