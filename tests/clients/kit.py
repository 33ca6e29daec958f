"""A site with agents behind it, and programs in Node that are led line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import trio
from msgspec import structs

import agentrt
from agentrt import Limits, Runtime, open_runtime
from agentrt.agents import Agent
from agentrt.config import Config
from agentrt.permissions import Policy, ask
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from agentrt.web import Security, Site, serve
from clients.install import root
from runtime.fakes import Incarnations, Script

HERE = Path(__file__).parent
TOKEN = "the-token-of-the-controllers"
WATCH = "the-token-of-the-viewers"
PATIENCE = 60.0
"""Seconds that anything here may take on a machine that does much else."""


@asynccontextmanager
async def served(
    permissions: Policy = ask, env: Mapping[str, str] | None = None, **agents: Agent
) -> AsyncIterator[tuple[Site, Runtime]]:
    """Sessions of the demo agent, and of these."""
    rules = Security(token=TOKEN, viewer_token=WATCH)
    with trio.fail_after(3 * PATIENCE):
        async with (
            open_runtime(
                config=Config(agents=agents), permissions=permissions, env=env, trust="yes"
            ) as runtime,
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(partial(serve, runtime, agent="demo", security=rules))
            yield site, runtime
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def served_script(
    script: Script,
    security: Security | None = None,
    roots: Sequence[str] = (),
    *,
    installed: bool = True,
    **bounds: Any,
) -> AsyncIterator[tuple[Site, Runtime]]:
    """Sessions of an agent in memory that does as the script says; `bounds` change the limits."""
    agents = {"fake": Incarnations(script).start} if installed else {}
    limits = structs.replace(Limits(), **bounds)
    rules = security or Security(token=TOKEN, viewer_token=WATCH)
    with trio.fail_after(3 * PATIENCE):
        async with (
            open_fake_runtime(agents, limits=limits) as runtime,
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(partial(serve, runtime, roots=roots, security=rules))
            yield site, runtime
            nursery.cancel_scope.cancel()


def worker(gate: trio.Event) -> Script:
    """An agent that, asked to `work`, has a tool run until the gate opens; it repeats all else."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "work":
                agent.update("tool_call", toolCallId="c", title="Work", status="in_progress")
                await first_of(gate.wait, prompt.cancelled.wait)
                if prompt.cancelled.is_set():
                    prompt.end("cancelled")
                    continue
                agent.update("tool_call_update", toolCallId="c", status="completed")
            agent.say(f"Done: {prompt.text}")
            prompt.end()

    return script


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    async with trio.open_nursery() as nursery:

        async def wait(awaited: Callable[[], Awaitable[object]]) -> None:
            await awaited()
            nursery.cancel_scope.cancel()

        for awaited in waits:
            nursery.start_soon(wait, awaited)


class Node:
    """A running script. It is sent commands, and tells what happens."""

    def __init__(self, process: trio.Process) -> None:
        self.told: list[dict[str, Any]] = []
        """Everything it has said."""
        self.shows: dict[str, dict[str, Any]] = {}
        """What each chat shows."""
        self._process = process
        self._numbers = count(1)
        self._results: dict[int, dict[str, Any]] = {}
        self._news = trio.Event()

    async def read(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        async with self._process.stdout as output:
            while data := await output.receive_some():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
                self._news.set()
                self._news = trio.Event()

    def _take(self, message: dict[str, Any]) -> None:
        if "done" in message:
            self._results[message["done"]] = message
        elif "chat" in message:
            self.shows[message["chat"]] = message
        else:
            self.told.append(message)

    async def start(self, op: str, **fields: Any) -> int:
        """Send a command, and return its number."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        line = json.dumps({"op": op, "number": number, **fields})
        await self._process.stdin.send_all(f"{line}\n".encode())
        return number

    def is_done(self, number: int) -> bool:
        return number in self._results

    async def result(self, number: int) -> Any:
        message = await self.until(lambda: self._results.get(number))
        assert "failed" not in message, message["failed"]
        return message.get("result")

    async def error(self, number: int) -> Any:
        """What a command has failed with."""
        message = await self.until(lambda: self._results.get(number))
        assert "failed" in message, message
        return message["failed"]

    async def do(self, op: str, **fields: Any) -> Any:
        """A command and its result."""
        return await self.result(await self.start(op, **fields))

    async def until(self, found: Callable[[], Any]) -> Any:
        """Wait until that is something, and return it."""
        with trio.move_on_after(PATIENCE):
            while not (value := found()):
                with trio.move_on_after(0.1):  # the site may have news of which the script has none
                    await self._news.wait()
            return value
        raise AssertionError(f"not within {PATIENCE:g} s; last told: {self.told[-3:]}")

    def heard(self, key: str) -> list[dict[str, Any]]:
        return [message for message in self.told if key in message]


@asynccontextmanager
async def node(script: str) -> AsyncIterator[Node]:
    """The script of that name, as if it lay beside the installed packages."""
    text = (HERE / script).read_text()
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                ["node", "--input-type=module", "--eval", text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=root(),
            )
        )
        led = Node(process)
        nursery.start_soon(led.read)
        async with process.stdin:  # it ends by that
            yield led


def fake_claude(scenario: str) -> Agent:
    """A scripted Claude Code CLI."""
    script = HERE.parent / "claude" / "fakecli.py"
    return agentrt.agents.claude([sys.executable, str(script), scenario], name="fake")
