"""The in-process tools with the official client of MCP, of both eras and on both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from agentrt.tools import tool
from inside.runtime import Endpoint, ToolServer, serve_tools

MODES = {"auto": "2026-07-28", "2026-07-28": "2026-07-28", "legacy": "2025-11-25"}
"""What a client is told, and the revision that it then speaks."""


@tool
async def echo(text: str) -> str:
    """Says it again."""
    await trio.lowlevel.checkpoint()
    return text


@tool
async def fails() -> str:
    """Goes wrong."""
    await trio.lowlevel.checkpoint()
    raise RuntimeError("no")


@asynccontextmanager
async def client_of(
    endpoint: Endpoint, way: str, mode: str, **options: Any
) -> AsyncIterator[Client]:
    if way == "http":
        entry = await endpoint.http_server()
        headers = {header["name"]: header["value"] for header in entry["headers"]}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(
                streamable_http_client(entry["url"], http_client=http), mode=mode, **options
            ) as client,
        ):
            yield client
    else:
        entry = endpoint.stdio_server()
        env = {variable["name"]: variable["value"] for variable in entry["env"]}
        program = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
        async with Client(stdio_client(program), mode=mode, **options) as client:
            yield client


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("mode", MODES)
async def test_an_official_client_finds_and_calls_the_tools(way: str, mode: Any) -> None:
    with trio.fail_after(20):
        async with (
            trio.open_nursery() as turn,
            serve_tools(ToolServer([echo, fails]), turn.start_soon) as endpoint,
            client_of(endpoint, way, mode) as client,
        ):
            assert client.protocol_version == MODES[mode]
            listed = await client.list_tools()
            assert [each.name for each in listed.tools] == ["echo", "fails"]
            said = await client.call_tool("echo", {"text": "hello"})
            assert (said.content[0].text, said.is_error) == ("hello", False)  # type: ignore[union-attr]
            assert (await client.call_tool("fails", {})).is_error


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_an_official_client_that_listens_hears_of_new_tools(way: str) -> None:
    server = ToolServer([echo])
    with trio.fail_after(20):
        async with (
            trio.open_nursery() as turn,
            serve_tools(server, turn.start_soon) as endpoint,
            client_of(endpoint, way, "auto") as client,
            client.listen(tools_list_changed=True) as changes,
        ):
            assert changes.honored.tools_list_changed
            server.set_tools([echo, fails])
            assert await anext(changes) == ToolsListChanged()
            listed = await client.list_tools()
            assert [each.name for each in listed.tools] == ["echo", "fails"]


async def test_a_client_of_the_older_revisions_is_told_of_new_tools() -> None:
    told = trio.Event()

    async def hear(message: object) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, ToolListChangedNotification):
            told.set()

    server = ToolServer([echo])
    with trio.fail_after(20):
        async with (
            trio.open_nursery() as turn,
            serve_tools(server, turn.start_soon) as endpoint,
            client_of(endpoint, "stdio", "legacy", message_handler=hear),
        ):
            server.set_tools([echo, fails])
            await told.wait()
