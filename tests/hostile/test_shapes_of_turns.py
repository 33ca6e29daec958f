"""Failures that users of real agents reported, each as one agent that does just that: turns, and
how they end. The numbers are those of the second table in `docs/project/failure-shapes.md`."""

from __future__ import annotations

import sys
import time

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

import agentrt

from .bad_agent import Agent, Message
from .kit import (
    LADDER,
    PATIENT,
    SHORT,
    Marks,
    bad_session,
    until,
    works,
)

LOADS = {"loadSession": True}


# --- 5–7: what takes long or is much


async def test_5_a_healthy_turn_may_say_more_in_all_than_any_limit_holds() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for _ in range(4096):
            agent.say("x" * 1024)
        agent.end(prompt)

    small = replace(
        SHORT,
        message_bytes=4096,
        agent_outbox_bytes=4096,
        recent_events=64,
        recent_events_bytes=4096,
    )
    async with bad_session(misbehave=misbehave, limits=small) as session:
        result = await session.run("misbehave")
        assert (result.outcome, len(result.text)) == ("completed", 4 << 20)
        await works(session)


@pytest.mark.slow
async def test_7_a_session_that_opens_slowly_is_waited_for() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        time.sleep(1)
        agent.answer(request, {"sessionId": "s1"})

    async with bad_session(new_session=new_session) as session:
        await works(session)


async def test_7_a_session_that_never_opens_is_a_start_error_with_what_the_agent_said(
    mock_clock: MockClock,
) -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.mark("waiting for the MCP server")

    def heard(data: bytes) -> None:
        mock_clock.rate = 1.0  # until now no time has passed, however slow the machine is

    limits = replace(SHORT, startup_timeout_s=0.5)
    with (
        trio.fail_after(limits.startup_timeout_s + LADDER + 1),
        pytest.raises(agentrt.AgentStartError, match="waiting for the MCP server"),
    ):
        async with bad_session(new_session=new_session, limits=limits, on_stderr=heard):
            pass


# --- 8–12: answers that never come


@pytest.mark.slow
@pytest.mark.parametrize("chatty", [False, True])
async def test_8_and_9_a_prompt_that_is_never_answered_meets_a_limit(chatty: bool) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("all that there is to say")
        while agent.arg and not agent.pending(0.05):
            agent.update("usage_update", used=1, size=2)  # it works on, for somebody else
        agent.wait_for("session/cancel")  # and takes no notice

    limits = replace(SHORT, idle_timeout_s=0.4, turn_timeout_s=0.8)
    async with bad_session(misbehave=misbehave, arg=chatty, limits=limits) as session:
        with pytest.raises(agentrt.errors.TurnTimedOut) as caught:
            await session.run("misbehave")
        result = caught.value.result
        assert result.text == "all that there is to say"
        assert result.error is not None
        assert result.error.data == {"limit": "hard" if chatty else "idle"}
        await works(session)


async def test_10_a_backend_that_died_behind_a_living_adapter_costs_the_turn_only() -> None:
    """The user stops the silent turn; the adapter is replaced, and resumes the conversation."""

    def start(agent: Agent) -> None:
        agent.mark("started")

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("stuck")
        while True:
            agent.receive()

    def load_session(agent: Agent, request: Message) -> None:
        agent.mark(f"loads:{request['params']['sessionId']}")
        agent.answer(request, {})

    marks = Marks()
    async with (
        bad_session(
            start=start,
            misbehave=misbehave,
            load_session=load_session,
            capabilities=LOADS,
            on_stderr=marks,
        ) as session,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.run, "misbehave")
        await marks.wait("stuck")
        session.cancel()
        await works(session)
        assert marks.seen.split() == ["started", "stuck", "started", "loads:s1"]


async def test_11_an_agent_that_leaves_between_two_turns_is_seen_gone_at_once() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: session.state.phase == "dead")
        assert not session.agent.alive
        await works(session)


