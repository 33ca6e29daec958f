"""An ACP agent calls a tool and answers its prompt without waiting: its sub-agent works in the
background, or it has given up. Call and answer come over two channels, so which of them is heard
first is chance, and makes no difference: the call finishes. A cancel ends it."""

from __future__ import annotations

import trio
import trio.testing

import agentrt
from hostile.bad_agent import Agent, Message, Tools
from hostile.kit import PATIENT, SHORT, Marks, bad_session


def new_session(agent: Agent, request: Message) -> None:
    agent.tools = Tools(request)
    agent.answer(request, {"sessionId": agent.session})


def misbehave(agent: Agent, prompt: Message) -> None:
    agent.tools.begin("record")
    if agent.arg == "heard":
        agent.wait_for("session/cancel")
        agent.mark("cancelled")
    else:
        agent.end(prompt)
    agent.mark(agent.tools.answer())
    if agent.arg == "heard":
        agent.end(prompt, "cancelled")


class Record:
    """A tool that takes as long as the test likes."""

    def __init__(self) -> None:
        self.began = trio.Event()
        self.goes_on = trio.Event()
        self.ended = ""

        @agentrt.tool
        async def record() -> str:
            """Take a note."""
            self.began.set()
            try:
                await self.goes_on.wait()
                self.ended = "finished"
            except trio.Cancelled:
                self.ended = "cancelled"
                raise
            return "recorded"

        self.tool = record


async def test_a_tool_call_outlives_a_turn_that_does_not_wait_for_it() -> None:
    record, marks = Record(), Marks()
    async with bad_session(
        new_session=new_session,
        misbehave=misbehave,
        tools=(record.tool,),
        limits=PATIENT,
        on_stderr=marks,
    ) as session:
        result = await session.run("misbehave")
        assert result.outcome == "completed"
        await record.began.wait()
        assert not record.ended
        record.goes_on.set()
        await marks.wait("recorded")
        assert record.ended == "finished"


async def test_leaving_a_session_waits_for_such_a_call() -> None:
    record, marks = Record(), Marks()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def let_it_go_on() -> None:
                await record.began.wait()
                await trio.testing.wait_all_tasks_blocked(0.005)
                record.goes_on.set()

            nursery.start_soon(let_it_go_on)
            async with bad_session(
                new_session=new_session,
                misbehave=misbehave,
                tools=(record.tool,),
                limits=PATIENT,
                on_stderr=marks,
                bound=30,
            ) as session:
                await session.run("misbehave")
                await record.began.wait()
    assert record.ended == "finished"


async def test_a_cancel_ends_the_call_and_the_agent_is_answered() -> None:
    record, marks = Record(), Marks()
    async with bad_session(
        new_session=new_session,
        misbehave=misbehave,
        arg="heard",
        tools=(record.tool,),
        limits=PATIENT,
        on_stderr=marks,
    ) as session:
        async with session.prompt("misbehave") as turn:
            await record.began.wait()
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert record.ended == "cancelled"
        await marks.wait("cancelled")


async def test_the_agent_s_end_ends_the_call() -> None:
    record = Record()
    async with bad_session(
        new_session=new_session, misbehave=misbehave, tools=(record.tool,), limits=SHORT
    ) as session:
        await session.run("misbehave")
        await record.began.wait()
        await session.aclose()
    assert record.ended == "cancelled"
