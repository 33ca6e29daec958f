"""A program that did not run for a while does not hold that against its agents."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeAlias

import pytest
import trio
from fakes import session_with, unresponsive

import agentrt
from agentrt.testing import FakeAcpAgent

StandsStill: TypeAlias = Callable[[trio.testing.MockClock, float], None]

# --- the limits move by it


@pytest.fixture
def stands_still(monkeypatch: pytest.MonkeyPatch) -> StandsStill:
    """Let so many seconds pass on the machine's clock and on Trio's, in which nothing runs."""
    monotonic, stood_s = time.monotonic, 0.0

    def stand(clock: trio.testing.MockClock, seconds: float) -> None:
        nonlocal stood_s
        stood_s += seconds
        clock.jump(seconds)

    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + stood_s)
    return stand


async def slow(agent: FakeAcpAgent) -> None:
    """Takes six seconds for its answer."""
    async for prompt in agent.prompts:
        await trio.sleep(6)
        prompt.end()


@pytest.mark.parametrize("limit", ["idle_timeout_s", "turn_timeout_s"])
async def test_a_limit_is_moved_by_the_gap_and_a_notice_tells(
    autojump_clock: trio.testing.MockClock, stands_still: StandsStill, limit: str
) -> None:
    limits = agentrt.Limits(**{"idle_timeout_s": None, "turn_timeout_s": None, limit: 10.0})
    async with session_with(slow, limits=limits) as (session, _):
        async with session.prompt("go", check=False) as turn:
            await trio.sleep(3)
            stands_still(autojump_clock, 60)
            codes = [event.code async for event in turn if isinstance(event, agentrt.Notice)]
        assert turn.result.outcome == "completed"
    assert codes == ["stood_still"]


async def test_behind_the_gap_the_limit_counts_on(
    autojump_clock: trio.testing.MockClock, stands_still: StandsStill
) -> None:
    limits = agentrt.Limits(turn_timeout_s=10.0, cancel_grace_s=1)
    async with session_with(unresponsive, limits=limits) as (session, _):
        async with session.prompt("go", check=False) as turn:
            await trio.sleep(3)
            stands_still(autojump_clock, 60)
        assert turn.result.outcome == "timed_out"
        assert trio.current_time() >= 70


HOST = """
import sys, trio, agentrt

async def main():
    agent = agentrt.agents.acp([sys.executable, "-m", "agentrt.demo"], name="demo")
    limits = agentrt.Limits(idle_timeout_s=7, turn_timeout_s=9)
    async with agentrt.open_session(agent, limits=limits) as session:
        async with session.prompt("/slow 18", check=False) as turn:
            print("prompted", flush=True)
        print(turn.result.outcome, turn.result.error, turn.result.duration)

trio.run(main)
"""


@pytest.mark.slow
def test_a_host_that_is_stopped_for_longer_than_its_limits_goes_on() -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == "prompted\n"
        time.sleep(1)
        host.send_signal(signal.SIGSTOP)
        time.sleep(14)
        host.send_signal(signal.SIGCONT)
        assert "completed" in host.stdout.read()


STARTING = """
import sys, trio, agentrt

async def main():
    script = "echo starting >&2; sleep 2; exec $0 -m agentrt.demo"
    agent = agentrt.agents.acp(["sh", "-c", script, sys.executable], name="demo")
    limits = agentrt.Limits(startup_timeout_s=7)

    def heard(data):
        print(data.decode(), end="", flush=True)

    async with agentrt.open_session(agent, limits=limits, on_stderr=heard) as session:
        print(session.state.phase)

trio.run(main)
"""


@pytest.mark.slow
def test_an_agent_that_starts_meanwhile_is_waited_for() -> None:
    host = subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True)
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == "starting\n"
        host.send_signal(signal.SIGSTOP)
        time.sleep(14)  # twice the limit on the start
        host.send_signal(signal.SIGCONT)
        assert host.stdout.read() == "idle\n"
