"""A client can have a project's files ignored, and never have them trusted."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from sockets import TOKEN, offer, websocket
from tenants_kit import BOLT, Line, line, servers

import agentrt
import agentrt.agents
from agentrt.events import TurnEnded
from agentrt.testing import FakeAcpAgent
from agentrt.web import Security, serve

WIDER: list[dict[str, Any]] = [
    {"trust": "yes"},
    {"trust": "ask"},
    {"trusted": ["/"]},
    {"sandbox": None},
    {"sandbox": "open-network"},
]


async def silent(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        prompt.end()


@pytest.mark.parametrize("wider", WIDER)
async def test_a_tenant_cannot_widen_what_its_agent_may_do(wider: dict[str, Any]) -> None:
    async with servers(None, silent) as there, line(there.port(0), BOLT) as bolt:
        code, message = await bolt.refused("session", op="new", agent="fake", cwd="/", **wider)
    assert code == "bad_request"
    assert next(iter(wider)) in message


async def test_a_tenant_can_have_the_files_ignored() -> None:
    async with servers(None, silent) as there, line(there.port(0), BOLT) as bolt:
        assert await bolt.ok("session", op="new", agent="fake", cwd="/", trust="no")


# --- the question about the files, on clients of other protocols

AGENT = Path(__file__).parents[1] / "sandbox" / "shell_agent.py"
INFO = {"name": "editor", "version": "1"}
EVIL = '{"mcpServers": {"evil": {"command": "touch", "args": ["ran-by-the-project"]}}}'


@asynccontextmanager
async def asked(
    tmp_path: Path, path: str, version: int = 0
) -> AsyncIterator[tuple[agentrt.Session, Line]]:
    """A session whose agent waits for a decision about a file of its folder, and a client."""
    (tmp_path / ".mcp.json").write_text(EVIL)
    agent = agentrt.agents.acp([sys.executable, "-I", "-S", str(AGENT)], name="claude")
    with trio.fail_after(60):
        async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
            options = {"permissions": agentrt.ask, "trust": "ask"}
            session = await runtime.create(agent, cwd=tmp_path, **options)
            site = await nursery.start(partial(serve, runtime, security=Security(token=TOKEN)))
            protocol = offer(TOKEN)
            async with websocket(site.port, target=path, sec_websocket_protocol=protocol) as socket:
                client = Line(socket)
                if version:
                    about = {"clientCapabilities": {}} if version == 1 else {"info": INFO}
                    await client.rpc("initialize", protocolVersion=version, **about)
                yield session, client
            nursery.cancel_scope.cancel()


async def ended(session: agentrt.Session) -> None:
    async for event in session.subscribe(after=0):
        if isinstance(event, TurnEnded):
            return


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
async def test_an_editor_shows_each_file_before_it_is_trusted(
    version: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    async with asked(project, "/acp", version) as (session, editor):
        about = {"sessionId": session.id, "cwd": str(project), "mcpServers": []}
        await editor.say(
            jsonrpc="2.0",
            id="l",
            method="session/load" if version == 1 else "session/resume",
            params=about,
        )
        request = await editor.until(method="session/request_permission")
        params = request["params"]
        shown = params["toolCall"]["content"] if version == 1 else params["description"]
        assert "starts the MCP servers that it names" in str(shown)
        if version == 1:
            assert {"type": "diff", "path": ".mcp.json", "newText": EVIL} in shown
        else:
            assert f"+{EVIL}" in shown
        [option] = [each["optionId"] for each in params["options"] if each["kind"] == kind]
        outcome = {"outcome": "selected", "optionId": option}
        await editor.say(jsonrpc="2.0", id=request["id"], result={"outcome": outcome})
        prompt = [{"type": "text", "text": "pid"}]
        answer = await editor.rpc("session/prompt", sessionId=session.id, prompt=prompt)
        if kind == "allow_once":
            await ended(session)
        else:  # this agent cannot be kept from the file, so it is not started
            assert "not trusted" in answer["error"]["message"]


async def test_a_chat_is_told_what_its_message_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    async with asked(project, "/ai") as (session, chat):
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "pid"}]}
        await chat.say(type="send", requestId="r", id=session.id, messages=[message], body={})
        error = await chat.until(type="error", requestId="r")
        assert f"Let claude act on files of {project}" in error["errorText"]
        [request] = session.pending_permissions
        session.answer(request, "session")
        await ended(session)
        await chat.say(type="resume", requestId="r2", id=session.id)
        await chat.until(type="end", requestId="r2")
