"""The workloads, the same for every contestant.

A contestant file defines an adapter class and calls `run(Adapter, loop)`:

    class Adapter:
        async def open(self, agent, asks, line)
                                             start the agent below `agent`, do the handshake
        async def turn(self, prompt, seen)   one turn; `seen(text)` per update, and after it
                                             `await seen.wait()` when `seen.slow`
        async def cancel(self)               cancel the running turn
        async def close(self)                end the agent

`open` also answers permission requests with "allow" and, if `asks == "mcp"`, serves an in-process
tool `echo(text)` of a server `agentrt` to a Claude agent. `line`: a bound for the agent's lines
that is above the host's own, in bytes; 0 where its own will do. A contestant is started as `python
contestant.py SPEC ...` (SPEC: JSON) and prints one line of JSON. CPU and memory are those of this
process alone, never the agent's, and without the interpreter's own end. `harness.mjs` is the same
for hosts in Node."""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn


def status_kb(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def percentiles(ns: list[int]) -> dict[str, float]:
    ordered = sorted(ns)
    return {
        "p50_us": ordered[len(ordered) // 2] / 1e3,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1e3,
    }


class Seen:
    """What the consumer was shown: it counts, and touches the text of each update."""

    def __init__(self, sleep: Any, slow: float = 0.0) -> None:
        self.n = self.chars = 0
        self.slow = slow
        self._sleep = sleep

    def __call__(self, text: str) -> None:
        self.n += 1
        self.chars += len(text)

    async def wait(self) -> None:
        await self._sleep(self.slow)


class Timed(Seen):
    """The text of each update is the time at which the agent wrote it: how late it is shown. A host
    may join neighbours, and shows several times as one text then."""

    def __init__(self, sleep: Any) -> None:
        super().__init__(sleep)
        self.late: list[int] = []

    def __call__(self, text: str) -> None:
        now = time.monotonic_ns()
        width = len(str(now))
        self.late += [now - int(text[at : at + width]) for at in range(0, len(text), width)]


class Stalled(Seen):
    """A consumer that stops at its first update; a while later the peak memory is reported."""

    def __init__(self, sleep: Any, seconds: float, out: dict[str, Any]) -> None:
        super().__init__(sleep, seconds)
        self.out, self.before = out, status_kb("VmRSS")

    async def wait(self) -> None:
        await self._sleep(self.slow)
        self.out["growth_kb"] = status_kb("VmHWM") - self.before
        finish(self.out)


def children() -> int:
    """How many processes of this one's run; agents that are left behind are among them."""
    lists = Path("/proc/self/task").glob("*/children")
    return sum(len(pids.read_text().split()) for pids in lists)


def finish(out: dict[str, Any]) -> NoReturn:
    sys.stdout.write(json.dumps(out) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the interpreter's end is in nobody's figures


class AsyncioLoop:
    @staticmethod
    def run(main: Any) -> None:
        import asyncio

        asyncio.run(main())

    @staticmethod
    async def sleep(seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    @staticmethod
    async def gather(*functions: Any) -> None:
        import asyncio

        await asyncio.gather(*(function() for function in functions))

    @staticmethod
    async def timeout(seconds: float, function: Any) -> None:
        import asyncio

        await asyncio.wait_for(function(), seconds)


class TrioLoop:
    @staticmethod
    def run(main: Any) -> None:
        import trio

        trio.run(main)

    @staticmethod
    async def sleep(seconds: float) -> None:
        import trio

        await trio.sleep(seconds)

    @staticmethod
    async def gather(*functions: Any) -> None:
        import trio

        async with trio.open_nursery() as nursery:
            for function in functions:
                nursery.start_soon(function)

    @staticmethod
    async def timeout(seconds: float, function: Any) -> None:
        import trio

        with trio.fail_after(seconds):
            await function()


class Workloads:
    def __init__(self, adapter: Any, loop: Any, spec: dict[str, Any]) -> None:
        self.adapter, self.loop, self.spec = adapter, loop, spec
        self.out: dict[str, Any] = {}

    async def main(self) -> None:
        try:
            await self.loop.timeout(self.spec["timeout"], getattr(self, self.spec["workload"]))
        except Exception as error:  # how the contestant failed is its result
            cause = error
            while isinstance(cause, ExceptionGroup):
                cause = cause.exceptions[0]
            self.out["error"] = f"{type(cause).__name__}: {cause}"[:200]

    async def _open(self) -> Any:
        adapter = self.adapter()
        await adapter.open(self.spec["agent"], self.spec.get("asks", ""), self.spec.get("line", 0))
        return adapter

    async def _in_batches(self, functions: list[Any], size: int = 20) -> None:
        """Not all at once: hundreds of programs started together fight for the processors."""
        for at in range(0, len(functions), size):
            await self.loop.gather(*functions[at : at + size])

    async def stream(self) -> None:
        """One turn of any kind, after one to warm up."""
        adapter = await self._open()
        await adapter.turn("BENCH turn", Seen(self.loop.sleep))
        seen = Seen(self.loop.sleep, self.spec.get("slow", 0.0))
        gc.collect()
        before, cpu0, wall0 = status_kb("VmRSS"), cpu(), time.perf_counter()
        if self.spec.get("steps"):
            await self._turn_and_steps(adapter, seen)
        else:
            await adapter.turn(self.spec["prompt"], seen)
        self.out.update(
            wall=time.perf_counter() - wall0,
            cpu=cpu() - cpu0,
            n=seen.n,
            chars=seen.chars,
            growth_kb=status_kb("VmHWM") - before,
        )
        saw = Path(self.spec["file"])
        if saw.exists():
            agent = self.out["agent"] = json.loads(saw.read_text())
            if wrong := agent.get("wrong"):
                raise RuntimeError(f"{wrong} answers were not the tool's result")
        await adapter.close()

    async def _turn_and_steps(self, adapter: Any, seen: Seen) -> None:
        """The turn, and the longest for which a task that wakes up each millisecond was kept
        waiting by what this thread computed (not by the machine's other work)."""
        longest, over = 0.0, False

        async def turn() -> None:
            nonlocal over
            await adapter.turn(self.spec["prompt"], seen)
            over = True

        async def wake() -> None:
            nonlocal longest
            while not over:
                before = time.thread_time()
                await self.loop.sleep(0.001)
                longest = max(longest, time.thread_time() - before)

        await self.loop.gather(turn, wake)
        if longest:  # a host that blocks has no loop
            self.out["step_ms"] = longest * 1e3

    async def trickle(self) -> None:
        """Updates one by one, in real time."""
        adapter = await self._open()
        await adapter.turn("BENCH turn", Seen(self.loop.sleep))
        seen = Timed(self.loop.sleep)
        cpu0 = cpu()
        await adapter.turn(self.spec["prompt"], seen)
        self.out.update(cpu=cpu() - cpu0, n=len(seen.late), **percentiles(seen.late))
        await adapter.close()

    async def live(self) -> None:
        """Many sessions at the pace of a model."""
        adapters: list[Any] = []
        seen = Timed(self.loop.sleep)

        async def start() -> None:
            adapters.append(await self._open())

        await self._in_batches([start] * self.spec["sessions"])
        cpu0 = cpu()
        await self.loop.gather(
            *(partial(adapter.turn, self.spec["prompt"], seen) for adapter in adapters)
        )
        self.out.update(cpu=cpu() - cpu0, n=len(seen.late), **percentiles(seen.late))
        await self.loop.gather(*(adapter.close for adapter in adapters))

    async def concurrent(self) -> None:
        """Many sessions that stream at once: their start, their turns, their common end."""
        adapters: list[Any] = []
        seen = Seen(self.loop.sleep)

        async def start() -> None:
            adapters.append(await self._open())

        memory, cpu0, wall0 = status_kb("VmRSS"), cpu(), time.perf_counter()
        await self._in_batches([start] * self.spec["sessions"])
        memory, cpu1, wall1 = status_kb("VmRSS") - memory, cpu(), time.perf_counter()
        await self.loop.gather(
            *(partial(adapter.turn, self.spec["prompt"], seen) for adapter in adapters)
        )
        cpu2, wall2 = cpu(), time.perf_counter()
        await self.loop.gather(*(adapter.close for adapter in adapters))
        self.out.update(
            start=wall1 - wall0,
            start_cpu=cpu1 - cpu0,
            wall=wall2 - wall1,
            cpu=cpu2 - cpu1,
            close=time.perf_counter() - wall2,
            close_cpu=cpu() - cpu2,
            left=children(),
            chars=seen.chars,
            each_kb=memory / self.spec["sessions"],
        )

    async def stall(self) -> None:
        adapter = await self._open()
        await adapter.turn("BENCH turn", Seen(self.loop.sleep))
        await adapter.turn(
            self.spec["prompt"], Stalled(self.loop.sleep, self.spec["slow"], self.out)
        )

    async def turns(self) -> None:
        adapter = await self._open()
        seen, latencies = Seen(self.loop.sleep), []
        for _ in range(20):
            await adapter.turn("BENCH turn", seen)
        cpu0, wall0 = cpu(), time.perf_counter()
        for _ in range(self.spec["n"]):
            start = time.perf_counter_ns()
            await adapter.turn("BENCH turn", seen)
            latencies.append(time.perf_counter_ns() - start)
        self.out.update(
            wall=time.perf_counter() - wall0, cpu=cpu() - cpu0, **percentiles(latencies)
        )
        await adapter.close()

    async def cancel(self) -> None:
        """Cancel a turn that streams for ever: from the call until the agent has read it, and until
        the turn is over."""
        heard: list[float] = []
        over: list[float] = []
        for _ in range(self.spec["reps"]):
            adapter = await self._open()
            await adapter.turn("BENCH turn", Seen(self.loop.sleep))
            start, end = await self._cancelled(adapter)
            saw = json.loads(Path(self.spec["file"]).read_text())
            heard.append((saw["saw_cancel_ns"] - start) / 1e6)
            over.append((end - start) / 1e6)
            await adapter.close()
        self.out.update(heard_ms=statistics.median(heard), over_ms=statistics.median(over))
        self.out.update(worst_heard_ms=max(heard), worst_over_ms=max(over))

    async def _cancelled(self, adapter: Any) -> tuple[int, int]:
        seen = Seen(self.loop.sleep, self.spec.get("slow", 0.0))
        start = end = 0

        async def turn() -> None:
            nonlocal end
            await adapter.turn(f"BENCH forever 250 {self.spec['file']}", seen)
            end = time.monotonic_ns()

        async def cancel() -> None:
            nonlocal start
            await self.loop.sleep(self.spec["after"])
            start = time.monotonic_ns()
            await adapter.cancel()

        await self.loop.gather(turn, cancel)
        return start, end

    async def startup(self) -> None:
        """To the first prompt's arrival at the agent, which writes down the time of it."""
        adapter = await self._open()
        await adapter.turn(self.spec["prompt"], Seen(self.loop.sleep))
        self.out["first_ns"] = int(Path(self.spec["file"]).read_text())
        self.out["modules"] = len(sys.modules)
        await adapter.close()


def run(adapter: Any, loop: Any) -> None:
    workloads = Workloads(adapter, loop, json.loads(sys.argv[1]))
    loop.run(workloads.main)
    finish(workloads.out)
