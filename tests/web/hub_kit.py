"""A hub on agents in memory, and clients without a network.

A viewer is connected to its hub in memory: through a socket, the order in which frames, commands
and the end of a connection meet cannot be chosen. Tests name the protocol by its path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
import trio

from agentrt import Limits, Runtime
from agentrt._serve.dialects import dialects_of_site
from agentrt._serve.feed import merged
from agentrt._serve.folders import Folders
from agentrt._serve.forwarded import ClusterCommandHandler
from agentrt._serve.previews import Previews
from agentrt._serve.refusal import ConnectionRefusal
from agentrt.events import Event
from agentrt.lowlevel import CommandFields, Dialect, Log
from agentrt.testing import open_fake_runtime
from agentrt.web import Role
from inside.server import Client, Feed, Hub, commands, operations, serve_forwarded
from runtime.fakes import Incarnations, Script
from web.wire_client import View, Wire, WireClient


class Viewer(Protocol):
    """A client's connection."""

    def receive(self, text: str) -> None: ...

    async def next_frame(self) -> bytes: ...

    def close(self) -> None: ...


def viewer_of(hub: Hub, protocol: str | Dialect = "/ws", *, role: Role = "controller") -> Viewer:
    """Connect a client of a protocol: one of those that are always served, by its path, or another
    one.
    """
    if isinstance(protocol, str):
        return hub.attach_viewer(dialects_of_site(())[protocol], role=role)
    return hub.attach_viewer(dialects_of_site((protocol,))[protocol.path], role=role)


async def refusal(viewer: Viewer) -> tuple[int, str]:
    """Return the code and the reason with which the server ends a connection next."""
    try:
        frame = await viewer.next_frame()
    except ConnectionRefusal as refused:
        return refused.code, refused.reason
    raise AssertionError(f"it goes on: {frame!r}")


