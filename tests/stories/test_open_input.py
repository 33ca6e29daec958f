"""An agent's input was closed with the first result of the last prompt, and what it asked after
that was never answered. The input belongs to the session."""

from __future__ import annotations

import sys
import time

import pytest
import trio

import agentrt
from hostile.bad_agent import Agent, Message, Tools
from hostile.kit import PATIENT, bad_session, until, works


async def test_a_tool_call_behind_the_last_prompt_s_result_reaches_its_handler() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        time.sleep(0.1)  # the two come by different ways, and could be seen in another order
        agent.say(agent.tools.call("record", text="after the result"))

    recorded: list[str] = []

    @agentrt.tool
    async def record(text: str) -> str:
        """Keep a text."""
        recorded.append(text)
        return f"recorded: {text}"

    async with bad_session(
        new_session=new_session, misbehave=misbehave, tools=(record,), limits=PATIENT
    ) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: len(session.snapshot().turns) == 2)
        assert recorded == ["after the result"]
        await until(session, lambda: session.state.phase == "idle")
        assert session.snapshot().items[-1].text == "recorded: after the result"
        await works(session)


async def test_a_tool_call_outside_turns_outlives_the_end_of_the_next_turn() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        time.sleep(0.1)
        agent.tools.begin("wait")
        for _ in range(2):
            agent.take(agent.receive())
        agent.say(agent.tools.answer())

    started, finish = trio.Event(), trio.Event()

    @agentrt.tool
    async def wait() -> str:
        """Wait for what the test decides."""
        started.set()
        await finish.wait()
        return "done"

    async with bad_session(
        new_session=new_session, misbehave=misbehave, tools=(wait,), limits=PATIENT
    ) as session:
        await session.run("misbehave")
        await started.wait()
        for _ in range(2):
            await works(session)
        finish.set()
        await until(session, lambda: any(i.text == "done" for i in session.snapshot().items))


@pytest.mark.slow
async def test_a_tool_is_reached_from_the_next_process_as_well() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say(agent.tools.call("count"))
        agent.end(prompt)
        sys.exit(1)

    calls = 0

    @agentrt.tool
    def count() -> str:
        """Say how often this was called."""
        nonlocal calls
        calls += 1
        return str(calls)

    async with bad_session(
        new_session=new_session, misbehave=misbehave, tools=(count,), limits=PATIENT
    ) as session:
        for number in ("1", "2", "3"):
            assert (await session.run("misbehave")).text == number
            await until(session, lambda: session.state.phase == "dead")


async def test_a_question_behind_the_last_prompt_s_result_is_answered() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        agent.say(f"chosen: {agent.ask()}")

    async with bad_session(
        misbehave=misbehave, permissions=agentrt.allow_all, limits=PATIENT
    ) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: any(i.text == "chosen: yes" for i in session.snapshot().items))
        await works(session)


async def test_the_input_ends_with_the_session_and_not_before() -> None:
    def eof(agent: Agent) -> None:
        agent.mark("eof")
        sys.exit(0)

    seen: list[bytes] = []
    async with bad_session(eof=eof, limits=PATIENT, on_stderr=seen.append) as session:
        for _ in range(3):
            await works(session)
        await trio.sleep(0.2)
        assert seen == []
    assert b"".join(seen) == b"eof\n"
