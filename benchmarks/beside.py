"""Measure what one session notices of a hostile agent in the session beside it.

    python benchmarks/beside.py [--seconds 2] [--only line,flood] [--trace]

Session B has one short turn after the other while the agent of session A misbehaves, reaches its
limit, is killed and replaced. Shown are, in milliseconds, how long B's turns took, and how much
computing time a round of Trio's scheduler did: for longer nobody is kept waiting by the program
itself. (Part of a turn is waiting for a processor, which A's agent and the machine's other work
use as well.) With --trace, A also writes a trace file, and its wire is looked at as the page does.

The exit code is 1 if one in a hundred of B's turns took 50 ms longer beside A than without, and one
in a thousand rounds took as long.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import agentrt
from agentrt.tracing import RecentWire
from hostile.beside import SHAPES, Shape, nothing
from hostile.kit import PATIENT, SHORT, bad_session, works

MOST = 50
"""Milliseconds by which a neighbour may delay a turn."""

LOOK_S = 0.5
"""Seconds between two looks at the rows of the wire."""


class Rounds(trio.abc.Instrument):
    """The computing time of each round of Trio's scheduler, in milliseconds."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._begun = time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self._begun = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.took.append((time.thread_time() - self._begun) * 1e3)


class Seen(NamedTuple):
    """What B noticed, in milliseconds."""

    turns: list[float]
    rounds: list[float]


async def look(session: agentrt.Session, what: Callable[[], Awaitable[object]]) -> Seen:
    """B's turns, and what else the program did, while something is awaited."""
    rounds = Rounds()
    turns: list[float] = []
    over = False

    async def work() -> None:
        while not over or len(turns) < 5:
            started = trio.current_time()
            await works(session)
            turns.append((trio.current_time() - started) * 1e3)
            await trio.sleep(0.005)

    trio.lowlevel.add_instrument(rounds)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await what()
        over = True
    trio.lowlevel.remove_instrument(rounds)
    return Seen(turns, rounds.took)


async def watch(session: agentrt.Session) -> None:
    """Look at the wire of a session as the page does, until cancelled."""
    wire = RecentWire(session.trace())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.listen)
        while True:
            wire.rows()
            await trio.sleep(LOOK_S)


async def beside(shape: Shape, seconds: float, folder: str, *, traced: bool) -> Seen:
    limits = structs.replace(SHORT, turn_timeout_s=0.4, permission_timeout_s=0.2)
    async with (
        bad_session(limits=PATIENT, bound=seconds + 60) as well,
        bad_session(
            misbehave=shape,
            limits=limits,
            permissions=agentrt.ask,
            tools=(nothing,),
            cwd=folder,
            trace=Path(folder, "a.trace") if traced else None,
            bound=seconds + 60,
        ) as ill,
        trio.open_nursery() as watching,
    ):
        if traced:
            watching.start_soon(watch, ill)

        async def misbehave() -> None:
            until = trio.current_time() + seconds
            while trio.current_time() < until:
                async with ill.prompt("misbehave", check=False) as turn:
                    async for _ in turn:
                        pass
                await works(ill)

        seen = await look(well, misbehave)
        watching.cancel_scope.cancel(reason="over")
    return seen


async def alone(seconds: float) -> Seen:
    async with bad_session(limits=PATIENT, bound=seconds + 60) as well:
        return await look(well, partial(trio.sleep, seconds))


def above(values: list[float], share: float) -> float:
    """What all but this share are not above."""
    return sorted(values)[int(len(values) * (1 - share))]


def show(name: str, seen: Seen) -> None:
    figures = [
        *(statistics.median(seen.turns), above(seen.turns, 0.01), max(seen.turns)),
        *(above(seen.rounds, 0.01), above(seen.rounds, 0.001), max(seen.rounds)),
    ]
    print(f"{name:40}", f"{len(seen.turns):5}", *(f"{each:8.1f}" for each in figures), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--trace", action="store_true", help="trace A, and look at its wire")
    said = parser.parse_args()
    heads = ["B: med", "99 %", "worst", "round99", "99.9 %", "worst"]
    print(f"{'A':40} {'turns':>5}", *(f"{head:>8}" for head in heads))
    without = trio.run(alone, said.seconds)
    show("(nobody)", without)
    bad = []
    for shape in SHAPES:
        if not any(part in shape.__name__ for part in said.only.split(",")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            job = partial(beside, shape, said.seconds, folder, traced=said.trace)
            seen = trio.run(job)
        show(shape.__name__, seen)
        late = above(seen.turns, 0.01) - above(without.turns, 0.01)
        if min(late, above(seen.rounds, 0.001)) > MOST:
            bad.append(shape.__name__)
    print("noticed by B:", ", ".join(bad) or "nothing")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