async def test_12_a_request_that_waits_when_the_agent_dies_fails_at_once() -> None:
    def other(agent: Agent, message: Message) -> None:
        sys.exit(0)

    async with bad_session(other=other) as session:
        with trio.fail_after(30), pytest.raises(agentrt.errors.RequestError, match="has ended"):
            await session.call("_vendor/question")
        await works(session)


# --- 14–23: cancels


async def test_14_a_cancel_right_behind_its_prompt_that_is_lost_is_sent_once_more() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.wait_for("session/cancel")  # lost
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    limits = replace(PATIENT, cancel_resend_s=0.1)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        pid = session.agent.pid
        async with session.prompt("misbehave") as turn:
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await works(session)
        assert session.agent.pid == pid


async def test_16_a_turn_that_nobody_cancelled_may_end_cancelled() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave) as session:
        result = await session.run("misbehave")
        assert (result.outcome, result.by) == ("cancelled", "agent")
        await works(session)


async def test_17_a_cancel_that_is_answered_by_an_error_kills_nobody() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.refuse(prompt, -32800, "Request cancelled")

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        pid = session.agent.pid
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await works(session)
        assert session.agent.pid == pid


async def test_20_a_second_cancel_and_one_that_comes_too_late_are_not_sent() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
            turn.cancel()
            session.cancel()
        session.cancel()
        turn.cancel()
        heard = (await session.run("report")).text.split()
        assert heard.count("session/cancel") == 1


async def test_21_a_late_cancel_of_one_turn_leaves_the_next_alone() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        if agent.pending(0.5):  # nobody should want it to stop
            agent.say(agent.receive()["method"])
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        async with session.prompt("quick") as first:
            pass
        async with session.prompt("misbehave") as second:
            await anext(second)
            first.cancel()
        assert (second.result.outcome, second.result.text) == ("completed", "working")


async def test_21_a_cancel_that_crosses_the_answer_hits_no_later_prompt() -> None:
    """The answer is on its way when the cancel is sent, and the agent reads the cancel while it
    is idle; it is not repeated when the next prompt runs."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.end(prompt)

    limits = replace(PATIENT, cancel_resend_s=0.1)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()  # in the same step: the end has been read with the text, or comes now
        assert turn.result.outcome in ("completed", "cancelled")
        await trio.sleep(0.3)  # longer than `cancel_resend`
        heard = (await session.run("report")).text.split()
        assert heard.count("session/cancel") <= 1
        assert heard[-1] == "session/prompt"


async def test_23_a_cancel_works_in_a_loaded_session() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        cancel = agent.wait_for("session/cancel")
        agent.mark(f"cancels:{cancel['params']['sessionId']}")
        agent.end(prompt, "cancelled")

    marks = Marks()
    async with bad_session(
        misbehave=misbehave, capabilities=LOADS, resume="old", limits=PATIENT, on_stderr=marks
    ) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await marks.wait("cancels:old")
        await works(session)


# --- 26, 27: what comes outside a turn


async def test_26_a_whole_background_turn_is_a_turn_of_the_agent_s_own() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        agent.update("tool_call", toolCallId="bg", title="Build", status="in_progress")
        agent.update("tool_call_update", toolCallId="bg", status="completed")
        agent.say("the build is done")

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == ""
        await until(session, lambda: len(session.snapshot().turns) == 2)
        await until(session, lambda: session.state.phase == "idle")
        own = session.snapshot().turns[1]
        assert (own.origin, own.outcome) == ("agent", "completed")
        items = [item for item in session.snapshot().items if item.turn == own.id]
        assert [(item.type, item.status) for item in items] == [
            ("tool", "completed"),
            ("text", "completed"),
        ]
        await works(session)


async def test_27_updates_before_the_answer_to_session_new_are_kept() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        commands = [{"name": "help", "description": "Say what there is"}]
        agent.update("available_commands_update", availableCommands=commands)
        agent.answer(request, {"sessionId": agent.session})

    async with bad_session(new_session=new_session) as session:
        assert [command.name for command in session.snapshot().commands] == ["help"]
        await works(session)
