"""Failures that users of real agents reported, numbered as in `docs/project/failure-shapes.md`:
requests of agents, how sessions begin, and what processes leave behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

import agentrt

from .bad_agent import Agent, Message
from .kit import (
    LADDER,
    PATIENT,
    SHORT,
    Marks,
    bad_session,
    notices,
    until,
    works,
)

LOADS = {"loadSession": True}


# --- 31–35: what the agent asks


async def test_31_a_permission_that_is_open_at_a_cancel_is_answered() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark(f"chosen:{agent.ask()}")
        agent.end(prompt)

    marks = Marks()
    async with bad_session(
        misbehave=misbehave, permissions=agentrt.ask, limits=PATIENT, on_stderr=marks
    ) as session:
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert session.snapshot().permissions == []
        await marks.wait("chosen:None")
        await works(session)


def asks_a_thousand_times(agent: Agent, prompt: Message) -> None:
    option = {"optionId": "no", "name": "Reject", "kind": "reject_once"}
    for number in range(1000):
        call = {"toolCallId": str(number), "title": f"Run number {number}"}
        params = {"toolCall": call, "options": [option]}
        agent.begin_request("session/request_permission", params)
    if agent.arg == "waits":
        agent.wait_for("session/cancel")
    agent.end(prompt, "cancelled")


async def test_32_a_cancel_answers_a_thousand_open_questions() -> None:
    async with bad_session(
        misbehave=asks_a_thousand_times, arg="waits", permissions=agentrt.ask, limits=PATIENT
    ) as session:
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened) and event.title.endswith("999"):
                    break
            assert len(session.snapshot().permissions) == 1000
            turn.cancel()
            assert session.snapshot().permissions == []
        assert turn.result.outcome == "cancelled"
        await works(session)


@pytest.mark.slow
async def test_32_a_turn_may_end_under_a_thousand_policies_that_have_hardly_begun() -> None:
    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await trio.sleep_forever()
        return agentrt.Allow()

    async with bad_session(misbehave=asks_a_thousand_times, permissions=policy) as session:
        assert (await session.run("misbehave")).outcome == "cancelled"
        assert session.snapshot().permissions == []
        await works(session)


@pytest.mark.slow
async def test_32_more_questions_than_anybody_answers_are_rejected() -> None:
    """Those that are open keep waiting; it is answered in time, however many more there are."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        option = {"optionId": "no", "name": "Reject", "kind": "reject_once"}
        for number in range(1500):
            params = {"toolCall": {"toolCallId": str(number)}, "options": [option]}
            agent.begin_request("session/request_permission", params)
        rejected = 0
        while agent.receive().get("method") != "session/cancel":
            rejected += 1
        agent.say(str(rejected))
        agent.mark("cancelled")
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave, permissions=agentrt.ask, limits=PATIENT) as session:
        async with session.prompt("misbehave") as turn:
            await until(session, lambda: len(session.snapshot().items) == 1501)
            assert len(session.snapshot().permissions) == 1024
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await works(session)


async def test_33_a_permission_of_a_child_session_that_nobody_announced_is_answered() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say(str(agent.ask(session="child-1")))
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, permissions=agentrt.allow_all) as session:
        assert (await session.run("misbehave")).text == "yes"
        await works(session)


async def test_35_an_unknown_request_of_the_agent_is_answered_at_once() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        answer = agent.request("_vendor/mood", {})
        agent.say(str(answer["error"]["code"]))
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "-32601"
        assert await notices(session) == ["unknown_request"]
        await works(session)


async def test_36_a_second_prompt_waits_for_an_agent_that_would_drop_the_first() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        if agent.pending(0.3):
            agent.refuse(prompt, -32600, "a prompt is running")
        agent.say("first")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session, session.prompt("misbehave") as turn:
        with pytest.raises(agentrt.Busy):
            await session.run("second", when="reject")
        assert (await session.run("second")).text == "second"
        assert (turn.result.outcome, turn.result.text) == ("completed", "first")


async def test_38_one_foreign_field_does_not_cost_the_update() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        terminal = {"type": "terminal", "terminalId": "nobody-knows-it"}
        agent.update("tool_call", toolCallId="c", title="Run", content=[terminal], locations="?")
        agent.update("tool_call_update", toolCallId="c", status="completed", rawOutput="done")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        await session.run("misbehave")
        [item] = [item for item in session.snapshot().items if item.tool is not None]
        assert (item.status, item.tool.title, item.tool.output) == ("completed", "Run", "done")
        assert await notices(session) == ["wrong_fields"]
        await works(session)


async def test_48_nothing_is_allowed_by_being_the_first_option() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say(str(agent.ask()))  # "yes" comes first
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "no"
        await works(session)


