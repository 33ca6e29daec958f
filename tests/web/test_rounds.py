"""A few rounds of `rounds.py`, over real sockets and with an agent's real process."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from web.rounds import play

pytestmark = pytest.mark.slow


async def test_a_client_that_is_cut_off_at_random_frames_misses_nothing(tmp_path: Path) -> None:
    with trio.fail_after(120):
        did = await play(rounds=60, seed=1, folder=tmp_path)
    assert did["cut off"] == 60
    assert did["turns"] > 5
    assert did["prompted"] > 5
    assert did["rested"] == 3
