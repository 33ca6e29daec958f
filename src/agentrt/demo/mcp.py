"""Tools of an MCP server on standard streams, one request at a time.

The server is started for a call and ends with it, so nothing of it remains.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from .._base.nesting import bare_errors
from ..jsonrpc import METHOD_NOT_FOUND, JsonRpcRequest
from .child import child
from .files import FileRefused
from .wire import DemoConnection, DemoRpcError, JsonObject

MCP_VERSION = "2025-06-18"
MCP_START_TIMEOUT_S = 30.0
"""Seconds for the server to list its tools after its start."""


class McpVariable(Struct):
    """An environment variable of a server."""

    name: str
    value: str


class McpServerSpec(Struct):
    """An MCP server on standard streams, as `session/new` lists it."""

    name: str
    command: str
    args: list[str] = []
    env: list[McpVariable] = []


class ListedMcpTool(Struct, rename="camel"):
    """A tool of a server."""

    name: str
    description: str = ""


class McpClient:
    """A connection to one started server."""

    def __init__(self, connection: DemoConnection) -> None:
        self._connection = connection
        self.tools: list[ListedMcpTool] = []

    async def serve(self) -> None:
        """Answer the server's pings, and refuse all its other requests."""
        while (messages := await self._connection.receive()) is not None:
            for message in messages:
                match message:
                    case JsonRpcRequest(id, "ping"):
                        self._connection.reply(id, {})
                    case JsonRpcRequest(id, method):
                        error = DemoRpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
                        self._connection.refuse(id, error)

    async def initialize(self) -> None:
        """Complete the handshake and list the server's tools."""
        client = {"name": "agentrt-demo", "version": "1"}
        params = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": client}
        await self._connection.request("initialize", params)
        self._connection.notify("notifications/initialized", {})
        cursor: JsonObject = {}
        while True:
            page = await self._connection.request("tools/list", cursor)
            self.tools += msgspec.convert(page.get("tools", []), list[ListedMcpTool])
            if not page.get("nextCursor"):
                return
            cursor = {"cursor": page["nextCursor"]}

    async def call(self, name: str, arguments: JsonObject) -> JsonObject:
        """Call a tool. Cancelling withdraws the request."""
        return await self._connection.request("tools/call", {"name": name, "arguments": arguments})


@asynccontextmanager
async def connect(server: McpServerSpec, cwd: Path) -> AsyncIterator[McpClient]:
    """Start the server and list its tools. Raises `FileRefused` if that fails."""
    env = {**os.environ, **{variable.name: variable.value for variable in server.env}}
    command = [server.command, *server.args]
    try:
        async with child(command, cwd=cwd, env=env, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            connection = DemoConnection(process.stdout, process.stdin, "notifications/cancelled")
            client = McpClient(connection)
            async with bare_errors(), trio.open_nursery() as nursery, connection.writing():
                nursery.start_soon(client.serve)  # noqa: ASYNC113 - its input waits in the pipe
                with trio.fail_after(MCP_START_TIMEOUT_S):
                    await client.initialize()
                yield client
                nursery.cancel_scope.cancel(reason="the call is over")
    except DemoRpcError as error:
        raise FileRefused(f"The MCP server reports: {error}") from error
    except (OSError, trio.TooSlowError, msgspec.ValidationError) as error:
        raise FileRefused(f"The MCP server `{server.name}` does not work: {error}") from error


def as_tool_content(result: JsonObject) -> list[JsonObject]:
    """Return the content of a tool's result; MCP's blocks are valid in ACP."""
    known = ("text", "image", "audio", "resource", "resource_link")
    blocks = [block for block in result.get("content", []) if block.get("type") in known]
    return [{"type": "content", "content": block} for block in blocks]
