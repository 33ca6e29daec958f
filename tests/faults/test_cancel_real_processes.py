"""A life on real processes, cancelled at its steps: what `test_cancel_at_each_step` shows in memory
holds for programs, their children and their descriptors."""

from __future__ import annotations

import os
from itertools import count

import pytest
import trio

from .interrupt import AtStep, Moment
from .life import Protocol
from .quick import chosen
from .real import RealLife
from .wellformed import check_log, outcomes

BOUND = 30.0
"""Seconds for a whole life; a tenth of one is usual."""


def attempt(protocol: Protocol, moment: Moment, n: int, what: str) -> bool:
    """One life, cancelled at the n-th step: all of it, or only the turn. False: it has fewer."""
    life, running = RealLife(protocol), False
    armed = lambda: running and (what == "life" or life.in_turn)  # noqa: E731
    step = AtStep(n, moment, lambda task: armed())
    step.act = lambda: (life.whole if what == "life" else life.turn).cancel()

    async def lead() -> None:
        nonlocal running
        with trio.fail_after(BOUND):
            running = True
            await life.live()
            running = False

    before = len(os.listdir("/proc/self/fd"))
    trio.run(lead, instruments=[step])
    try:
        life.check_left()
        check_log(life.events)
        assert len(os.listdir("/proc/self/fd")) == before
        if not step.fired:
            life.check_whole()
        elif what == "life":
            assert life.whole.cancelled_caught or life.done[-1] == "close"
        else:
            assert len(life.done) in (7, 8)
            assert set(outcomes(life.events)) <= {"completed", "cancelled", "agent_died"}
    except AssertionError as error:
        error.add_note(f"cancelled at step {n}: {life.done}")
        raise
    return step.fired


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["acp", pytest.param("claude", marks=pytest.mark.slow)])
@pytest.mark.parametrize("moment", ["parked", pytest.param("woken", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["life", "turn"])
def test_cancelled_at_any_step_it_leaves_no_process(
    protocol: Protocol, moment: Moment, what: str
) -> None:
    for n in chosen(count(1), one_in=40):
        if not attempt(protocol, moment, n, what):
            assert n > 60
            break
