"""Measure what one session notices of a hostile agent in the session beside it.

    python benchmarks/beside.py [--seconds 2] [--only line,flood]

Session B has one short turn after the other while the agent of session A misbehaves, reaches its
limit, is killed and replaced. Shown are B's turns and how late its program was for a task that
sleeps a millisecond at a time, in milliseconds, without A and beside it. The exit code is 1 if one
in a hundred was 50 ms slower, or later, than the same without A. The worst says as much about
the machine: part of it is waiting for a processor, which the hostile agent uses as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import agentrt
from hostile.beside import SHAPES, Shape, nothing
from hostile.kit import PATIENT, SHORT, bad_session, works

MOST = 50
"""Milliseconds by which a neighbour may delay a turn."""

NAP = 0.001


class Seen(NamedTuple):
    """What B noticed, in milliseconds."""

    turns: list[float]
    late: list[float]


async def look(session: agentrt.Session, what: Callable[[], Awaitable[object]]) -> Seen:
    """B's turns, and how late its program was, while something is awaited."""
    seen = Seen([], [])
    over = False

    async def work() -> None:
        while not over or len(seen.turns) < 5:
            started = trio.current_time()
            await works(session)
            seen.turns.append((trio.current_time() - started) * 1e3)
            await trio.sleep(0.005)

    async def nap() -> None:
        while not over:
            started = trio.current_time()
            await trio.sleep(NAP)
            seen.late.append((trio.current_time() - started - NAP) * 1e3)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        nursery.start_soon(nap)
        await what()
        over = True
    return seen


async def beside(shape: Shape, seconds: float, folder: str) -> Seen:
    limits = structs.replace(SHORT, hard=0.4)
    async with (
        bad_session(limits=PATIENT, bound=seconds + 60) as well,
        bad_session(
            misbehave=shape,
            limits=limits,
            permissions=agentrt.ask,
            tools=(nothing,),
            cwd=folder,
            bound=seconds + 60,
        ) as ill,
    ):

        async def misbehave() -> None:
            until = trio.current_time() + seconds
            while trio.current_time() < until:
                async with ill.prompt("misbehave", check=False) as turn:
                    async for _ in turn:
                        pass
                await works(ill)

        return await look(well, misbehave)


async def alone(seconds: float) -> Seen:
    async with bad_session(limits=PATIENT, bound=seconds + 60) as well:
        return await look(well, partial(trio.sleep, seconds))


def high(values: list[float]) -> float:
    """What one in a hundred is above."""
    return sorted(values)[int(len(values) * 0.99)]


def show(name: str, seen: Seen) -> None:
    cells = [f"{name:40}", f"{len(seen.turns):5}"]
    for values in seen:
        figures = (statistics.median(values), high(values), max(values))
        cells += [f"{each:8.1f}" for each in figures]
    print(" ".join(cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    said = parser.parse_args()
    heads = ["B: med", "99 %", "worst", "late", "99 %", "worst"]
    print(f"{'A':40} {'turns':>5}", *(f"{head:>8}" for head in heads))
    without = trio.run(alone, said.seconds)
    show("(nobody)", without)
    bad = []
    for shape in SHAPES:
        if not any(part in shape.__name__ for part in said.only.split(",")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            seen = trio.run(beside, shape, said.seconds, folder)
        show(shape.__name__, seen)
        if any(
            high(mine) > high(theirs) + MOST for mine, theirs in zip(seen, without, strict=True)
        ):
            bad.append(shape.__name__)
    print("noticed by B:", ", ".join(bad) or "nothing")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
