"""`kill -9` of the agent at random moments: each turn ends once, by name, and the next one works.

The quick form makes 30 rounds for each protocol, `nox -s hygiene` 500.
"""

from __future__ import annotations

import os
import random
import signal

import psutil
import pytest
import trio
from msgspec.structs import replace

import agentrt
from faults.life import Protocol
from faults.quick import FULL
from faults.real import MARK, agent, carriers
from faults.wellformed import check_log, outcomes

from .kit import LIMITS, Holdings

ROUNDS = 500 if FULL else 30
WHOLE_LOG = replace(LIMITS, recent_events=10**9, recent_events_bytes=10**12)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["acp", "claude"])
async def test_an_agent_killed_at_any_moment_costs_one_turn(protocol: Protocol) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    mark = f"killed-{seed}"
    kills = died = 0

    async def kill(session: agentrt.Session, delay: float) -> None:
        nonlocal kills
        await trio.sleep(delay)
        pid = session.agent.pid
        if pid is not None and psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
            kills += 1

    with trio.fail_after(30 + ROUNDS):
        async with agentrt.open_session(
            agent(protocol),
            limits=WHOLE_LOG,
            permissions=agentrt.allow_all,
            env={**os.environ, MARK: mark},
        ) as session:
            base: Holdings | None = None
            for number in range(ROUNDS):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(kill, session, chance.uniform(0, 0.15))
                    try:
                        # The kill may have come before the prompt: then it goes on for ever.
                        with trio.move_on_after(0.3):
                            what = chance.choice(["hello", "stream", "stream"])
                            result = await session.run(what, check=False)
                            assert result.outcome in ("completed", "agent_died"), seed
                            died += result.outcome == "agent_died"
                    except agentrt.AgentStartError:
                        pass  # killed while it started
                assert len(carriers(mark)) <= 1, f"seed {seed}, round {number}"
                if number == 5:
                    await works(session)
                    base = Holdings.now()
            await works(session)
            assert base is not None
            assert Holdings.now().but_for_rss() == base.but_for_rss()
            events = session.log.since(0)
    check_log(events)
    assert died >= ROUNDS / 10
    assert kills >= died
    assert len(outcomes(events)) >= ROUNDS / 2
    assert not carriers(mark)


async def works(session: agentrt.Session) -> None:
    """The next turn is answered. (The last kill may not have been noticed yet.)"""
    while (result := await session.run("still there?", check=False)).outcome == "agent_died":
        pass
    assert result.text == "still there?"


@pytest.mark.parametrize("protocol", ["acp", "claude"])
async def test_no_prompt_is_sent_to_an_agent_that_has_died_unnoticed(protocol: Protocol) -> None:
    with trio.fail_after(30):
        async with agentrt.open_session(agent(protocol), limits=LIMITS) as session:
            await session.run("hello")
            assert session.agent.pid is not None
            os.kill(session.agent.pid, signal.SIGKILL)
            # The host is busy meanwhile, and notices nothing.
            os.waitid(os.P_PID, session.agent.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
            assert session.agent.alive
            assert (await session.run("again")).text.strip() == "again"
