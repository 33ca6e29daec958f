"""What asyncio costs: a session on Trio alone, by `agentrt.aio` (Trio as a guest), and on a Trio of
a thread of its own, made by hand.

    python benchmarks/guest.py [--rounds 5] [--quick]

Rounds are interleaved, and each measurement is a process of its own. Shown are the least and the
most of the rounds' figures: of a call and of a short turn, and of a turn of 1,000 pieces of text
(those of one read are one event). CPU is that of the process with all its threads, without the
agent's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOSTS = ("trio", "guest", "thread")
SIZES = {"calls": 2000, "turns": 1000, "stream": 20}
QUICK = 10
PIECES = 1000

Work = Callable[[], Awaitable[object]]


def program() -> Any:
    import agentrt
    from lab import build_agent

    return agentrt.Agent(name="fake", protocol="acp", command=(f"{build_agent()}/fake-acp",))


async def read(session: Any, prompt: str) -> None:
    async with session.prompt(prompt) as turn:
        async for _ in turn:
            pass


class OwnThread:
    """A session in a Trio of its own thread, as asyncio would have it: calls are handed over, and
    so is each event."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = loop.create_future()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        import trio

        trio.run(self._main)

    async def _main(self) -> None:
        import trio

        import agentrt

        async with (
            agentrt.open_session(program(), cwd="/") as self.session,
            trio.open_nursery() as self._nursery,
        ):
            self._token = trio.lowlevel.current_trio_token()
            self._over = trio.Event()
            self._loop.call_soon_threadsafe(self._ready.set_result, None)
            await self._over.wait()

    async def opened(self) -> None:
        await self._ready

    def _start(self, job: Callable[[], Awaitable[object]], done: Callable[[], None]) -> None:
        async def run() -> None:
            await job()
            self._loop.call_soon_threadsafe(done)

        self._token.run_sync_soon(self._nursery.start_soon, run)

    async def call(self, job: Callable[[], Awaitable[object]]) -> None:
        future = self._loop.create_future()
        self._start(job, lambda: future.set_result(None))
        await future

    async def read(self, prompt: str) -> None:
        events: asyncio.Queue[object] = asyncio.Queue()
        put = events.put_nowait

        async def job() -> None:
            async with self.session.prompt(prompt) as turn:
                async for event in turn:
                    self._loop.call_soon_threadsafe(put, event)

        self._start(job, lambda: put(None))
        while await events.get() is not None:
            pass

    def close(self) -> None:
        self._token.run_sync_soon(self._over.set)
        self._thread.join()


@asynccontextmanager
async def works(host: str) -> Any:
    """The three works of a host, inside its own loop."""
    import agentrt

    flood = f"BENCH flood {PIECES} 120"
    if host == "thread":
        there = OwnThread(asyncio.get_running_loop())
        await there.opened()
        try:
            yield {
                "calls": lambda: there.call(there.session.wait_idle),
                "turns": lambda: there.read("BENCH turn"),
                "stream": lambda: there.read(flood),
            }
        finally:
            there.close()
        return
    if host == "guest":
        from agentrt import aio

        opening = aio.open_session
    else:
        opening = agentrt.open_session
    async with opening(program(), cwd="/") as session:
        yield {
            "calls": session.wait_idle,
            "turns": lambda: read(session, "BENCH turn"),
            "stream": lambda: read(session, flood),
        }


async def measure(host: str, work: str, size: int) -> None:
    """Print the median of one in seconds, and the CPU of one."""
    async with works(host) as found:
        job = found[work]
        for _ in range(max(3, size // 20)):
            await job()
        took = []
        cpu = time.process_time()
        for _ in range(size):
            began = time.perf_counter()
            await job()
            took.append(time.perf_counter() - began)
        cpu = time.process_time() - cpu
        print(statistics.median(took), cpu / size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("HOST", "WORK", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        host, work, size = options.one
        if host == "trio":
            import trio

            trio.run(measure, host, work, int(size))
        else:
            asyncio.run(measure(host, work, int(size)))
        return
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        for work, usual in SIZES.items():
            size = max(3, usual // (QUICK if options.quick else 1))
            for host in HOSTS:
                command = [sys.executable, __file__, "--one", host, work, str(size)]
                out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
                wall, cpu = map(float, out.stdout.split())
                found.setdefault((work, host), []).append((wall, cpu))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {options.rounds} rounds")
    for work in SIZES:
        unit, name = (1e3, "ms") if work == "stream" else (1e6, "µs")
        for host in HOSTS:
            walls, cpus = zip(*found[work, host], strict=True)
            cells = [f"{min(x) * unit:.4g}-{max(x) * unit:.4g} {name}" for x in (walls, cpus)]
            own = [
                a / b for (a, _), (b, _) in zip(found[work, host], found[work, "trio"], strict=True)
            ]
            print(
                f"{work:8} {host:8} wall {cells[0]:18} CPU {cells[1]:18}"
                f" by Trio alone {statistics.median(own):.2f}"
            )


if __name__ == "__main__":
    main()
