"""Servers that two tenants share, over real sockets: one server with its sessions in memory or in
SQLite, or two gateways and two workers on PostgreSQL."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import trio

from agentrt import Limits, Runtime
from agentrt.store import open_store
from agentrt.testing import open_fake_runtime
from agentrt.web import Security, Site, Tenant, serve
from runtime.fakes import Incarnations, Script
from web.sockets import TOKEN, Client, frame, offer, websocket

ACME, ACME_WATCHES = "the-token-of-acme-itself", "the-token-of-who-watches-acme"
BOLT = "the-token-of-bolt-itself"


class Servers:
    """`sites`: where clients come in; `runtimes`: where sessions run."""

    def __init__(self, security: Security) -> None:
        self.security = security
        self.sites: list[Site] = []
        self.runtimes: list[Runtime] = []

    def port(self, number: int = 0) -> int:
        return self.sites[number % len(self.sites)].port


@asynccontextmanager
async def servers(
    store: str | None, script: Script, acme: Tenant | None = None, bolt: Tenant | None = None
) -> AsyncIterator[Servers]:
    """`store`: None, a file, or a URL."""
    acme, bolt = acme or Tenant(name="acme"), bolt or Tenant(name="bolt")
    security = Security(
        token=TOKEN,
        metrics_token="the-token-for-metrics",
        tenants={ACME: acme, BOLT: bolt},
        tenant_viewers={ACME_WATCHES: acme},
    )
    there = Servers(security)
    with trio.fail_after(120):
        async with AsyncExitStack() as stack:
            shared = store is not None and store.startswith("postgresql")
            roles = ["worker", "worker", "gateway", "gateway"] if shared else ["both"]
            for number, role in enumerate(roles):
                named: dict[str, Any] = {}
                if shared:
                    named = {"node": f"n{number}", "home": "here", "role": role}
                node = _node(store, script, security, **named)
                runtime, site = await stack.enter_async_context(node)
                if role != "gateway":
                    there.runtimes.append(runtime)
                if role != "worker":
                    there.sites.append(site)
            yield there


@asynccontextmanager
async def _node(
    store: str | None, script: Script, security: Security, **named: Any
) -> AsyncIterator[tuple[Runtime, Site]]:
    agents = Incarnations(script, capabilities={"loadSession": True})
    limits = Limits(store_lease_s=5.0, unload_after_s=None)
    async with AsyncExitStack() as stack:
        kept = None
        if store is not None:
            kept = await stack.enter_async_context(open_store(store, limits=limits, **named))
        opening = open_fake_runtime({"fake": agents.start}, store=kept, limits=limits)
        runtime = await stack.enter_async_context(opening)
        nursery = await stack.enter_async_context(trio.open_nursery())
        site = await nursery.start(partial(serve, runtime, security=security))
        yield runtime, site
        nursery.cancel_scope.cancel()


class Line:
    """One connection of a client that writes what it likes, and keeps all that it is sent."""

    def __init__(self, socket: Client) -> None:
        self.socket = socket
        self.heard = ""
        self.messages: list[dict[str, Any]] = []

    async def say(self, **message: Any) -> None:
        await self.socket.send(frame(json.dumps(message)))

    async def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = await self.socket.message()
        self.heard += json.dumps(message)
        self.messages.append(message)
        return message

    async def until(self, **wanted: Any) -> dict[str, Any]:
        """The next message with these values."""
        while True:
            message = await self.hear()
            if all(message.get(name) == value for name, value in wanted.items()):
                return message

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """What comes of a command of `agentrt.v1`."""
        id = fields.pop("id", None) or secrets.token_hex(8)
        await self.say(type=type, id=id, **fields)
        return await self.until(type="ack", id=id)

    async def ok(self, type: str, **fields: Any) -> dict[str, Any]:
        answer = await self.ask(type, **fields)
        assert answer["ok"], answer
        return answer

    async def refused(self, type: str, **fields: Any) -> tuple[str, str]:
        answer = await self.ask(type, **fields)
        assert not answer["ok"], answer
        return answer["error"]["code"], answer["error"]["message"]

    async def new(self) -> str:
        """A session, which is looked at."""
        session = str((await self.ok("session", op="new", agent="fake", cwd="/"))["session"])
        await self.attach(session)
        return session

    async def attach(self, session: str) -> dict[str, Any]:
        """Look at a session; what it is then."""
        await self.ok("attach", session=session)
        while True:
            for message in self.messages:
                if message["type"] == "snapshot" and message["session"] == session:
                    return message
            await self.hear()

    async def prompt(self, session: str, words: str, **fields: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": words}]
        return await self.ok("prompt", session=session, content=content, **fields)

    def ended(self, session: str) -> set[str]:
        """The turns of a session of which it was heard that they are over."""
        turns = set()
        for message in self.messages:
            if message.get("session") == session and message["type"] == "snapshot":
                turns |= {turn["id"] for turn in message["turns"] if "outcome" in turn}
            elif message.get("session") == session and message["type"] == "event":
                event = message["event"]
                turns |= {event["turn"]} if event["kind"] == "turn.ended" else set()
        return turns

    async def over(self, session: str, turns: int = 1) -> None:
        """Wait until so many turns are over."""
        while len(self.ended(session)) < turns:
            await self.hear()

    async def event(self, session: str, kind: str) -> dict[str, Any]:
        """The first event of that kind."""
        read = 0
        while True:
            for message in self.messages[read:]:
                if message.get("session") == session and message["type"] == "event":
                    event: dict[str, Any] = message["event"]
                    if event["kind"] == kind:
                        return event
            read = len(self.messages)
            await self.hear()

    async def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        """What comes of a request of ACP's."""
        id = secrets.token_hex(8)
        await self.say(jsonrpc="2.0", id=id, method=method, params=params)
        return await self.until(id=id)


@asynccontextmanager
async def line(port: int, token: str, target: str = "/ws", **hello: Any) -> AsyncIterator[Line]:
    async with websocket(port, target=target, sec_websocket_protocol=offer(token)) as socket:
        line = Line(socket)
        if target == "/ws":
            await line.ok("hello", **hello)
        elif target == "/acp":
            await line.rpc("initialize", protocolVersion=1, clientCapabilities={})
        yield line
