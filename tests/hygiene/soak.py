"""A soak: many sessions in one runtime, everything that can happen to them, for a long time.

    nox -s soak -- --minutes 60 --sessions 50 --viewers 20

A store in a file keeps the sessions, and viewers on slow lines come, view some and leave. Each
worker opens a session, leads it through turns of all kinds (answered, with a permission and a tool,
cancelled, given up on by their caller, ended by the agent's death or by `kill -9`), closes it and
opens another one. What the process holds is sampled; at the end the slopes are printed, and a slope
beyond its bound, a step of a task that takes longer than 50 ms of computing time, or anything left
when all is closed, is a failure.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec import structs
from prometheus_client import CollectorRegistry

import agentrt
from faults.real import agent
from hygiene.kit import LIMITS, Holdings
from web.sockets import TOKEN

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

STEP_MS = 50.0
"""Longest computing time of one step of a task. All other tasks wait for it."""

ACTS = ["hello", "work", "stop", "give up", "die", "kill", "rename"]


class Steps(trio.abc.Instrument):
    """The steps of all tasks, in milliseconds of computing time of their thread."""

    def __init__(self) -> None:
        self.longest_ms = self.longest_collection_ms = 0.0
        self.counts: Counter[int] = Counter()
        self._collections_ms = 0.0  # in this step
        self._began_s = self._collection_began_s = time.thread_time()

    def collection(self, phase: str, info: dict[str, int]) -> None:
        """Measure a garbage collection. It is part of a step."""
        if phase == "start":
            self._collection_began_s = time.thread_time()
        else:
            took_ms = (time.thread_time() - self._collection_began_s) * 1e3
            self._collections_ms += took_ms
            if took_ms > self.longest_collection_ms:
                self.longest_collection_ms = took_ms
                print(f"a garbage collection of {took_ms:.1f} ms: {info}", flush=True)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._collections_ms = 0.0
        self._began_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_ms = (time.thread_time() - self._began_s) * 1e3
        if took_ms > 5:
            self.counts[next(each for each in (10, 20, 50, 10_000) if took_ms < each)] += 1
            if took_ms > self.longest_ms:
                self.longest_ms = took_ms
                of_it = f"garbage collections {self._collections_ms:.1f} ms of it"
                print(f"a step of {took_ms:.1f} ms in {task.name}; {of_it}", flush=True)


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
            try:
                session = await runtime.create(agent(protocol))
            except agentrt.AgentStartError:  # the machine is busy
                self.done["not started"] += 1
                continue
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


def freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Freeze the survivors of each full collection, so that none is examined twice."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


async def watch(port: int, viewers: int, minutes: float, seed: int) -> None:
    """Run the viewers, and print what they have received."""
    script = Path(__file__).with_name("slow_viewers.py")
    given = {"port": port, "viewers": viewers, "seconds": minutes * 60, "seed": seed}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    done = await trio.run_process([sys.executable, str(script), *words], capture_stdout=True)
    print("viewers:", done.stdout.decode().strip())


async def main(minutes: float, sessions: int, viewers: int, seed: int) -> int:
    @agentrt.tool
    async def record(n: int) -> str:
        """Write a number down."""
        return f"recorded {n}"

    soak = Soak(seed)
    before = Holdings.now()
    metrics = agentrt.telemetry.Metrics(registry=CollectorRegistry())
    with tempfile.TemporaryDirectory() as folder:
        async with (
            agentrt.store.open_store(Path(folder) / "soak.db") as store,
            agentrt.open_runtime(
                limits=structs.replace(LIMITS, open_sessions=2 * sessions),
                tools=[record],
                permissions=agentrt.allow_all,
                store=store,
                telemetry=metrics,
            ) as opened,
            trio.open_nursery() as server,
        ):
            security = agentrt.web.Security(token=TOKEN)
            site = await server.start(partial(agentrt.web.serve, opened, security=security))
            steps = Steps()
            trio.lowlevel.add_instrument(steps)
            gc.collect()
            gc.freeze()
            gc.set_threshold(700, 10, 1)  # all as `agentrt serve` does, also what follows
            gc.callbacks += [steps.collection, freeze_survivors]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(soak.sample, minutes)
                if viewers:
                    nursery.start_soon(watch, site.port, viewers, minutes, seed)
                for _ in range(sessions):
                    nursery.start_soon(soak.worker, opened)
            trio.lowlevel.remove_instrument(steps)
            for callback in (steps.collection, freeze_survivors):
                gc.callbacks.remove(callback)
            server.cancel_scope.cancel()
    after = Holdings.now()
    left = before.but_for_rss() != after.but_for_rss()
    print(f"seed {seed}: {soak.turns} turns; {dict(sorted(soak.done.items()))}")
    print(f"before {before}\nafter  {after}{'  LEFT SOMETHING' if left else ''}")
    grown = report(soak.samples)
    told = ", ".join(f"{count} below {most} ms" for most, count in sorted(steps.counts.items()))
    slow = steps.longest_ms > STEP_MS
    print(
        f"longest step {steps.longest_ms:.1f} ms{'  TOO LONG' if slow else ''}; above 5 ms: {told}"
    )
    print(f"longest garbage collection {steps.longest_collection_ms:.1f} ms")
    for line in metrics.render().decode().splitlines():
        if line.startswith(("agentrt_longest_step", "agentrt_turns_total")):
            print(line)
    return int(left or grown or slow)


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
    parser.add_argument("--viewers", type=int, default=20, help="at a time, on slow lines")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    sys.exit(trio.run(main, given.minutes, given.sessions, given.viewers, given.seed))
