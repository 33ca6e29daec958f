"""A stored session's life in which one call fails, of SQLite's or of the system's: each of them in
turn, once, for a while or from then on, before or behind what it does.

Nothing that was seen is lost, no prompt is sent twice, and the next process goes on.
"""

from __future__ import annotations

import math
import os
from itertools import count
from pathlib import Path

import pytest
import trio

from .failing_store import StoreLife, Where, failing
from .inject import Faults
from .quick import chosen

BOUND = 60.0
PLACES = [pytest.param(place, marks=pytest.mark.slow) for place in ("before", "behind")] + ["below"]
"""Where it fails: a call of the library, before or behind what it does, or SQLite's own call."""


def attempt(folder: Path, n: int, which: int, times: float, where: Where) -> Faults:
    """One life, in which the n-th call fails."""
    life = StoreLife(folder / "sessions.db")
    faults = Faults(n, which, times=times)
    before = len(os.listdir("/proc/self/fd"))

    async def lead() -> None:
        with trio.fail_after(BOUND):
            faults.armed = True
            await life.live()
            faults.armed = False
            await life.check()

    with failing(faults, where):
        try:
            trio.run(lead)
            assert len(os.listdir("/proc/self/fd")) == before
            if not faults.failed:
                assert not life.raised
                assert len(life.done) == 3
        except BaseException as error:
            error.add_note(f"call {n} failed: {faults.failed}; {life.done}; {life.raised!r}")
            raise
    return faults


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    "which",
    [pytest.param(0, id="an error", marks=pytest.mark.slow), pytest.param(1, id="a full disk")],
)
@pytest.mark.parametrize("times", [1, 5, math.inf], ids=["once", "for a while", "from then on"])
def test_whichever_call_fails_nothing_is_lost_that_was_seen(
    where: Where, which: int, times: float, tmp_path: Path
) -> None:
    for n in chosen(count(1), one_in=120):
        folder = tmp_path / str(n)
        folder.mkdir()
        if not attempt(folder, n, which, times, where).failed:
            assert n > 80
            break
