"""In-process tools for ACP agents, which reach MCP servers only by a program or a URL.

`serve_tools` serves a `InProcessServer` while its block runs. An agent that starts the program of
`Endpoint.stdio_server` is connected through a private Unix socket; an agent that supports MCP over
HTTP may get `Endpoint.http_server` instead.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, Protocol

import trio

from ..._base.nesting import bare_errors
from ..errors import AgentStartError, RemoteProtocolError
from ..limits import Limits
from ..logging import get_logger
from ..model.content import JsonObject
from ..process.guard import private_folder, python_program
from ..process.pipes import FIRST_PIECE_BYTES, next_size
from ..wire.json import encode_line
from ..wire.lines import Lines, LongLine
from ..wire.mcp import Message
from . import stdio as mcp_stdio
from .http import HttpServer
from .server import InProcessServer, Spawn

logger = get_logger("tools")

MAX_BRIDGES: Final = 32
"""Maximum number of simultaneous bridges; an agent needs one, or one for each of its sub-agents."""

SECRET_TIMEOUT_S: Final = 5.0
"""Seconds for a new connection to send the secret."""

LAST_ANSWERS_TIMEOUT_S: Final = 1.0
"""Seconds for the last answers to a client that closed its input."""


class SandboxDoor(Protocol):
    """The ways into a sandbox for services of this process."""

    folder: str
    """A folder for sockets, which programs inside can reach."""
    ports: set[int]
    """Ports of this machine that programs inside can reach."""


@asynccontextmanager
async def serve_tools(
    server: InProcessServer,
    spawn: Spawn,
    *,
    limits: Limits | None = None,
    run: str = "",
    inside: SandboxDoor | None = None,
) -> AsyncIterator[Endpoint]:
    """Serve the tools to the holders of the endpoint's entries.

    `spawn` runs the calls. `run` is the token of the guard, if there is one. `inside`: the sandbox
    around the holders. Leaving the block ends
    every connection and removes the socket.

    Raises `AgentStartError` if the socket cannot be opened.
    """
    try:
        if inside is None:
            folder = private_folder(run or secrets.token_hex(8))
        else:
            folder = Path(mkdtemp(dir=inside.folder, prefix="t"))
    except OSError as error:
        raise _unserved(error) from error
    try:
        try:
            listener = _listen(folder / "s")
        except OSError as error:
            raise _unserved(error) from error
        async with bare_errors(), trio.open_nursery() as nursery:
            endpoint = Endpoint(server, spawn, limits or Limits(), folder / "s", nursery, inside)
            await nursery.start(trio.serve_listeners, endpoint._serve, [listener])
            try:
                yield endpoint
            finally:  # here, because a nursery that cancels itself for an error makes a cycle of it
                nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Endpoint:
    """The endpoint for a session's tools. Created by `serve_tools`."""

    def __init__(
        self,
        server: InProcessServer,
        spawn: Spawn,
        limits: Limits,
        path: Path,
        nursery: trio.Nursery,
        inside: SandboxDoor | None = None,
    ) -> None:
        """Create the endpoint; its secret admits programs that were given one of its entries."""
        self._inside = inside
        self._server = server
        self._spawn = spawn
        self._limits = limits
        self._path = path
        self._nursery = nursery
        self._secret = secrets.token_urlsafe()
        self._connections = 0
        self._http: HttpServer | None = None

    def stdio_server(self) -> JsonObject:
        """Return the entry for `mcpServers`: a program that any agent can start, also several
        times.

        The secret is in its environment, because other users can read arguments, but not the
        environment.
        """
        environment = {mcp_stdio.SOCKET: str(self._path), mcp_stdio.SECRET: self._secret}
        return {
            "name": self._server.name,
            "command": sys.executable,
            "args": ["-I", "-S", *python_program(mcp_stdio)],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }

    async def http_server(self) -> JsonObject:
        """Return the entry for an agent with `mcpCapabilities.http`. The first call opens the port.

        If a call is cancelled, this may be called again. Raises `AgentStartError`.
        """
        if self._http is None:
            http = HttpServer(self._server, self._spawn, self._limits)
            try:
                await self._nursery.start(http.run)
            except OSError as error:
                raise _unserved(error) from error
            self._http = http
            if self._inside is not None:
                self._inside.ports.add(http.port)
        return self._http.entry()

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection; its failure does not affect others."""
        self._connections += 1
        try:
            async with stream:
                if self._connections > MAX_BRIDGES:
                    logger.warning("more than %d tool bridges: one refused", MAX_BRIDGES)
                elif await self._greeted(stream):
                    await _Bridge(self._server, self._spawn, self._limits, stream).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the agent ended the program
        except Exception:
            logger.exception("a tool bridge failed")
        finally:
            self._connections -= 1

    async def _greeted(self, stream: trio.SocketStream) -> bool:
        """Read exactly the first line. Returns True if it is the secret."""
        wanted = self._secret.encode() + b"\n"
        given = b""
        with trio.move_on_after(SECRET_TIMEOUT_S):
            while len(given) < len(wanted):
                piece = await stream.receive_some(len(wanted) - len(given))
                if not piece:
                    break
                given += piece
        return hmac.compare_digest(given, wanted)


class _Bridge:
    """A connected bridge program, which exchanges lines."""

    def __init__(
        self, server: InProcessServer, spawn: Spawn, limits: Limits, stream: trio.SocketStream
    ) -> None:
        """Serve a program that has sent the secret."""
        self._spawn = spawn
        self._limits = limits
        self._stream = stream
        self._connection = server.connect(self._send, both_ways=True)
        self._waiting = bytearray()
        self._news = trio.Event()
        self._ended = False
        self._scope = trio.CancelScope()
        self._lines = Lines(limits.message_bytes, long_apart=True)
        self._too_long = False

    async def run(self) -> None:
        """Serve until the client closes its input, which is the end of a session in MCP.

        Running calls are cancelled then; finished answers are still delivered.
        """
        try:
            with self._scope:
                async with bare_errors(), trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    self._connection.close()
                    self._ended = True
                    self._news.set()
                    self._scope.deadline = trio.current_time() + LAST_ANSWERS_TIMEOUT_S
        finally:
            self._connection.close()
            del self._connection  # it refers to this object

    async def _read(self) -> None:
        """Read until the client closes its input, in pieces that do not delay other tasks."""
        size = FIRST_PIECE_BYTES
        while not self._too_long and (data := await self._stream.receive_some(size)):
            size = next_size(size, self._take, data)

    def _take(self, data: bytes) -> None:
        """Handle the lines that are complete. A line above the limit ends the bridge."""
        whole = self._lines.feed(data)
        for line in self._lines.long:
            self._handle(_value(line))
        self._lines.long.clear()
        for short in whole.split(b"\n"):
            if short.strip():
                self._handle(short)
        if self._lines.oversized:
            logger.warning("a tool bridge sent a line of %d bytes", self._lines.oversized[0])
            self._too_long = True

    def _handle(self, message: bytes | bytearray | JsonObject) -> None:
        """Handle a message of the client."""
        self._connection.handle(message, self._spawn, self._send)

    def _send(self, message: Message | None) -> None:
        """Queue a message for the client, which is disconnected if it does not read."""
        if message is None:
            return
        self._waiting += encode_line(message)
        self._news.set()
        if len(self._waiting) > self._limits.agent_outbox_bytes:
            logger.warning("a tool bridge does not read its answers")
            self._scope.cancel()

    async def _write(self) -> None:
        """Send the queued messages until the end."""
        while not self._ended or self._waiting:
            await self._news.wait()
            self._news = trio.Event()
            data, self._waiting = self._waiting, bytearray()
            await self._stream.send_all(data)


def _unserved(error: OSError) -> AgentStartError:
    """Return the error for tools that cannot be served."""
    return AgentStartError(f"the session's tools cannot be served: {error}")


def _value(line: LongLine) -> bytes | JsonObject:
    """Return the value of a long line, or its start, which is not JSON, if it cannot be parsed."""
    try:
        value: JsonObject = line.value()
    except RemoteProtocolError:
        return line.head
    return value


def _listen(path: Path) -> trio.SocketListener:
    """Open the socket, in a folder that only this user can enter."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(os.fspath(path))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))
