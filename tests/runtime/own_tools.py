"""The tools of a session as its agent reaches them: by the entries of `mcpServers` that it got."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from agentrt.events import JsonObject
from runtime.fakes import Incarnations

HTTP: dict[str, Any] = {"capabilities": {"mcpCapabilities": {"http": True}}}
"""What a fake agent says that speaks MCP over HTTP. Others get an entry with a program."""


def entry_of(agents: Incarnations) -> JsonObject:
    """Return the entry for the tools of the program."""
    [opened] = agents.sent("session/new")
    entry: JsonObject
    [entry] = opened["params"]["mcpServers"]
    return entry


@asynccontextmanager
async def client_of(entry: JsonObject, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """Connect the official client of MCP."""
    if entry.get("type") == "http":
        headers = {header["name"]: header["value"] for header in entry["headers"]}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(
                streamable_http_client(entry["url"], http_client=http), mode=mode, **options
            ) as client,
        ):
            yield client
    else:
        env = {variable["name"]: variable["value"] for variable in entry["env"]}
        program = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
        async with Client(stdio_client(program), mode=mode, **options) as client:
            yield client