# --- 39–41, 46: beginnings and errors


async def test_39_and_46_a_refused_start_says_all_that_the_error_said() -> None:
    def initialize(agent: Agent, request: Message) -> None:
        data = {"details": "expected number, received string"}
        agent.refuse(request, -32603, "Internal error", data)

    with pytest.raises(agentrt.AgentStartError, match=r"Internal error: expected number"):
        async with bad_session(initialize=initialize):
            pass


async def test_46_a_failed_turn_says_all_that_the_error_said() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.refuse(prompt, -32603, "Internal error", {"details": "402 quota", "retry": False})

    async with bad_session(misbehave=misbehave) as session:
        with pytest.raises(agentrt.errors.AgentFailed, match="Internal error: 402 quota") as caught:
            await session.run("misbehave")
        error = caught.value.result.error
        assert error is not None
        assert error.data == {"code": -32603, "data": {"details": "402 quota", "retry": False}}
        await works(session)


async def test_40_a_load_that_hangs_is_a_start_error() -> None:
    def load_session(agent: Agent, request: Message) -> None:
        pass

    limits = replace(SHORT, startup_timeout_s=0.5)
    with (
        trio.fail_after(limits.startup_timeout_s + LADDER + 1),
        pytest.raises(agentrt.AgentStartError, match="not ready"),
    ):
        async with bad_session(
            load_session=load_session, capabilities=LOADS, resume="gone", limits=limits
        ):
            pass


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32002, "Resource not found"),
        (-32603, "Session gone not found"),
        (-32001, "no such session"),
    ],
)
async def test_40_an_unknown_session_is_not_found_whatever_the_code(
    code: int, message: str
) -> None:
    def load_session(agent: Agent, request: Message) -> None:
        agent.refuse(request, *agent.arg)

    with pytest.raises(agentrt.errors.SessionNotFound, match=message):
        async with bad_session(
            load_session=load_session, capabilities=LOADS, resume="gone", arg=[code, message]
        ):
            pass


@pytest.mark.slow
async def test_40_a_load_that_hangs_in_a_restart_fails_the_prompt_and_keeps_the_id(
    tmp_path: Path,
) -> None:
    """The conversation is not quietly replaced by an empty one: the next prompt tries again."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        sys.exit(1)

    def load_session(agent: Agent, request: Message) -> None:
        if os.path.exists(agent.arg):
            agent.answer(request, {})
        open(agent.arg, "w").close()

    limits = replace(SHORT, startup_timeout_s=3.0)  # the agent is started three times
    async with bad_session(
        misbehave=misbehave,
        load_session=load_session,
        capabilities=LOADS,
        arg=str(tmp_path / "tries"),
        limits=limits,
    ) as session:
        assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        with pytest.raises(agentrt.AgentStartError, match="not ready"):
            await session.run("again")
        assert session.agent_session == "s1"
        await works(session)


async def test_41_what_a_restarted_agent_repeats_of_the_conversation_is_not_shown_again() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("first answer")
        sys.exit(1)

    def load_session(agent: Agent, request: Message) -> None:
        agent.update("user_message_chunk", content={"type": "text", "text": "misbehave"})
        agent.say("first answer")
        agent.update("tool_call", toolCallId="c", title="Old", status="in_progress")
        agent.answer(request, {})

    async with bad_session(
        misbehave=misbehave, load_session=load_session, capabilities=LOADS
    ) as session:
        await session.run("misbehave", check=False)
        await works(session)
        shown = [(i.type, i.text) for i in session.snapshot().items if i.type != "user"]
        assert shown == [("text", "first answer"), ("text", "still there?")]


async def test_41_the_history_of_a_loaded_session_is_marked_as_such() -> None:
    def load_session(agent: Agent, request: Message) -> None:
        agent.session = request["params"]["sessionId"]
        agent.say("long ago")
        agent.answer(request, {})

    async with bad_session(load_session=load_session, capabilities=LOADS, resume="old") as session:
        [item] = session.snapshot().items
        assert (item.text, item.replay, item.turn) == ("long ago", True, None)
        assert session.state.phase == "idle"
        await works(session)


# --- 42, 44: processes


async def test_42_what_an_agent_started_ends_with_the_session() -> None:
    """The suite's own check finds what is left, also outside the agent's group and session."""

    def start(agent: Agent) -> None:
        agent.spawn("exec sleep 600")
        agent.spawn("sleep 600 & exec sleep 600", start_new_session=True)

    async with bad_session(start=start) as session:
        await works(session)


async def test_44_an_agent_that_leaves_in_the_middle_of_its_work_is_not_taken_for_done() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("I am on it")
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        with pytest.raises(agentrt.errors.AgentDied, match="exit status 0"):
            await session.run("misbehave")
        await works(session)
