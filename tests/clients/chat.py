"""Chats of the AI SDK in a program in Node, as a test leads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from agentrt import Runtime
from agentrt.web import Site
from clients.kit import TOKEN, Node, node, served, served_script, worker


class Chat:
    """One tab's chat."""

    def __init__(self, led: Node, name: str) -> None:
        self.name = name
        self.led = led

    def now(self) -> dict[str, Any]:
        nothing = {"status": "ready", "messages": [], "error": None}
        return self.led.shows.get(self.name, nothing)

    async def until(self, status: str) -> dict[str, Any]:
        await self.led.until(lambda: self.now()["status"] == status)
        return self.now()

    async def do(self, op: str, **fields: Any) -> Any:
        return await self.led.do(op, chat=self.name, **fields)

    async def start(self, op: str, **fields: Any) -> int:
        return await self.led.start(op, chat=self.name, **fields)

    async def say(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """Send a message, and return the parts of the answer once the stream has ended."""
        await self.do("send", text=text, **options)
        return self.parts()

    def parts(self) -> list[dict[str, Any]]:
        message = self.now()["messages"][-1]
        assert message["role"] == "assistant", message
        return [part for part in message["parts"] if part["type"] != "step-start"]

    def text(self) -> str:
        return "".join(part["text"] for part in self.parts() if part["type"] == "text")

    def tools(self) -> list[tuple[str, str]]:
        return [(p["toolName"], p["state"]) for p in self.parts() if "toolCallId" in p]

    async def until_tool(self, state: str) -> dict[str, Any]:
        """Until the answer shows a tool in that state; the tool's part."""

        def found() -> dict[str, Any] | None:
            messages = self.now()["messages"]
            parts = messages[-1]["parts"] if messages else []
            return next((p for p in parts if p.get("state") == state and "toolCallId" in p), None)

        part: dict[str, Any] = await self.led.until(found)
        return part

    def pending(self) -> list[dict[str, Any]]:
        """The parts, of all its messages, that are still to end."""
        return [
            part
            for message in self.now()["messages"]
            for part in message["parts"]
            if part.get("state") == "streaming"
            or ("toolCallId" in part and not part["state"].startswith("output-"))
        ]

    def said(self) -> list[str]:
        """The text of each of its messages."""
        return [
            "".join(part.get("text", "") for part in message["parts"] if part["type"] == "text")
            for message in self.now()["messages"]
        ]

    def finishes(self) -> list[dict[str, Any]]:
        """How each of its streams has ended."""
        return [m for m in self.led.heard("finished") if m["finished"] == self.name]

    async def is_valid(self) -> None:
        """By the SDK's own validation of a whole conversation."""
        assert await self.do("validate") is True


class Tabs:
    """Tabs in one program, all of one site."""

    def __init__(self, led: Node, site: Site) -> None:
        self.led = led
        self.site = site

    async def open(self, name: str, id: str = "chat", token: str = TOKEN, **options: Any) -> Chat:
        url = f"ws://127.0.0.1:{self.site.port}/ai"
        headers = {"Authorization": f"Bearer {token}"}
        options = {"url": url, "headers": headers, **options}
        await self.led.do("open", chat=name, id=id, **options)
        return Chat(self.led, name)


@asynccontextmanager
async def tabs(**agents: Any) -> AsyncIterator[tuple[Tabs, Runtime]]:
    async with served(**agents) as (site, runtime), node("ai_client.mjs") as led:
        yield Tabs(led, site), runtime


@asynccontextmanager
async def tabs_at_work() -> AsyncIterator[tuple[Tabs, Runtime, trio.Event]]:
    """With an agent whose tool runs until the gate opens."""
    gate = trio.Event()
    async with served_script(worker(gate)) as (site, runtime), node("ai_client.mjs") as led:
        yield Tabs(led, site), runtime, gate
