"""A real server on a real socket, and between it and its clients a line that can be cut.

The client is the one of `agentrt attach`: no public API follows a session of a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel

from agentrt import Limits, Runtime
from agentrt._cli.servers import find_session, newest_sessions
from agentrt._serve.address import ServerAddress
from agentrt._serve.remote.line import ServerLine
from agentrt._serve.remote.session import RemoteSession
from agentrt.store import Store
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_runtime
from agentrt.web import Security, serve
from inside.server import Hub
from inside.server import commands as c

TOKEN = "the-token-of-the-controllers"


class Proxy:
    """Hands bytes on, both ways, until it is told to cut."""

    def __init__(self) -> None:
        self.target = 0
        self._streams: list[trio.SocketStream] = []
        self.port = 0
        self.connections = 0
        self.left: int | None = None
        """Bytes of the server's that are still handed on before the line is cut."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            serving = partial(trio.serve_listeners, self._serve, [listener])
            nursery.start_soon(serving)
            task_status.started()

    async def _serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        server = await trio.open_tcp_stream("127.0.0.1", self.target)
        self._streams += [client, server]
        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, client, server, False, nursery.cancel_scope)
            nursery.start_soon(self._pump, server, client, True, nursery.cancel_scope)

    async def _pump(
        self,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        counted: bool,
        scope: trio.CancelScope,
    ) -> None:
        try:
            while data := await source.receive_some(4096):
                if counted and self.left is not None:
                    data, self.left = data[: self.left], self.left - len(data)
                await sink.send_all(data)
                if counted and self.left is not None and self.left <= 0:
                    self.left = None
                    break
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    async def cut(self) -> None:
        streams, self._streams = self._streams, []
        for stream in streams:
            await trio.aclose_forcefully(stream)


class Followed(RemoteSession):
    """A session of a server, by what its line brings."""


class Line(ServerLine):
    """A client's line to the server at a port of this machine."""

    def __init__(self, port: int, token: str = TOKEN) -> None:
        super().__init__(lambda: (ServerAddress(f"127.0.0.1:{port}"), token), Limits())

    @asynccontextmanager
    async def followed(self, session: str) -> AsyncIterator[Followed]:
        followed = Followed(self, session)
        self.follow(session, followed)
        await followed.begun()
        try:
            yield followed
        finally:
            followed.close()

    async def all_answered(self) -> None:
        """Wait until the server has answered all that was sent before."""
        await self.ask(c.ListSessions(id=""))

    async def rename(self, session: str, title: str) -> None:
        await self.ask(c.RenameSession(id="", session=session, title=title))

    async def newest(self) -> list[str]:
        """Return the ids of the first page of sessions."""
        return [each.session for each in await newest_sessions(self)]

    async def find(self, prefix: str) -> str:
        """Return the id of the one session whose id begins so, as the command does."""
        return (await find_session(self, prefix)).session

    async def fork(self, session: str) -> str:
        """Fork a session and return the id of the fork."""
        answer = await self.ask(c.ForkSession(id="", session=session))
        return str(answer["session"])


@contextmanager
def unreadable(failures: list[Exception]) -> Iterator[None]:
    """Let a server's stored sessions be unread, and reading fail as long as there are failures."""
    read, is_unread = Hub.read, Hub.is_unread

    async def failing(hub: Hub, session: str) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return await read(hub, session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hub, "read", failing)
        patch.setattr(Hub, "is_unread", lambda hub, id: bool(failures) or is_unread(hub, id))
        yield


class Stage:
    def __init__(self, runtime: Runtime, proxy: Proxy, nursery: trio.Nursery) -> None:
        self.runtime = runtime
        self.proxy = proxy
        self.nursery = nursery

    async def line(self) -> Line:
        line = Line(self.proxy.port)
        await self.nursery.start(line.run)
        return line


async def echo(process: MemoryAgent) -> None:
    """Says each prompt again, word by word; asks ahead of one that begins with `ask`, and waits for
    its cancel at one that begins with `wait`."""
    can = {"sessionCapabilities": {"fork": {}}}
    async with FakeAcpAgent.serving(process, capabilities=can) as agent:
        async for prompt in agent.prompts:
            if prompt.text.startswith("ask"):
                agent.say(f"{await agent.ask()} ")
            for word in prompt.text.split():
                agent.say(f"{word} ")
                await trio.lowlevel.checkpoint()
            if prompt.text.startswith("wait"):
                await prompt.cancelled.wait()
                prompt.end("cancelled")
            else:
                prompt.end()


@asynccontextmanager
async def stage(limits: Limits | None = None, store: Store | None = None) -> AsyncIterator[Stage]:
    with trio.fail_after(60):
        async with (
            open_fake_runtime(
                {"echo": lambda: MemoryAgent(echo)}, limits=limits, store=store
            ) as runtime,
            trio.open_nursery() as nursery,
        ):
            proxy = Proxy()
            await nursery.start(proxy.run)
            rules = Security(token=TOKEN, allow_hosts=[f"127.0.0.1:{proxy.port}"])
            site = await nursery.start(partial(serve, runtime, security=rules))
            proxy.target = site.port
            yield Stage(runtime, proxy, nursery)
            nursery.cancel_scope.cancel()
