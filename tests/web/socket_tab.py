"""A client's connection over a real socket, driven by hand: one thing after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from agentrt.web import Site
from web.sockets import TOKEN, Client, frame, offer, websocket
from web.wire_client import View, Wire, WireClient


class Tab:
    """What its `Wire` says goes out, what comes in goes to it."""

    def __init__(self, client: WireClient, socket: Client) -> None:
        self.client = client
        self.wire = Wire(client, self)
        self._socket = socket
        self._out: list[bytes] = []

    def receive(self, text: str) -> None:
        self._out.append(frame(text))

    async def until(self, done: Callable[[], Any]) -> None:
        """Send what waits, and take what comes until that holds."""
        await self.flush()
        while not done():
            self.wire.take((await self._socket.text()).encode())

    async def flush(self) -> None:
        await self._socket.send(*self._out)
        self._out.clear()

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Send a command, and return its answer."""
        id = self.wire.send(type, **fields)
        await self.until(lambda: id in self.client.acks)
        return self.client.acks[id]

    async def ok(self, type: str, **fields: Any) -> dict[str, Any]:
        answer = await self.ask(type, **fields)
        assert answer["ok"], answer
        return answer

    async def code(self, type: str, **fields: Any) -> str:
        """The code of the error that a command is answered with."""
        answer = await self.ask(type, **fields)
        assert not answer["ok"]
        assert answer["error"]["message"]
        return str(answer["error"]["code"])

    async def prompt(self, session: str, words: str) -> dict[str, Any]:
        return await self.ok("prompt", session=session, content=text(words))

    def view(self, session: str) -> View:
        return self.client.views[session]


@asynccontextmanager
async def tab(
    site: Site, client: WireClient, *sessions: str, token: str = TOKEN
) -> AsyncIterator[Tab]:
    """A connection that has said hello, and has what it is to see."""
    async with websocket(site.port, sec_websocket_protocol=offer(token)) as socket:
        tab = Tab(client, socket)
        hello = tab.wire.hello(*sessions)
        await tab.until(lambda: hello in client.acks)
        await tab.until(lambda: all(client.views[session].shown for session in sessions))
        yield tab


async def opened(page: Tab, agent: str = "demo", **fields: Any) -> str:
    """A new session, attached."""
    answer = await page.ok("session", op="new", agent=agent, **fields)
    session = str(answer["session"])
    page.wire.attach(session)
    await page.until(lambda: page.client.views[session].snapshots)
    return session


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def outcomes(page: Tab, session: str) -> list[str]:
    turns = page.client.views[session].shown["turns"].values()
    return [turn["outcome"] for turn in turns if "outcome" in turn]
