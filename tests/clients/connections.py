"""Connections of the official ACP client in a program in Node, as a test leads them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from agentrt import Runtime
from agentrt.web import Site
from clients.kit import PATIENCE, TOKEN, Node, node, served, served_script, worker


class Client:
    """One connection that has been initialized."""

    def __init__(self, led: Node, name: str) -> None:
        self.led = led
        self.name = name
        self.agent: dict[str, Any] = {}
        """Its answer to `initialize`."""
        self._answered: set[int] = set()

    async def initialize(self, version: int, capabilities: dict[str, Any]) -> None:
        shape = {"clientCapabilities": capabilities}
        if version == 2:
            info = {"name": "official", "version": "1"}
            shape = {"capabilities": capabilities, "info": info}
        self.agent = await self.request("initialize", protocolVersion=version, **shape)
        assert self.agent["protocolVersion"] == version

    async def start(self, method: str, params: dict[str, Any], **more: Any) -> int:
        return await self.led.start(
            "request", connection=self.name, method=method, params=params, **more
        )

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = await self.led.result(await self.start(method, params))
        return result

    async def refused(self, method: str, **params: Any) -> dict[str, Any]:
        """The error that a request is answered with."""
        number = await self.start(method, params)
        failed: dict[str, Any] = await self.led.error(number)
        return failed

    async def notify(self, method: str, **params: Any) -> None:
        await self.led.do("notify", connection=self.name, method=method, params=params)

    async def new(self, **params: Any) -> str:
        result = await self.request(
            "session/new", **{"cwd": str(Path.cwd()), "mcpServers": [], **params}
        )
        return str(result["sessionId"])

    async def prompt(self, session: str, text: str) -> int:
        content = [{"type": "text", "text": text}]
        return await self.start("session/prompt", {"sessionId": session, "prompt": content})

    async def say(self, session: str, text: str) -> str:
        """Prompt, and return the stop reason."""
        result = await self.led.result(await self.prompt(session, text))
        return str(result["stopReason"])

    def updates(self, kind: str = "") -> list[dict[str, Any]]:
        mine = [message for message in self.led.heard("update") if message["update"] == self.name]
        return [message for message in mine if kind in ("", message["sessionUpdate"])]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.updates(kind))

    def tools(self) -> dict[str, dict[str, Any]]:
        """Each tool call as its updates say."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.updates():
            if update["sessionUpdate"] == "tool_call":
                calls[update["toolCallId"]] = {}
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                calls.setdefault(update["toolCallId"], {}).update(update)
        return calls

    async def until_tool(self, status: str) -> None:
        await self.led.until(lambda: status in {c["status"] for c in self.tools().values()})

    async def question(self) -> dict[str, Any]:
        """The latest question that this client has not answered, once there is one."""

        def found() -> dict[str, Any] | None:
            asked = [
                message
                for message in self.led.heard("asked")
                if message["asked"] == self.name and message["question"] not in self._answered
            ]
            return asked[-1] if asked else None

        question: dict[str, Any] = await self.led.until(found)
        return question

    async def choose(self, question: dict[str, Any], kind: str) -> None:
        options = {option["kind"]: option["optionId"] for option in question["params"]["options"]}
        outcome = {"outcome": "selected", "optionId": options[kind]}
        self._answered.add(question["question"])
        await self.led.do("answer", question=question["question"], result={"outcome": outcome})

    async def close(self) -> None:
        """Of an agent that it has started: end its input."""
        await self.led.do("close", connection=self.name)

    async def exited(self) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((m for m in self.led.heard("exited") if m["exited"] == self.name), None)

        exit: dict[str, Any] = await self.led.until(found)
        return exit

    async def cut(self) -> None:
        await self.led.do("cut", connection=self.name)


class Clients:
    def __init__(self, led: Node, site: Site) -> None:
        self.led = led
        self.site = site

    async def open(self, name: str, token: str = TOKEN, **offers: Any) -> Client:
        url = f"ws://127.0.0.1:{self.site.port}/acp"
        headers = {"Authorization": f"Bearer {token}"}
        await self.led.do("open", connection=name, version=1, url=url, headers=headers)
        made = Client(self.led, name)
        await made.initialize(1, offers)
        return made


class Editors:
    """Clients that start `agentrt acp`, in a home of their own."""

    def __init__(self, led: Node, home: Path) -> None:
        self.led = led
        self.home = home
        self.folder = home / "work"
        self.folder.mkdir(exist_ok=True)
        kept = ("PATH", "AGENTRT_TEST_RUN", "LANG")
        self.env = {name: value for name, value in os.environ.items() if name in kept} | {
            "HOME": str(home),
            "PYTHONWARNINGS": "error",
            "AGENTRT_LIMITS_STDIN_CLOSE_GRACE_S": "0.5",
            "AGENTRT_LIMITS_TERMINATE_GRACE_S": "0.5",
        }

    async def start(
        self,
        name: str,
        *arguments: str,
        version: int = 1,
        has: dict[str, Any] | None = None,
        **offers: Any,
    ) -> Client:
        """`has`: what the editor has; it offers its files and terminals then."""
        if has is not None:
            offers["fs"] = {"readTextFile": True, "writeTextFile": True}
            offers["terminal"] = True
        command = [sys.executable, "-m", "agentrt", "acp", *arguments]
        about = {"command": command, "env": self.env, "cwd": str(self.folder), "has": has}
        await self.led.do("start", connection=name, version=version, **about)
        made = Client(self.led, name)
        await made.initialize(version, offers)
        return made

    async def attach(self, name: str, site: Site, *arguments: str, **more: Any) -> Client:
        """To a server in this process."""
        self.env["AGENTRT_SERVE_TOKEN"] = TOKEN
        return await self.start(name, "--attach", site.url, *arguments, **more)


@asynccontextmanager
async def editors(home: Path) -> AsyncIterator[Editors]:
    with trio.fail_after(3 * PATIENCE):
        async with node("acp_client.mjs") as led:
            yield Editors(led, home)
            await everything_came_out(led)


@asynccontextmanager
async def clients(**agents: Any) -> AsyncIterator[tuple[Clients, Runtime]]:
    async with served(**agents) as (site, runtime), node("acp_client.mjs") as led:
        yield Clients(led, site), runtime
        await everything_came_out(led)


@asynccontextmanager
async def clients_at_work() -> AsyncIterator[tuple[Clients, Runtime, trio.Event]]:
    """With an agent whose tool runs until the gate opens."""
    gate = trio.Event()
    async with served_script(worker(gate)) as (site, runtime), node("acp_client.mjs") as led:
        yield Clients(led, site), runtime, gate
        await everything_came_out(led)


async def everything_came_out(led: Node) -> None:
    """What the SDK does not take, it drops."""
    await led.until(lambda: len(led.heard("update")) == len(arrived(led)))


def arrived(led: Node) -> list[dict[str, Any]]:
    return [m for m in led.heard("raw") if m["message"].get("method") == "session/update"]
