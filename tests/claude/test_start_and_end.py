"""How long a start may take, and what an end costs."""

from __future__ import annotations

import time

import psutil
import pytest
import trio
from msgspec import structs

import agentrt

from .test_fakecli import QUICK, session


@pytest.mark.slow
async def test_a_slow_start_is_waited_for() -> None:
    async with session("slow_start") as s:
        assert (await s.run("hello")).text == "At last."


async def test_a_start_beyond_its_limit_fails_and_leaves_no_process() -> None:
    with pytest.raises(
        agentrt.AgentStartError, match=r"not ready within 0\.3 s \(limits\.startup_timeout_s\)"
    ):
        async with session("slow_start", limits=structs.replace(QUICK, startup_timeout_s=0.3)):
            pytest.fail("there is no session")
    assert psutil.Process().children(recursive=True) == []


@pytest.mark.slow
async def test_waiting_for_an_end_costs_no_computing_time() -> None:
    patient = structs.replace(QUICK, stdin_close_grace_s=1.0, terminate_grace_s=1.0)
    async with session("ignores_eof_and_sigterm", limits=patient) as s:
        await s.run("go")
        before = time.process_time()
    assert time.process_time() - before < 1.0  # of two seconds
    assert s.state.phase == "closed"


async def test_a_reader_that_leaves_early_leaves_the_session_usable() -> None:
    async with session("plain") as s:
        async with s.prompt("one two three") as turn:
            async for _ in turn:
                break
        with s.subscribe() as events:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(s.run, "again")
                async for event in events:
                    if isinstance(event, agentrt.TextDelta):
                        break
        assert (await s.run("and again")).text == "You said: and again "
