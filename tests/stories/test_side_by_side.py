"""Two sessions in one program: whatever goes wrong in one, nobody notices in the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from msgspec import structs

import agentrt
from faults.quick import mostly_slow
from hostile.bad_agent import Agent, Message
from hostile.beside import SHAPES, Shape, floods_with_text, is_silent, nothing
from hostile.kit import PATIENT, SHORT, Marks, bad_session, notices, outcomes, works

HASTY = structs.replace(SHORT, cancel_grace_s=0.1, stdin_close_grace_s=0.1, terminate_grace_s=0.1)
"""The ladder is gone through all the same."""


@pytest.mark.slow
@pytest.mark.parametrize("misbehave", mostly_slow(SHAPES, one_in=5))
async def test_a_session_does_not_notice_what_happens_in_the_one_beside_it(
    misbehave: Shape, tmp_path: Path
) -> None:
    """Its turns go on through the other's misbehaviour, cancel, kill and restart. (By how much
    they are slower, `benchmarks/beside.py` says; that there is a bound, the reader's tests.)"""
    async with (
        bad_session(limits=PATIENT, bound=60) as well,
        bad_session(
            misbehave=misbehave,
            limits=HASTY,
            permissions=agentrt.ask,
            tools=(nothing,),
            cwd=tmp_path,
            bound=60,
        ) as ill,
    ):
        pid = well.agent.pid
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ill.run, "misbehave", check=False))
            for _ in range(20):
                await works(well)
                await trio.sleep(0.005)  # for the other to get into its stride
            ill.cancel()
            for _ in range(5):
                await works(well)
                await trio.sleep(0.005)
        await works(ill)
        await works(well)
        assert well.agent.pid == pid
        assert await outcomes(well) == ["completed"] * 26
        assert await notices(well) == []
        heard = (await well.run("report")).text.split()
        assert heard == ["initialize", "session/new", *["session/prompt"] * 27]


@pytest.mark.slow
async def test_traffic_of_one_session_keeps_no_silent_one_alive() -> None:
    """Where several sessions share a process, F36 of the reports; here the clocks are apart."""
    limits = structs.replace(HASTY, idle_timeout_s=0.3)
    async with (
        bad_session(misbehave=floods_with_text, limits=HASTY) as loud,
        bad_session(misbehave=is_silent, limits=limits) as silent,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(partial(loud.run, "misbehave", check=False))
        result = await silent.run("misbehave", check=False)
        assert result.error is not None
        assert result.error.data == {"limit": "idle"}
        assert loud.state.phase == "running"
        loud.cancel()


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
