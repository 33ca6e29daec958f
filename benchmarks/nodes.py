"""How long a word and a cancel take where the viewer is at another server than the session.

    python benchmarks/nodes.py postgresql://… [--workers 2] [--sessions 20] [--rate 20]

Each session's agent writes the time, `--rate` times a second, in a process with others of its
worker; the viewers are at a gateway, which is this process. The clock is the machine's. Then one
turn after the other is begun and cancelled from here while the sessions stream on: from the
command to the turn's end as the viewer sees it. With `--workers 0` this process runs the sessions
itself, for comparison. The schema of the URL is to be a new one. The exit code is 1 when a target
was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from agentrt import Limits
from agentrt._core.runtime.runtime import Runtime
from agentrt._core.store.address import address_of
from agentrt._core.store.opening import open_address, process_of
from agentrt._serve.forwarded import serve_forwarded
from agentrt._serve.hub import Hub
from agentrt._serve.native import NATIVE
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_runtime

WORD = re.compile(rb'"text":"(\d+\.\d+) "')
SECONDS = 10.0
EVENT, CANCEL = 10.0, 50.0
"""The targets, in milliseconds: of half of the events, and of 99 cancels in a hundred."""


def clock_agent() -> MemoryAgent:
    """Writes the time until it is cancelled, as often as its prompt says."""

    async def program(process: MemoryAgent) -> None:
        async with FakeAcpAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                pause = 1 / float(prompt.text)
                while True:
                    agent.say(f"{time.monotonic():.6f} ")
                    with trio.move_on_after(pause) as rest:
                        await prompt.cancelled.wait()
                    if not rest.cancelled_caught:
                        break
                prompt.end("cancelled")

    return MemoryAgent(program)


@asynccontextmanager
async def opened(url: str, name: str, role: str) -> AsyncIterator[tuple[Runtime, Hub]]:
    limits = Limits(open_sessions=1000)
    process = process_of(name, "here", role)
    async with (
        open_address(address_of(url), process=process, limits=limits) as store,
        open_fake_runtime({"clock": clock_agent}, store=store, limits=limits) as runtime,
    ):
        hub = Hub(runtime)
        serve_forwarded(hub)
        yield runtime, hub
        hub.close()


async def work(url: str, name: str) -> None:
    async with opened(url, name, "worker"):
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


class Viewer:
    """One client, and when each word of the agents' has come."""

    def __init__(self, hub: Hub) -> None:
        self.viewer = hub.attach_viewer(NATIVE)
        self.lags: list[float] = []
        self.ended: dict[str, float] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.news = trio.Event()
        self._ids = 0
        self.say("hello")

    def say(self, type: str, **fields: Any) -> str:
        self._ids += 1
        self.viewer.receive(json.dumps({"type": type, "id": str(self._ids), **fields}))
        return str(self._ids)

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        id = self.say(type, **fields)
        while id not in self.answers:
            await self.news.wait()
        answer = self.answers[id]
        assert answer["ok"], answer
        return answer

    async def read(self) -> None:
        while True:
            frame = await self.viewer.next_frame()
            now = time.monotonic()
            self.lags += [now - float(at) for at in WORD.findall(frame)]
            parsed = json.loads(frame)
            for message in parsed if isinstance(parsed, list) else [parsed]:
                if message["type"] == "ack":
                    self.answers[message["id"]] = message
                elif message.get("event", {}).get("kind") == "turn.ended":
                    self.ended[message["event"]["turn"]] = now
            self.news.set()
            self.news = trio.Event()

    async def session(self) -> str:
        id = str((await self.ask("session", op="new", agent="clock"))["session"])
        await self.ask("attach", session=id)
        return id

    async def prompt(self, session: str, rate: float) -> str:
        content = [{"type": "text", "text": str(rate)}]
        return str((await self.ask("prompt", session=session, content=content))["turn"])


async def look(url: str, options: argparse.Namespace) -> list[str]:
    """Which targets were missed."""
    role = "gateway" if options.workers else "both"
    async with opened(url, "here", role) as (_, hub), trio.open_nursery() as nursery:
        viewer, other = Viewer(hub), Viewer(hub)
        nursery.start_soon(viewer.read)
        nursery.start_soon(other.read)
        for _ in range(options.sessions):
            await viewer.prompt(await viewer.session(), options.rate)
        viewer.lags.clear()
        cpu = time.process_time()
        await trio.sleep(SECONDS)
        cpu = time.process_time() - cpu
        events = show(f"an event, {options.sessions} sessions of {options.rate:g}/s", viewer.lags)
        print(f"this process: {cpu / len(viewer.lags) * 1e6:.0f} µs of CPU an event")
        session, took = await other.session(), list[float]()
        for _ in range(options.cancels):
            turn = await other.prompt(session, 5)
            await trio.sleep(0.02)
            begun = time.monotonic()
            other.say("cancel", session=session, turn=turn)
            while turn not in other.ended:
                await other.news.wait()
            took.append(other.ended[turn] - begun)
        cancels = show("a cancel, from the command to the turn's end", took)
        nursery.cancel_scope.cancel()
    missed = []
    if events[0] > EVENT:
        missed.append(f"half of the events took more than {EVENT:g} ms")
    if cancels[1] > CANCEL:
        missed.append(f"one cancel in a hundred took more than {CANCEL:g} ms")
    return missed


def show(what: str, seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th part of a hundred, in milliseconds."""
    cut = statistics.quantiles([each * 1000 for each in seconds], n=100)
    print(
        f"{what}: {cut[49]:.1f} ms (median), {cut[98]:.1f} ms (99 %), {len(seconds)} of them,"
        f" load {os.getloadavg()[0]:.1f}"
    )
    return cut[49], cut[98]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--cancels", type=int, default=200)
    parser.add_argument("--work", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        trio.run(work, options.url, options.work)
        return 0
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, options.url, "--work", f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(options.workers)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        missed = trio.run(look, options.url, options)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    print("\n".join(f"MISSED: {each}" for each in missed) or "every target was met")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
