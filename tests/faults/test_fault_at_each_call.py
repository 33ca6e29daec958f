"""A session's life on real processes, in which one call of the system fails: each of them in turn.

It comes out as an outcome or as an error with a name, in bounded time; the log is whole, and no
process, descriptor or task is left.
"""

from __future__ import annotations

import math
import os
from itertools import count

import pytest
import trio

import agentrt

from .inject import Faults
from .life import Protocol
from .quick import chosen
from .real import SHORT, RealLife
from .wellformed import check_log, outcomes

BOUND = 30.0
"""Seconds for a whole life. What may be waited for in it is shorter, by `SHORT`."""

by_protocol = pytest.mark.parametrize(
    "protocol", ["acp", pytest.param("claude", marks=pytest.mark.slow)]
)
"""The two differ in little here, but that is where they might."""


def attempt(protocol: Protocol, n: int, which: int, times: float = 1) -> Faults:
    """One life, in which the n-th call fails."""
    life, faults = RealLife(protocol, limits=SHORT), Faults(n, which, times=times)
    raised: list[Exception] = []

    async def lead() -> None:
        with trio.fail_after(BOUND):
            faults.armed = True
            try:
                await life.live()
            except agentrt.AgentrtError as error:
                raised.append(error)
            finally:
                faults.armed = False

    before = len(os.listdir("/proc/self/fd"))
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        try:
            trio.run(lead)
        except BaseException as error:
            error.add_note(f"call {n} failed: {faults.failed}; lived through: {life.done}")
            raise
    try:
        life.check_left()
        check_log(life.events)
        assert len(os.listdir("/proc/self/fd")) == before
        if not faults.failed:
            assert not raised
            life.check_whole()
        elif not raised:
            assert life.done[-1] == "close"
        assert set(outcomes(life.events)) <= {
            *("completed", "cancelled", "agent_died", "failed", "timed_out")
        }
    except AssertionError as error:
        error.add_note(f"call {n} failed: {faults.failed}; raised {raised!r}; {life.done}")
        raise
    return faults


@by_protocol
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "times",
    [
        pytest.param(math.inf, id="from then on", marks=pytest.mark.slow),
        pytest.param(1, id="once"),
    ],
)
def test_whichever_call_fails_it_has_a_name_and_nothing_is_left(
    protocol: Protocol, which: int, times: float
) -> None:
    for n in chosen(count(1), one_in=16):
        if not attempt(protocol, n, which, times).failed:
            assert n > 80
            break
