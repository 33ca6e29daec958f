"""The ceiling of a turn was looked at only while nothing came, so an agent that streamed for ever
never met it; and the prompt after an abandoned one got the abandoned one's answer."""

from __future__ import annotations

import sys
import time

import pytest
from msgspec import structs

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import PATIENT, SHORT, Marks, bad_session, outcomes, works

HARD = 0.4


def streams(agent: Agent, prompt: Message) -> None:
    """For ever, or until it is told to stop."""
    while not agent.pending(0.005):
        agent.say(".")
    agent.wait_for("session/cancel")
    agent.end(prompt, "cancelled")


def is_silent(agent: Agent, prompt: Message) -> None:
    agent.wait_for("session/cancel")
    agent.end(prompt, "cancelled")


@pytest.mark.parametrize("misbehave", [streams, is_silent])
async def test_the_hard_limit_ends_a_turn_and_the_next_prompt_gets_its_own_answer(
    misbehave: object,
) -> None:
    limits = structs.replace(PATIENT, turn_timeout_s=HARD)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        pid = session.agent.pid
        with pytest.raises(agentrt.errors.TurnTimedOut, match="hard limit") as caught:
            await session.run("misbehave")
        assert caught.value.result.stop_reason == "cancelled"
        await works(session)
        assert session.agent.pid == pid
        heard = (await session.run("report")).text.split()
        assert heard.count("session/cancel") == 1


@pytest.mark.slow
async def test_answers_that_come_late_but_within_the_grace_stay_their_own_three_deep() -> None:
    """Each abandoned prompt is answered only when the next one waits already."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.wait_for("session/cancel")
        time.sleep(0.3)
        agent.say("late")
        agent.end(prompt)

    limits = structs.replace(PATIENT, turn_timeout_s=HARD)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        for _ in range(3):
            assert (await session.run("misbehave", check=False)).outcome == "timed_out"
        await works(session)
        assert await outcomes(session) == ["timed_out"] * 3 + ["completed"]


@pytest.mark.slow
async def test_answers_that_come_when_nobody_waits_any_more_reach_no_later_turn_three_deep() -> (
    None
):
    """Each abandoned prompt is answered while its process is being ended; the prompt behind it is
    answered by the next process, with its own answer alone."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.prompt = prompt
        agent.mark("abandoned")
        while True:
            agent.receive()  # whatever it is

    def eof(agent: Agent) -> None:
        if hasattr(agent, "prompt"):
            agent.say("late")
            agent.update("tool_call", toolCallId="late", title="Late", status="in_progress")
            agent.end(agent.prompt)
            agent.mark("late")
            time.sleep(0.1)
        sys.exit(0)

    marks = Marks()
    limits = structs.replace(SHORT, turn_timeout_s=HARD, stdin_close_grace_s=5)
    async with bad_session(misbehave=misbehave, eof=eof, limits=limits, on_stderr=marks) as session:
        for _ in range(3):
            result = await session.run("misbehave", check=False)
            assert (result.outcome, result.text) == ("timed_out", "")
            await works(session)
        assert marks.seen.split() == ["abandoned", "late"] * 3
        shown = [item.text for item in session.snapshot().items if item.type != "user"]
        assert shown == ["still there?"] * 3
