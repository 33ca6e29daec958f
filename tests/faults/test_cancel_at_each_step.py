"""A session's life, cancelled at every step of it: it ends as Trio says, in bounded time, tells a
whole story, and leaves nothing.

Each n-th step is tried until there is no n-th one, those of the task that leads the life and of
every task that works for it: as the task falls asleep, and as it has been woken.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from itertools import count

import pytest
import trio
from trio.testing import MockClock

from agentrt._core.runtime.runtime import Source, serve_runtime
from agentrt.agents import AgentInfo

from .interrupt import AtStep, Moment
from .life import LIMITS, Life, Protocol
from .quick import chosen
from .wellformed import check_log, outcomes

by_protocol = pytest.mark.parametrize(
    "protocol", ["acp", pytest.param("claude", marks=pytest.mark.slow)]
)
at = pytest.mark.parametrize("moment", ["parked", "woken"])

BOUND = (
    LIMITS.cancel_grace_s
    + LIMITS.stdin_close_grace_s
    + LIMITS.terminate_grace_s
    + LIMITS.kill_wait_s
)
"""What the end may cost with a stubborn agent, in Trio's seconds."""
AT_ONCE = LIMITS.end_silence_s
"""What it may cost with one that obeys."""


def run(
    lead: Callable[[AtStep], Awaitable[None]],
    n: int,
    moment: Moment,
    *,
    armed: Callable[[], bool] = lambda: True,
) -> bool:
    """Run a program on Trio, to be disturbed at its n-th step while it is `armed`; the program
    says how. False if it has not so many."""
    running = False
    step = AtStep(n, moment, lambda task: running and armed())

    async def program() -> None:
        nonlocal running
        tasks = trio.lowlevel.current_statistics().tasks_living
        running = True
        await lead(step)
        running = False
        assert trio.lowlevel.current_statistics().tasks_living == tasks

    before = len(os.listdir("/proc/self/fd"))
    trio.run(program, clock=MockClock(autojump_threshold=0), instruments=[step])
    assert len(os.listdir("/proc/self/fd")) == before
    return step.fired


def at_every_step(attempt: Callable[[int], bool], *, least: int) -> None:
    """Try it for n = 1, 2, 3, … until there is no n-th step; there must be some."""
    last = next(n for n in chosen(count(1), one_in=3) if not attempt(n))
    assert last > least


@by_protocol
@at
@pytest.mark.parametrize(
    "ignores",
    [
        pytest.param([], id="obedient"),
        pytest.param(["eof", "terminate"], id="stubborn", marks=pytest.mark.slow),
        pytest.param(["cancel", "eof"], id="unresponsive", marks=pytest.mark.slow),
    ],
)
def test_a_life_cancelled_at_any_step_ends_there(
    protocol: Protocol, moment: Moment, ignores: list[str]
) -> None:
    def attempt(n: int) -> bool:
        life, when, before = Life(protocol, ignores=frozenset(ignores)), 0.0, 0

        async def lead(step: AtStep) -> None:
            def cancel() -> None:
                nonlocal when, before
                when, before = trio.current_time(), len(life.done)
                life.whole.cancel()

            step.act = cancel
            await life.live()
            if step.fired:
                assert trio.current_time() - when <= (BOUND if ignores else AT_ONCE)

        fired = run(lead, n, moment)
        life.check_left()
        check_log(life.events)
        if not fired:
            life.check_whole()
            return False
        assert life.whole.cancelled_caught or life.done[-1] == "close"  # its very last step
        # What was under way may have ended well; no other turn began. (To leave the session's block
        # is to clean up: that may go well, too.)
        assert len([done for done in life.done[before:] if done != "close"]) <= 1
        return True

    at_every_step(attempt, least=100)


@pytest.mark.slow
@by_protocol
@at
def test_a_turn_cancelled_at_any_step_costs_the_session_nothing(
    protocol: Protocol, moment: Moment
) -> None:
    def attempt(n: int) -> bool:
        life, cancelled = Life(protocol), list[trio.CancelScope]()

        async def lead(step: AtStep) -> None:
            def cancel() -> None:
                cancelled.append(life.turn)
                life.turn.cancel()

            step.act = cancel
            await life.live()

        fired = run(lead, n, moment, armed=lambda: life.in_turn)
        life.check_left()
        check_log(life.events)
        if not fired:
            life.check_whole()
            return False
        [scope] = cancelled
        # It came out of the turn that it went into, and every other one went as it should.
        assert len(life.done) == 8 - scope.cancelled_caught
        told = outcomes(life.events)
        assert told.count("completed") >= 2
        assert set(told) <= {"completed", "cancelled", "agent_died"}
        return True

    at_every_step(attempt, least=60)


@by_protocol
@at
def test_an_opening_cancelled_at_any_step_leaves_a_runtime_that_opens_another(
    protocol: Protocol, moment: Moment
) -> None:
    def attempt(n: int) -> bool:
        life, opening = Life(protocol), False

        async def lead(step: AtStep) -> None:
            nonlocal opening
            source = Source(lambda *args, **settings: life.open(), lambda: [AgentInfo(name="fake")])
            async with serve_runtime(source, LIMITS) as runtime:
                with trio.CancelScope() as scope:
                    step.act = scope.cancel
                    opening = True
                    life.session = await runtime.create("fake")
                opening = False
                if scope.cancelled_caught:
                    assert not runtime.list()
                    assert all(process.returncode is not None for process in life.processes)
                else:
                    assert life.session is not None
                    await runtime.close(life.session.id)
                session = await runtime.create("fake")
                assert (await session.run("hello")).text == "hello"

        fired = run(lead, n, moment, armed=lambda: opening)
        life.check_left()
        check_log(life.events)
        return fired

    at_every_step(attempt, least=10)
