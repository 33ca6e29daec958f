"""Claude Code's own requests as methods: what goes over the wire, and what comes of the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fakes import session_with
from trio.testing import MockClock

import agentrt
from agentrt.claude import ClaudeControl
from agentrt.testing import FakeAcpAgent

PATIENCE = 60
Json = dict[str, Any]
OFFERS: dict[str, Any] = {"auth": {"logout": {}}}
Asked = list[Json]

SERVER = {"name": "shop", "status": "failed", "error": "no such file", "config": {"type": "stdio"}}
ANSWERS: dict[str, Json | None] = {
    "mcp_status": {"mcpServers": [SERVER, {"name": "own", "status": "connected", "tools": None}]},
    "mcp_set_servers": {"added": ["shop"], "removed": [], "errors": {"old": "gone"}},
    "get_context_usage": {"totalTokens": 5, "maxTokens": 10, "percentage": 50, "gridRows": []},
    "rewind_files": {"canRewind": False, "error": "no file is kept"},
    "get_task_output": {"output": "one\n", "total_bytes": 4, "truncated": False},
    "set_max_thinking_tokens": None,
}


async def claude(stream: trio.abc.Stream, asked: Asked, answers: dict[str, Json | None]) -> None:
    """The far end: it answers each control request, and nothing else."""
    rest = b""
    async for data in stream:  # type: ignore[attr-defined]
        *lines, rest = (rest + data).split(b"\n")
        for line in map(json.loads, lines):
            if line["type"] != "control_request":
                continue
            request = line["request"]
            asked.append(request)
            body: Json = {"subtype": "success", "request_id": line["request_id"]}
            body["response"] = answers.get(request["subtype"], {})
            if request["subtype"] == "mcp_reconnect":
                body |= {"subtype": "error", "error": "no server of that name"}
            answer = {"type": "control_response", "response": body}
            await stream.send_all(json.dumps(answer).encode() + b"\n")
            if request["subtype"] == "end_session":
                await stream.aclose()
                return


@asynccontextmanager
async def controlled(
    folder: Path, answers: dict[str, Json | None] = ANSWERS
) -> AsyncIterator[tuple[ClaudeControl, Asked]]:
    ours, theirs = trio.testing.memory_stream_pair()
    asked: Asked = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(claude, theirs, asked, answers)
        async with agentrt.agents.connect(ours, protocol="claude", cwd=folder) as session:
            asked.clear()
            yield ClaudeControl(session), asked
        nursery.cancel_scope.cancel()


async def test_the_states_of_servers_are_read_with_what_is_not_known_of_them(
    tmp_path: Path,
) -> None:
    async with controlled(tmp_path) as (control, asked):
        failed, connected = await control.mcp_servers()
        assert asked == [{"subtype": "mcp_status"}]
    assert (failed.name, failed.status, failed.error) == ("shop", "failed", "no such file")
    assert (connected.name, connected.status, connected.tools) == ("own", "connected", [])


Does = Callable[[ClaudeControl], Awaitable[Any]]


@pytest.mark.parametrize(
    ("does", "request_", "gives"),
    [
        (
            lambda c: c.set_mcp_servers({"shop": {"type": "stdio", "command": "shop"}}),
            {
                "subtype": "mcp_set_servers",
                "servers": {"shop": {"type": "stdio", "command": "shop"}},
            },
            agentrt.claude.McpServersChanged(added=["shop"], errors={"old": "gone"}),
        ),
        (
            lambda c: c.toggle_mcp_server("shop", enabled=False),
            {"subtype": "mcp_toggle", "serverName": "shop", "enabled": False},
            None,
        ),
        (
            lambda c: c.context_usage(),
            {"subtype": "get_context_usage"},
            agentrt.claude.ContextUsage(total_tokens=5, max_tokens=10, percentage=50),
        ),
        (
            lambda c: c.set_max_thinking_tokens(2048),
            {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2048},
            None,
        ),
        (lambda c: c.rename("New"), {"subtype": "rename_session", "title": "New"}, None),
        (lambda c: c.send_to_background(), {"subtype": "background_tasks"}, None),
        (
            lambda c: c.send_to_background("toolu_1"),
            {"subtype": "background_tasks", "tool_use_id": "toolu_1"},
            None,
        ),
        (
            lambda c: c.task_output("b1"),
            {"subtype": "get_task_output", "task_id": "b1"},
            agentrt.claude.TaskOutput(output="one\n", total_bytes=4),
        ),
        (
            lambda c: c.add_folder(Path("/srv/part")),
            {"subtype": "register_repo_root", "directory": "/srv/part"},
            None,
        ),
    ],
)
async def test_a_method_is_a_request_and_gives_its_answer(
    tmp_path: Path, does: Does, request_: Json, gives: Any
) -> None:
    async with controlled(tmp_path) as (control, asked):
        assert await does(control) == gives
        assert asked == [request_]


async def test_a_refusal_and_an_answer_that_makes_no_sense_are_errors(tmp_path: Path) -> None:
    async with controlled(tmp_path) as (control, _):
        with pytest.raises(agentrt.errors.RequestError, match="no server of that name"):
            await control.reconnect_mcp_server("nobody")
        with pytest.raises(agentrt.errors.RequestError, match="no prompt started"):
            await control.rewind_files("t99")
    for odd in (None, {"mcpServers": [{"status": "connected"}]}):
        async with controlled(tmp_path, {"mcp_status": odd}) as (control, _):
            with pytest.raises(agentrt.errors.RemoteProtocolError, match="is invalid"):
                await control.mcp_servers()


async def test_another_agent_has_nothing_of_it(autojump_clock: MockClock) -> None:
    async def quiet(agent: FakeAcpAgent) -> None:
        await trio.sleep_forever()

    async with session_with(quiet) as (session, _):
        with pytest.raises(agentrt.LocalProtocolError, match="is not Claude Code: it speaks acp"):
            ClaudeControl(session)


async def test_who_is_logged_in_is_forgotten_by_the_agents_that_offer_it(
    autojump_clock: MockClock,
) -> None:
    asked: list[str] = []

    async def script(agent: FakeAcpAgent) -> None:
        async for request in agent.requests:
            asked.append(request["method"])
            agent.result(request["id"], {})

    with trio.fail_after(PATIENCE):
        async with session_with(script, fake={"capabilities": OFFERS, "answers": {"logout"}}) as (
            session,
            _,
        ):
            await session.logout()
        async with session_with(script) as (session, _):
            with pytest.raises(agentrt.errors.RequestError, match="does not offer logout"):
                await session.logout()
    assert asked == ["logout"]
