"""A soak: many sessions in one runtime, everything that can happen to them, for a long time.

    nox -s soak -- --minutes 60 --sessions 20

Each worker opens a session, leads it through turns of all kinds (answered, with a permission and a
tool, cancelled, given up on by their caller, ended by the agent's death or by `kill -9`), closes it
and opens another one. What the process holds is sampled; at the end the slopes are printed, and a
slope beyond its bound, or anything left when all is closed, is a failure.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import astuple, fields
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

import agentrt
from faults.real import agent
from hygiene.kit import LIMITS, Holdings

EVERY = 2.0
"""Seconds between two samples."""
WARM = 2000
"""Turns that are not looked at: caches fill, the allocator finds its size."""
LEAST = 1000
"""Turns behind them by which slopes can be judged."""

BOUNDS = {
    "rss": 1.0,
    "descriptors": 2.0,
    "tasks": 4.0,
    "threads": 0.5,
    "processes": 1.0,
    "zombies": 0.5,
}
"""What each may grow by in 1,000 turns, in its own unit, beyond what chance explains (twice the
slope's standard error: sessions come and go)."""

ACTS = ["hello", "work", "stop", "give up", "die", "kill", "rename"]


class Soak:
    """What is done and what is seen."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.turns = 0
        self.samples: list[tuple[float, int, Holdings]] = []
        self.ending = False

    async def worker(self, runtime: agentrt.Runtime) -> None:
        while not self.ending:
            protocol = self.chance.choice(["acp", "claude"])
            session = await runtime.create(agent(protocol))
            self.done["sessions"] += 1
            for _ in range(self.chance.randrange(1, 12)):
                if self.ending:
                    break
                act = self.chance.choice(ACTS)
                self.done[act] += 1
                try:
                    await self.act(session, act)
                except agentrt.AgentStartError:
                    self.done["not started"] += 1  # killed on its way
            await runtime.close(session.id)

    async def act(self, session: agentrt.Session, act: str) -> None:
        self.turns += 1
        match act:
            case "hello" | "work" | "die":
                result = await session.run(act, check=False)
            case "stop":
                turn = session.submit("stream")
                await trio.sleep(self.chance.uniform(0, 0.05))
                turn.cancel()
                if not turn.id:  # its agent was still being started
                    self.done["taken back"] += 1
                    return
                with trio.fail_after(60):
                    await session.wait_idle()
                result = turn.result
            case "give up":
                with trio.move_on_after(self.chance.uniform(0, 0.05)):
                    await session.run("stream", check=False)
                return
            case "kill":
                turn = session.submit("stream")
                await trio.sleep(self.chance.uniform(0, 0.05))
                if (pid := session.agent.pid) is not None:
                    os.kill(pid, signal.SIGKILL)
                turn.cancel()
                return
            case _:
                session.rename(f"title {self.turns}")
                return
        self.done[f"turns {result.outcome}"] += 1

    async def sample(self, minutes: float) -> None:
        until = trio.current_time() + 60 * minutes
        while trio.current_time() < until:
            await trio.sleep(EVERY)
            self.samples.append((time.monotonic(), self.turns, Holdings.now()))
        self.ending = True


async def main(minutes: float, sessions: int, seed: int) -> int:
    @agentrt.tool
    async def record(n: int) -> str:
        """Write a number down."""
        return f"recorded {n}"

    soak = Soak(seed)
    before = Holdings.now()
    runtime = agentrt.open_runtime(limits=LIMITS, tools=[record], permissions=agentrt.allow_all)
    async with runtime as opened, trio.open_nursery() as nursery:
        nursery.start_soon(soak.sample, minutes)
        for _ in range(sessions):
            nursery.start_soon(soak.worker, opened)
    after = Holdings.now()
    left = before.but_for_rss() != after.but_for_rss()
    print(f"seed {seed}: {soak.turns} turns; {dict(sorted(soak.done.items()))}")
    print(f"before {before}\nafter  {after}{'  LEFT SOMETHING' if left else ''}")
    grown = report(soak.samples)
    return int(left or grown)


def report(samples: list[tuple[float, int, Holdings]]) -> bool:
    """Print the slopes; whether one is beyond its bound."""
    warm = [sample for sample in samples if sample[1] >= WARM]
    short = len(warm) < 8 or warm[-1][1] - warm[0][1] < LEAST
    if short:
        print(f"fewer than {LEAST} turns behind the first {WARM}: too short to judge")
    samples = samples[len(samples) // 4 :] if short else warm
    if len(samples) < 3:
        return False
    began = samples[0][0]
    minutes = [(when - began) / 60 for when, _, _ in samples]
    turns = [turn / 1000 for _, turn, _ in samples]
    rows = [astuple(holdings) for _, _, holdings in samples]
    failed = False
    print(f"{'':12} {'mean':>9} {'a minute':>10} {'1,000 turns':>12} {'+-':>8} {'bound':>6}")
    for field, values in zip(fields(Holdings), zip(*rows, strict=True), strict=True):
        slope, error = fit(turns, values)
        bound = BOUNDS[field.name]
        beyond = not short and slope - 2 * error > bound
        failed |= beyond
        print(
            f"{field.name:12} {statistics.fmean(values):9.2f} {fit(minutes, values)[0]:10.3f} "
            f"{slope:12.3f} {error:8.3f} {bound:6.1f}{'  TOO MUCH' if beyond else ''}"
        )
    return failed


def fit(xs: list[float], ys: tuple[float, ...]) -> tuple[float, float]:
    """The slope of a line through the points, and its standard error."""
    slope, intercept = statistics.linear_regression(xs, ys)
    spread = sum((x - statistics.fmean(xs)) ** 2 for x in xs)
    rest = sum((y - slope * x - intercept) ** 2 for x, y in zip(xs, ys, strict=True))
    return slope, (rest / (len(xs) - 2) / spread) ** 0.5


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sessions", type=int, default=12, help="at a time")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    sys.exit(trio.run(main, given.minutes, given.sessions, given.seed))
