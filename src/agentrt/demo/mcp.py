"""Tools of an MCP server on standard streams, one question at a time.

The server is started for a call and ends with it, so nothing of it can be left behind.
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

from .child import child
from .files import Refused
from .wire import METHOD_NOT_FOUND, JsonObject

VERSION = "2025-06-18"
START = 30.0
"""Seconds until the server has to have said which tools it has."""
LINE = 16 * 1024 * 1024


class Variable(Struct):
    name: str
    value: str


class Server(Struct):
    """An MCP server on standard streams, as `session/new` lists it."""

    name: str
    command: str
    args: list[str] = []
    env: list[Variable] = []


class Tool(Struct, rename="camel"):
    name: str
    description: str = ""


class Client:
    """The conversation with one started server."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._buffer = bytearray()
        self._last_id = 0
        self.tools: list[Tool] = []

    async def initialize(self) -> None:
        client = {"name": "agentrt-demo", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
        await self._request("initialize", params)
        await self._send({"method": "notifications/initialized"})
        cursor: JsonObject = {}
        while True:
            page = await self._request("tools/list", cursor)
            self.tools += msgspec.convert(page.get("tools", []), list[Tool])
            if not page.get("nextCursor"):
                return
            cursor = {"cursor": page["nextCursor"]}

    async def call(self, name: str, arguments: JsonObject) -> JsonObject:
        """Call a tool; cancelling tells the server so."""
        try:
            return await self._request("tools/call", {"name": name, "arguments": arguments})
        except trio.Cancelled:
            params = {"requestId": self._last_id, "reason": "the turn was cancelled"}
            with trio.move_on_after(1, shield=True):
                await self._send({"method": "notifications/cancelled", "params": params})
            raise

    async def _send(self, message: JsonObject) -> None:
        await self._stdin.send_all(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    async def _request(self, method: str, params: JsonObject) -> JsonObject:
        self._last_id += 1
        await self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = await self._receive()
            if "method" in message:
                await self._answer(message)
            elif message.get("id") == self._last_id:
                if error := message.get("error"):
                    raise Refused(f"The MCP server says: {error.get('message', error)}")
                result: JsonObject = message.get("result") or {}
                return result

    async def _answer(self, message: JsonObject) -> None:
        """The server may ask whether we live; anything else we do not have."""
        if message["method"] == "ping":
            await self._send({"id": message["id"], "result": {}})
        elif "id" in message:
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            await self._send({"id": message["id"], "error": error})

    async def _receive(self) -> JsonObject:
        while (end := self._buffer.find(b"\n")) < 0:
            data = await self._stdout.receive_some()
            if not data or len(self._buffer) > LINE:
                raise Refused("The MCP server ended without an answer.")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return msgspec.json.decode(line, type=JsonObject)


@asynccontextmanager
async def connect(server: Server, cwd: Path) -> AsyncIterator[Client]:
    """Start the server and learn its tools; raises `Refused` if that fails."""
    env = {**os.environ, **{variable.name: variable.value for variable in server.env}}
    command = [server.command, *server.args]
    try:
        async with child(command, cwd=cwd, env=env, stdin=subprocess.PIPE) as process:
            client = Client(process)
            with trio.fail_after(START):
                await client.initialize()
            yield client
    except (OSError, trio.BrokenResourceError, trio.TooSlowError, msgspec.MsgspecError) as error:
        raise Refused(f"The MCP server `{server.name}` does not work: {error}") from error


def as_tool_content(result: JsonObject) -> list[JsonObject]:
    """The content of a tool's result; MCP's blocks are ACP's blocks."""
    known = ("text", "image", "audio", "resource", "resource_link")
    blocks = [block for block in result.get("content", []) if block.get("type") in known]
    return [{"type": "content", "content": block} for block in blocks]
