"""Two sessions in one program: whatever goes wrong in one, nobody notices in the other."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from msgspec import structs

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import PATIENT, SHORT, Marks, bad_session, notices, works

LATENCY = 0.05
"""Seconds by which a neighbour may slow a turn down."""


def crashes(agent: Agent, prompt: Message) -> None:
    os.kill(os.getpid(), 9)


def floods_stdout(agent: Agent, prompt: Message) -> None:
    while True:
        agent.say("nothing but noise " * 20)


def floods_with_short_lines(agent: Agent, prompt: Message) -> None:
    while True:
        agent.raw(b"y\n" * 32768)


def floods_stderr(agent: Agent, prompt: Message) -> None:
    while True:
        os.write(2, b"e" * 65536)


def asks_without_end(agent: Agent, prompt: Message) -> None:
    while True:
        agent.begin_request("_vendor/question", {"text": "?" * 100})


def closes_stdout(agent: Agent, prompt: Message) -> None:
    os.close(1)
    while True:
        time.sleep(60)


def is_silent(agent: Agent, prompt: Message) -> None:
    while True:
        agent.receive()


def leaves_a_grandchild(agent: Agent, prompt: Message) -> None:
    agent.spawn("trap '' TERM; while :; do sleep 1; done", start_new_session=True)
    sys.exit(0)


def waits_at_a_permission(agent: Agent, prompt: Message) -> None:
    agent.ask()


async def turns_beside(
    session: agentrt.Session, what: Callable[[], Awaitable[object]]
) -> list[float]:
    """How long a session's turns take, one after the other, while something else is awaited."""
    took: list[float] = []
    over = False

    async def work() -> None:
        while not over or len(took) < 5:
            started = trio.current_time()
            await works(session)
            took.append(trio.current_time() - started)
            await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await what()
        over = True
    return took


@pytest.mark.parametrize(
    "misbehave",
    [
        crashes,
        floods_stdout,
        floods_with_short_lines,
        floods_stderr,
        asks_without_end,
        closes_stdout,
        is_silent,
        leaves_a_grandchild,
        waits_at_a_permission,
    ],
)
async def test_a_session_does_not_notice_what_happens_in_the_one_beside_it(
    misbehave: Callable[[Agent, Message], None],
) -> None:
    """Its turns go on at their pace, through the other's limit, cancel, kill and restart."""
    limits = structs.replace(SHORT, hard=0.4)
    async with (
        bad_session(limits=PATIENT) as well,
        bad_session(misbehave=misbehave, limits=limits, permissions=agentrt.ask) as ill,
    ):
        pid = well.agent.pid
        alone = await turns_beside(well, partial(trio.sleep, 0.2))
        beside = await turns_beside(well, partial(ill.run, "misbehave", check=False))
        beside += await turns_beside(well, partial(works, ill))
        assert [t.outcome for t in ill.snapshot().turns] in (
            ["timed_out", "completed"],
            ["agent_died", "completed"],
        )
        assert statistics.median(beside) < statistics.median(alone) + LATENCY
        assert well.agent.pid == pid
        assert await notices(well) == []
        heard = (await well.run("report")).text.split()
        assert set(heard) == {"initialize", "session/new", "session/prompt"}


async def test_an_open_question_in_one_session_keeps_no_other_from_opening() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("asking")
        agent.ask()
        agent.end(prompt)

    marks = Marks()
    async with (
        bad_session(
            misbehave=misbehave, permissions=agentrt.ask, limits=PATIENT, on_stderr=marks
        ) as waiting,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(waiting.run, "misbehave")
        await marks.wait("asking")
        async with bad_session(limits=PATIENT) as other:
            await works(other)
            other.cancel()
        [request] = waiting.snapshot().permissions
        waiting.answer(request.request, "no")


async def test_a_cancel_in_one_session_is_not_heard_in_another() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    async with (
        bad_session(misbehave=misbehave, limits=PATIENT) as one,
        bad_session(misbehave=misbehave, limits=PATIENT) as two,
        two.prompt("misbehave") as unheeded,
    ):
        await anext(unheeded)
        async with one.prompt("misbehave") as turn:
            await anext(turn)
            one.cancel()
        assert turn.result.outcome == "cancelled"
        assert two.state.phase == "running"
        assert not unheeded.ended
        unheeded.cancel()
