"""However a program on asyncio ends, in the middle of a turn: nothing of it is left. (Behind every
test somebody looks for processes.)"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentrt import aio
from aio.kit import PATIENCE, PROGRAMS, processes, run
from faults.quick import mostly_slow

pytestmark = pytest.mark.slow

ROUNDS = 5


def _ended(loop: str, program: str, says: list[str], folder: Path) -> None:
    """Run a program, and see that it has ended with nothing left."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "aio.programs", loop, program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )
    left = processes()
    at_its_end = ["threads []", "processes []", ""]
    assert done.stdout.split("\n") == ["in a turn", *says, *at_its_end], done.stderr
    assert done.stderr == ""
    assert done.returncode == 0
    assert left == []


@pytest.mark.parametrize("loop", mostly_slow(["asyncio", "by_hand", "uvloop"], one_in=3))
@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("interrupted", ["KeyboardInterrupt"]),
        ("failed", ["ZeroDivisionError"]),
        ("left", []),
        ("cancelled", ["['cancelled']"]),
    ],
)
def test_a_program_that_is_ended_in_a_turn_ends_at_once(
    loop: str, program: str, says: list[str], tmp_path: Path
) -> None:
    _ended(loop, program, says, tmp_path)


def test_programs_cancel_a_turn_from_their_own_task_one_after_the_other(tmp_path: Path) -> None:
    for _ in range(PROGRAMS):
        _ended("asyncio", "cancelled", ["['cancelled']"], tmp_path)


async def _cancelled_turns(rounds: int) -> None:
    for _ in range(rounds):
        async with aio.open_session("demo") as session:
            begun = asyncio.Event()

            async def turn(session=session, begun=begun) -> None:  # type: ignore[no-untyped-def]
                async with session.prompt("/slow 60") as turn:
                    async for _ in turn:
                        begun.set()

            task = asyncio.create_task(turn())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.state.turn is None
            assert session.log.state.turns
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_task_cancels_its_turn_again_and_again_and_nothing_is_left() -> None:
    run(lambda: _cancelled_turns(ROUNDS))


def test_a_program_runs_loop_after_loop_and_keeps_no_thread() -> None:
    for _ in range(PROGRAMS // ROUNDS):
        run(lambda: _cancelled_turns(ROUNDS))
    resting = [each for each in threading.enumerate() if each.name.startswith("Trio thread ")]
    for each in resting:  # kept by Trio for ten seconds, in case they are needed again
        each.join(PATIENCE)
        assert not each.is_alive()
