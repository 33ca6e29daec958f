"""The in-process tools with the official client of MCP, of both eras and on both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from mcp.client.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

import agentrt
from agentrt.tools import Tool, tool
from runtime.fakes import Incarnations, obedient, session_with
from runtime.own_tools import HTTP, client_of, entry_of

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
async def session_of(
    *tools: Tool, way: str = "stdio"
) -> AsyncIterator[tuple[agentrt.Session, Incarnations]]:
    """A session in a turn, whose agent reaches its tools in this way."""
    fake = HTTP if way == "http" else None
    with trio.fail_after(20):
        async with (
            session_with(obedient, fake=fake, tools=tools) as (session, agents),
            session.prompt("use them", check=False),
        ):
            yield session, agents
            session.cancel()


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("mode", MODES)
async def test_an_official_client_finds_and_calls_the_tools(way: str, mode: Any) -> None:
    async with (
        session_of(echo, fails, way=way) as (_, agents),
        client_of(entry_of(agents), mode) as client,
    ):
        assert client.protocol_version == MODES[mode]
        listed = await client.list_tools()
        assert [each.name for each in listed.tools] == ["echo", "fails"]
        said = await client.call_tool("echo", {"text": "hello"})
        assert (said.content[0].text, said.is_error) == ("hello", False)  # type: ignore[union-attr]
        assert (await client.call_tool("fails", {})).is_error


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_an_official_client_that_listens_hears_of_new_tools(way: str) -> None:
    async with (
        session_of(echo, way=way) as (session, agents),
        client_of(entry_of(agents)) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        assert changes.honored.tools_list_changed
        session.set_tools([echo, fails])
        assert await anext(changes) == ToolsListChanged()
        listed = await client.list_tools()
        assert [each.name for each in listed.tools] == ["echo", "fails"]


async def test_a_client_of_the_older_revisions_is_told_of_new_tools() -> None:
    told = trio.Event()

    async def hear(message: object) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with (
        session_of(echo) as (session, agents),
        client_of(entry_of(agents), "legacy", message_handler=hear),
    ):
        session.set_tools([echo, fails])
        await told.wait()
