"""Runs of a program under Trio that a seed decides, and nothing else.

Trio shuffles the tasks that may run, by a random generator of its own that only Hypothesis is meant
to seed. The private names that this needs are here, and nowhere else; a test holds that they mean
what they meant.

(Merely importing Hypothesis switches the same generator on, and Hypothesis then seeds it alike for
each example: such a suite explores one schedule without saying so.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

import trio
from trio._core import _run
from trio.testing import MockClock

T = TypeVar("T")
Args = TypeVarTuple("Args")

_FLAG = "_ALLOW_DETERMINISTIC_SCHEDULING"


def run_seeded(async_fn: Callable[[*Args], Awaitable[T]], *args: *Args, seed: int) -> T:
    """`trio.run` with tasks scheduled by `seed`, on a clock that begins at zero and jumps whenever
    nothing else can happen.

    The same seed gives the same run, in another process, too, as long as the program itself draws
    on nothing else: no threads, processes or sockets, no time but Trio's, no order of a set.
    """
    scheduler: Any = _run
    before, state = getattr(scheduler, _FLAG), scheduler._r.getstate()
    setattr(scheduler, _FLAG, True)
    scheduler._r.seed(seed)
    try:
        return trio.run(async_fn, *args, clock=MockClock(autojump_threshold=0))
    finally:
        setattr(scheduler, _FLAG, before)
        scheduler._r.setstate(state)
