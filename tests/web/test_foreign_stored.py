"""Stored sessions as clients of ACP and of the AI SDK see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_with, viewer_of
from test_native_stored import left, stored_stage

from agentrt import Limits
from agentrt.hosting import runtime_host
from agentrt.store import StoreEntry
from runtime.fakes import echo
from work import counted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


class Talk:
    """One connection, and what came over it."""

    def __init__(self, stage: Stage, path: str) -> None:
        self._viewer = viewer_of(stage.hub, path)
        self.heard: list[dict[str, Any]] = []

    def say(self, **message: Any) -> None:
        self._viewer.receive(json.dumps(message))

    async def until(self, check: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        with trio.fail_after(30):
            while True:
                message = json.loads(await self._viewer.next_frame())
                self.heard.append(message)
                if check(message):
                    return message


def call(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def test_an_acp_client_lists_loads_and_prompts_a_stored_session(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        talk.say(**call(2, "session/list"))
        listed = await talk.until(lambda message: message.get("id") == 2)
        assert [each["sessionId"] for each in listed["result"]["sessions"]] == [id]
        talk.say(**call(3, "session/load", sessionId=id, cwd="/", mcpServers=[]))
        await talk.until(lambda message: message.get("id") == 3)
        assert said(talk) == ["hello"]
        assert stage.agents.processes == []
        content = [{"type": "text", "text": "again"}]
        talk.say(**call(4, "session/prompt", sessionId=id, prompt=content))
        ended = await talk.until(lambda message: message.get("id") == 4)
        assert ended["result"]["stopReason"] == "end_turn"
        assert said(talk) == ["hello", "again"]
        assert len(stage.agents.processes) == 1


async def test_an_acp_client_is_listed_all_sessions_a_page_at_a_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt._serve.acp.LISTED_SESSIONS", 2)
    monkeypatch.setattr("agentrt._serve.hub.LISTED_SESSIONS", 1)
    ids = [await left(path, f"n{number}") for number in range(5)]
    async with stored_stage(path, echo) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        pages, cursor = [], None
        for id in range(2, 5):
            talk.say(**call(id, "session/list", cwd="/", cursor=cursor))
            listed = (await talk.until(lambda message, id=id: message.get("id") == id))["result"]
            pages.append([each["sessionId"] for each in listed["sessions"]])
            cursor = listed.get("nextCursor")
        assert (pages, cursor) == ([ids[3:], ids[1:3], ids[:1]], None)
        talk.say(**call(5, "session/list", cursor="nothing"))
        refused = await talk.until(lambda message: message.get("id") == 5)
        assert (
            refused["error"]["message"] == "unknown cursor 'nothing': list again without a cursor"
        )


async def test_a_list_for_an_acp_client_costs_the_same_however_many_sessions_are_stored() -> None:
    calls: list[int] = []
    async with stage_with(echo) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        for number in range(4000):
            entry = StoreEntry(session=f"s{number}", agent="fake", cwd="/", created=0, updated=0)
            runtime_host(stage.runtime).add_stored(entry)
            if number not in (999, 3999):
                continue
            with counted() as work:
                talk.say(**call(number, "session/list"))
                answer = await talk.until(lambda message, id=number: message.get("id") == id)
            calls.append(work.count)
            ids = [each["sessionId"] for each in answer["result"]["sessions"]]
            assert ids == [f"s{older}" for older in range(number - 199, number + 1)]
            assert answer["result"]["nextCursor"] == ids[0]
    assert calls[1] < 1.5 * calls[0]


SERVER = {"name": "mine", "command": "serve", "args": [], "env": []}


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_the_agent_of_a_stored_session_gets_the_mcp_servers_of_its_client(
    path: Path, method: str
) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        talk.say(**call(2, method, sessionId=id, cwd="/", mcpServers=[SERVER]))
        await talk.until(lambda message: message.get("id") == 2)
        content = [{"type": "text", "text": "again"}]
        talk.say(**call(3, "session/prompt", sessionId=id, prompt=content))
        await talk.until(lambda message: message.get("id") == 3)
        [started] = stage.agents.sent("session/new")
        assert started["params"]["mcpServers"] == [SERVER]


async def test_an_acp_client_that_loads_a_long_session_is_sent_all_of_it(path: Path) -> None:
    prompts = [f"n{number}" for number in range(6)]
    id = await left(path, *prompts)
    async with stored_stage(path, echo, limits=Limits(snapshot_turns=1)) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        talk.say(**call(2, "session/load", sessionId=id, cwd="/", mcpServers=[]))
        await talk.until(lambda message: message.get("id") == 2)
        assert said(talk) == prompts


async def test_an_acp_client_prompts_a_stored_session_that_it_never_loaded(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        talk = Talk(stage, "/acp")
        talk.say(**call(1, "initialize", protocolVersion=1))
        content = [{"type": "text", "text": "again"}]
        talk.say(**call(2, "session/prompt", sessionId=id, prompt=content))
        await talk.until(lambda message: message.get("id") == 2)
        assert said(talk) == ["again"]


def said(talk: Talk) -> list[str]:
    updates = [each["params"]["update"] for each in talk.heard if "params" in each]
    return [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]


@pytest.mark.slow
async def test_a_chat_of_the_ai_sdk_goes_on_with_a_stored_session(path: Path) -> None:
    id = await left(path, "hello")
    async with stored_stage(path, echo) as stage:
        talk = Talk(stage, "/ai")
        talk.say(**about("r1", id, type="resume"))
        await talk.until(lambda message: message["type"] == "end")
        assert stage.agents.processes == []
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "again"}]}
        talk.say(**about("r2", id, type="send", messages=[message], trigger="submit-message"))
        await talk.until(lambda message: message["type"] == "end")
        deltas = [m["chunk"]["delta"] for m in talk.heard if "delta" in m.get("chunk", {})]
        assert deltas == ["hello", "again"]
        assert len(stage.agents.processes) == 1


def about(request: str, chat: str, **fields: Any) -> dict[str, Any]:
    return {"requestId": request, "id": chat, **fields}


async def test_a_chat_is_known_to_the_next_server_by_the_clients_own_name(path: Path) -> None:
    for count, text in enumerate(("hello", "again"), 1):
        async with stored_stage(path, echo) as stage:
            talk = Talk(stage, "/ai")
            message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
            talk.say(**about("r1", "mine", type="send", messages=[message]))
            await talk.until(lambda message: message["type"] == "end")
            [info] = stage.runtime.list()
            assert len(stage.hub.feed(info.session).log.state.turns) == count
