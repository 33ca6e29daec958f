"""The sessions that agents themselves keep: listed, and deleted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import Script, session_with

import agentrt
from agentrt import LocalProtocolError
from agentrt.errors import RemoteProtocolError, RequestError, SessionNotFound
from agentrt.testing import FakeAcpAgent

ALL: dict[str, Any] = {"sessionCapabilities": {"list": {}, "delete": {}}}
Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


def keeps(answer: Answer) -> Script:
    """An agent that answers these requests so."""

    async def script(agent: FakeAcpAgent) -> None:
        async for request in agent.requests:
            agent.send({"id": request["id"], **answer(request["method"], request["params"])})

    return script


def page(*ids: str, **more: Any) -> dict[str, Any]:
    return {"result": {"sessions": [{"sessionId": id, "cwd": "/shop"} for id in ids], **more}}


async def listed(answer: Answer, cwd: str | None = None) -> list[agentrt.agents.AgentSession]:
    async with session_with(keeps(answer), fake={"capabilities": ALL}) as (session, _):
        return await session.list_sessions(cwd)


async def test_a_list_is_followed_over_its_pages() -> None:
    cursors: list[Any] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        cursors.append(params.get("cursor"))
        return page("a", nextCursor="2") if len(cursors) == 1 else page("b", "a")

    assert [each.id for each in await listed(answer)] == ["a", "b"]
    assert cursors == [None, "2"]


async def test_a_list_without_an_end_is_asked_for_only_so_often() -> None:
    asked = 0

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return page(f"s{asked}", nextCursor=str(asked))

    assert len(await listed(answer)) == 100

    def circle(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return page("a", nextCursor="again")

    assert [each.id for each in await listed(circle)] == ["a"]


async def test_what_was_used_last_comes_first_and_other_folders_are_left_out() -> None:
    sessions = [
        {"sessionId": "old", "cwd": "/shop", "updatedAt": "2026-01-01T00:00:00Z"},
        {"sessionId": "new", "cwd": "/shop", "updatedAt": "2026-02-01T00:00:00Z", "title": "T"},
        {"sessionId": "other", "cwd": "/elsewhere", "updatedAt": "2026-03-01T00:00:00Z"},
        {"sessionId": "anywhere", "updatedAt": "no date"},
    ]
    found = await listed(lambda method, params: {"result": {"sessions": sessions}}, "/shop")
    assert [each.id for each in found] == ["new", "old", "anywhere"]
    assert (found[0].title, found[0].cwd, found[0].updated) == ("T", "/shop", 1769904000.0)
    assert found[0].agent == "fake"


async def test_a_list_that_makes_no_sense_is_the_agent_s_error() -> None:
    with pytest.raises(RemoteProtocolError, match="is invalid"):
        await listed(lambda method, params: {"result": {"sessions": 3}})
    with pytest.raises(RequestError, match="no disk"):
        await listed(lambda method, params: {"error": {"code": -32603, "message": "no disk"}})


async def test_an_agent_that_offers_neither_is_said_to() -> None:
    async with session_with(keeps(lambda method, params: page())) as (session, _):
        with pytest.raises(RequestError, match="fake keeps no list") as refused:
            await session.list_sessions()
        assert refused.value.code == -32601
        with pytest.raises(RequestError, match="fake cannot delete"):
            await session.delete_session("other")


async def test_a_session_is_deleted_by_the_agent_but_not_the_one_that_is_open() -> None:
    deleted: list[str] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        deleted.append(params["sessionId"])
        return {"result": {}}

    async with session_with(keeps(answer), fake={"capabilities": ALL}) as (session, _):
        await session.delete_session("other")
        assert session.agent_session is not None
        with pytest.raises(LocalProtocolError, match="open here"):
            await session.delete_session(session.agent_session)
    assert deleted == ["other"]


@pytest.mark.slow
async def test_an_agent_that_does_not_run_is_started_to_be_asked(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    demo = agentrt.agents.acp([sys.executable, "-m", "agentrt.demo"], name="demo", env=env)
    async with agentrt.open_session(demo, cwd=tmp_path) as session:
        await session.run("list the files")
        id = session.agent_session
    assert id is not None
    [one] = await agentrt.agents.list_sessions(demo, cwd=tmp_path)
    assert (one.id, one.title, one.cwd) == (id, "list the files", str(tmp_path))
    assert await agentrt.agents.list_sessions(demo, cwd="/") == []
    with pytest.raises(SessionNotFound, match="lists no session"):
        await agentrt.agents.delete_session(demo, "other")
    await agentrt.agents.delete_session(demo, id)
    assert await agentrt.agents.list_sessions(demo) == []


async def test_claude_code_s_are_found_by_the_same_names(tmp_path: Path) -> None:
    id = "11111111-2222-4333-8444-555555555555"
    project = tmp_path / "projects" / "-work"
    project.mkdir(parents=True)
    said = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": id, "cwd": "/shop"}
    entry = {**said, "message": {"role": "user", "content": "hello"}, "timestamp": ""}
    (project / f"{id}.jsonl").write_text(json.dumps(entry) + "\n")
    claude = agentrt.agents.claude([sys.executable], env={"CLAUDE_CONFIG_DIR": str(tmp_path)})
    [one] = await agentrt.agents.list_sessions(claude)
    assert (one.agent, one.id, one.title, one.cwd) == ("claude", id, "hello", "/shop")
    await agentrt.agents.delete_session(claude, id)
    assert await agentrt.agents.list_sessions(claude) == []
    with pytest.raises(SessionNotFound):
        await agentrt.agents.delete_session(claude, id)