class Tab:
    """A client and its connection, which a task keeps reading."""

    def __init__(self, client: WireClient, viewer: Viewer) -> None:
        self.client = client
        self.viewer = viewer
        self.wire = Wire(client, viewer)
        self.ended: ConnectionRefusal | None = None
        self.frames: list[list[dict[str, Any]]] = []
        self._scope = trio.CancelScope()
        self._read = trio.Event()

    async def read(self) -> None:
        with self._scope:
            try:
                while True:
                    self.frames.append(self.wire.take(await self.viewer.next_frame()))
                    self._read.set()
                    self._read = trio.Event()
            except ConnectionRefusal as refusal:
                self.ended = refusal
            except trio.ClosedResourceError:
                pass  # cut off
        self.viewer.close()

    def cut(self) -> None:
        """The connection is gone, whatever is under way."""
        self._scope.cancel()
        self.viewer.close()

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        return await self.answer(self.wire.send(type, **fields))

    async def answer(self, id: str) -> dict[str, Any]:
        with trio.fail_after(300):
            while id not in self.client.acks:
                await self._read.wait()
        return self.client.acks[id]

    async def ok(self, type: str, **fields: Any) -> dict[str, Any]:
        answer = await self.ask(type, **fields)
        assert answer["ok"], answer
        return answer

    async def refused(self, type: str, **fields: Any) -> str:
        """The code with which a command is refused."""
        answer = await self.ask(type, **fields)
        assert not answer["ok"], answer
        assert answer["error"]["message"]
        return str(answer["error"]["code"])

    async def news(self) -> None:
        """Until another frame has been read."""
        await self._read.wait()

    async def prompt(self, session: str, text: str, **fields: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return await self.ok("prompt", session=session, content=content, **fields)

    def view(self, session: str) -> View:
        return self.client.views[session]

    def messages(self, type: str) -> list[dict[str, Any]]:
        return [m for frame in self.frames for m in frame if m["type"] == type]


class Stage:
    """A runtime with one fake agent, its hub, and whoever connects."""

    def __init__(
        self, runtime: Runtime, hub: Hub, agents: Incarnations, nursery: trio.Nursery
    ) -> None:
        self.runtime = runtime
        self.hub = hub
        self.agents = agents
        self.nursery = nursery

    def connect(
        self,
        *sessions: str,
        client: WireClient | None = None,
        role: Role = "controller",
        **hello: Any,
    ) -> Tab:
        """A tab that has said hello, and reads."""
        tab = Tab(client or WireClient(None, **hello), viewer_of(self.hub, role=role))
        tab.wire.hello(*sessions)
        self.nursery.start_soon(tab.read)
        return tab

    async def session(self, **settings: Any) -> str:
        return (await self.runtime.create("fake", **settings)).id


@asynccontextmanager
async def stage_of(
    runtime: Runtime,
    agents: Incarnations | None = None,
    *,
    roots: Iterable[Path] = (),
    cwd: Path | None = None,
) -> AsyncIterator[Stage]:
    """The hub of a runtime; `roots` and `cwd` are those of `agentrt.web.serve`."""
    hub = Hub(runtime, folders=Folders(roots, cwd))
    serve_forwarded(hub)
    async with trio.open_nursery() as nursery:
        try:
            yield Stage(runtime, hub, agents or Incarnations(), nursery)
        finally:
            hub.close()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def stage_with(
    *scripts: Script,
    fake: dict[str, Any] | None = None,
    roots: Iterable[Path] = (),
    cwd: Path | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """`options` are those of `open_fake_runtime`."""
    agents = Incarnations(*scripts, **(fake or {}))
    async with (
        open_fake_runtime({"fake": agents.start}, **options) as runtime,
        stage_of(runtime, agents, roots=roots, cwd=cwd) as stage,
    ):
        yield stage


def until_sent_away() -> AbstractContextManager[None]:
    """Let the block end when the server ends the connection."""
    return suppress(ConnectionRefusal)


# --- moments of commands


def command(type: str, **fields: Any) -> Any:
    """A command as the hub has it; its fields are not checked."""
    return commands.COMMANDS[type][None](**fields)


def after_the_check(
    monkeypatch: pytest.MonkeyPatch, leave: Callable[[], Awaitable[object]]
) -> trio.Event:
    """Have the session leave after the next check for an answer by another server."""
    check, left = Client.answered_elsewhere, trio.Event()

    async def check_and_leave(
        client: Client, command: commands.ViewerCommand
    ) -> CommandFields | None:
        known = await check(client, command)
        if not left.is_set():
            left.set()
            with trio.CancelScope(shield=True):
                await leave()
        return known

    monkeypatch.setattr(Client, "answered_elsewhere", check_and_leave)
    return left


def let_short_orders_wait(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let commands that take their turn after a prompt wait so long for it."""
    patch.setattr(operations, "SHORT_ORDER_S", seconds)


def hold_the_next_forwarded(patch: pytest.MonkeyPatch, *, carried_out: bool) -> trio.Event:
    """Let the next command for another server get stuck there, before or after it is carried out.

    The event is set then.
    """
    held, carry_out = trio.Event(), ClusterCommandHandler.carry_out

    async def hold(self: ClusterCommandHandler, command: Any) -> bytes:
        patch.undo()
        if carried_out:
            await carry_out(self, command)
        held.set()
        await trio.sleep_forever()

    patch.setattr(ClusterCommandHandler, "carry_out", hold)
    return held


# --- what viewers get of a log, without a viewer

PIECE_CHARS: Final = commands.PIECE_CHARS
"""Characters of a content that are sent at once."""


def previews_of(log: Log) -> Previews:
    """The previews of what a log has."""
    return Previews(log, Limits().preview_chars)


def feed_of(log: Log) -> Feed:
    """The frames of a session for its viewers."""
    return Feed(log, Limits(), lambda job, at: None)


def merge(events: Sequence[Event], seqs: Sequence[int]) -> tuple[list[Event], list[int]]:
    """Merge events as for a slow line; returns them with the number of each."""
    return merged(events, seqs)
