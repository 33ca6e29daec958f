"""`agentrt serve` in a process that is killed and started again, and clients that go on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import trio.lowlevel

from web.sockets import CLOSE, PING, PONG, TOKEN, frame, websocket
from web.wire_client import View, Wire, WireClient


def standing_for(events: Mapping[int, Any], since: int, seq: int) -> Any:
    """Return the event of a frame for the events after `since` up to `seq`; None if one is not
    there or they are not pieces of one text."""
    first, *more = (events.get(number) for number in range(since + 1, seq + 1))
    pieces = [event["text"] for event in more if event is not None and same_text(event, first)]
    if len(pieces) < len(more):
        return None
    return {**first, "text": "".join([first["text"], *pieces])} if more else first


def same_text(event: Any, first: Any) -> bool:
    return first is not None and event == {
        "kind": "item.delta",
        "item": first.get("item"),
        "text": event.get("text"),
    }


class SeenView(View):
    """Remembers each event that it was given, by its number, and the number before it or before
    the first of those that it stands for."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.seen: dict[int, tuple[int, Any]] = {}

    def take_snapshot(self, frame: dict[str, Any]) -> None:
        assert self.epoch in (None, frame["epoch"]), "the epoch is another one"
        assert frame["seq"] >= self.seq, "events were seen that are not there any more"
        super().take_snapshot(frame)

    def take_event(self, frame: dict[str, Any]) -> None:
        since = self.seq
        super().take_event(frame)  # which sees to it that none is missing or comes twice
        self.seen[frame["seq"]] = since, frame["event"]


class Tab:
    """A client that connects again whenever its connection is gone."""

    def __init__(self, name: str, port: int) -> None:
        self.client = WireClient(name)
        self.port = port
        self._changed = trio.Event()
        self._out: trio.MemorySendChannel[str] | None = None

    def receive(self, text: str) -> None:
        """As `Wire` sends it: what finds no connection is sent by the next one."""
        if self._out is not None:
            self._out.send_nowait(text)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()  # what is sent before there is a connection waits for it
        while True:
            try:
                await self._connection()
            except* (OSError, EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # killed
            self._out = None
            await trio.sleep(0.05)  # nobody says when the server listens again

    async def _connection(self) -> None:
        async with websocket(self.port) as socket:
            self._out, wanted = trio.open_memory_channel[str](1000)
            self.wire = self.make_wire()
            self.wire.hello()
            self._notify()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, socket, wanted)
                try:
                    while True:
                        opcode, payload = await socket.frame()
                        if opcode == PING:
                            await socket.send(frame(payload, PONG))
                        elif opcode == CLOSE:
                            raise EOFError
                        else:
                            self.wire.take(payload)
                            self._notify()
                finally:
                    nursery.cancel_scope.cancel()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _write(self, socket: Any, wanted: trio.MemoryReceiveChannel[str]) -> None:
        async for text in wanted:
            try:
                await socket.send(frame(text))
            except trio.BrokenResourceError:
                return  # the reader sees it, too

    def make_wire(self) -> Wire:
        """The client's end of a new connection."""
        return Wire(self.client, self)

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        await self.until(lambda: self._out is not None)
        id = self.wire.send(type, **fields)
        while id not in self.client.acks:
            await self._changed.wait()
        answer = self.client.acks[id]
        assert answer["ok"], answer
        return answer

    async def until(self, check: Any) -> None:
        while not check():
            await self._changed.wait()

    def watch(self, session: str) -> None:
        self.client.views[session] = SeenView(session)
        self.wire.send("attach", session=session)

    def view(self, session: str) -> SeenView:
        view = self.client.views[session]
        assert isinstance(view, SeenView)
        return view


class KilledServer:
    def __init__(self, root: Path, env: Mapping[str, str], port: int) -> None:
        self.root, self.env, self.port = root, env, port
        self.process: trio.Process | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "agentrt", "serve", "--port", str(self.port)]
        self.process = await trio.lowlevel.open_process(
            [*command, "--token", TOKEN], cwd=self.root, env=self.env, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert await self.process.stdout.receive_some(), "the server has ended"

    async def end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            await self.process.wait()
            assert self.process.stdout is not None
            await self.process.stdout.aclose()
            self.process = None

    async def kill(self) -> None:
        """Kill it, and start the next one."""
        await self.end(signal.SIGKILL)
        await self.start()


@asynccontextmanager
async def killed_server(root: Path, env: Mapping[str, str]) -> AsyncIterator[KilledServer]:
    """A server that runs in `root`, on the same port each time."""
    with trio.socket.socket() as taken:
        await taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = KilledServer(root, env, port)
    await server.start()
    try:
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await server.end(signal.SIGTERM)
