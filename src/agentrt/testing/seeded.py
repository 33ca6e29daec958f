"""Runs of a program under Trio that depend only on a seed.

Trio shuffles the runnable tasks with its own random generator, which only Hypothesis is meant to
seed. All private names that this needs are in this file; a test checks that their meaning has not
changed.

(Merely importing Hypothesis switches the same generator on, and Hypothesis then seeds it alike for
each example: such a suite explores one schedule without reporting it.)
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
    """Run a program like `trio.run`, with tasks scheduled by `seed`.

    The clock starts at zero and jumps whenever nothing else can happen. The same seed gives the
    same run, also in another process, as long as the program uses no other source of chance: no
    threads, processes or sockets, no time but Trio's, no order of a set. Returns the function's
    result.
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
