"""What belongs to one turn came after its end and was taken for the next one's: a response that
was late, a second one, updates of tool calls that were stopped."""

from __future__ import annotations

import pytest

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import PATIENT, bad_session, notices, outcomes, until, works


async def test_the_response_of_an_earlier_prompt_does_not_end_the_next_one() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        earlier = [m for m in agent.heard if m.get("method") == "session/prompt"][:-1]
        agent.say("a")
        for each in earlier:
            agent.end(each, "cancelled")
        agent.say("b")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        for _ in range(3):
            result = await session.run("misbehave")
            assert (result.text, result.stop_reason) == ("ab", "end_turn")
        assert await notices(session) == ["duplicate_response"] * 3


async def test_a_second_answer_to_a_stopped_prompt_does_not_end_the_next_one() -> None:
    """Some agents answer a cancel at once, and the prompt again when they have really stopped."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")
        following = agent.wait_for("session/prompt")
        agent.end(prompt, "end_turn")
        agent.say("mine")
        agent.end(following)

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
        assert (await session.run("next")).text == "mine"
        assert "duplicate_response" in await notices(session)


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_late_update_of_a_tool_call_inside_the_next_prompt_is_dropped(
    stopped: bool,
) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.update("tool_call", toolCallId="c", title="Build", status="in_progress")
        if agent.arg:
            agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled" if agent.arg else "end_turn")
        following = agent.wait_for("session/prompt")
        agent.update("tool_call_update", toolCallId="c", status="completed", title="Built!")
        agent.update("tool_call_update", toolCallId="c", status="failed")
        agent.say("mine")
        agent.end(following)

    async with bad_session(misbehave=misbehave, arg=stopped, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if stopped and isinstance(event, agentrt.ItemOpened) and event.item.tool:
                    turn.cancel()
        before = [i for i in session.snapshot().items if i.tool is not None]
        assert [item.status for item in before] == ["cancelled" if stopped else "completed"]
        async with session.prompt("next") as following:
            events = [event async for event in following]
        assert following.result.text == "mine"
        assert [i for i in session.snapshot().items if i.tool is not None] == before
        assert [e.code for e in events if isinstance(e, agentrt.Notice)] == ["late"]


async def test_what_is_said_between_two_prompts_is_in_neither_of_their_turns() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")
        for _ in range(20):
            agent.say("tail ")

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
        await until(session, lambda: len(session.snapshot().turns) == 2)
        await works(session)
        assert await outcomes(session) == ["cancelled", "completed", "completed"]
        assert [turn.origin for turn in session.snapshot().turns] == ["user", "agent", "user"]


async def test_what_is_said_behind_a_cancel_is_not_shown_at_all() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("before")
        agent.wait_for("session/cancel")
        for _ in range(20):
            agent.say("after")
        agent.update("tool_call", toolCallId="c", title="After", status="in_progress")
        agent.end(prompt, "end_turn")

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        assert (turn.result.outcome, turn.result.text) == ("cancelled", "before")
        await works(session)
        shown = [item.text for item in session.snapshot().items if item.type != "user"]
        assert shown == ["before", "still there?"]
