"""`session/fork` and `_session/steering` of ACP clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_of, viewer_of
from trio.testing import MockClock

from agentrt import Runtime
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from runtime.fakes import Incarnations, Script


async def echo(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        text = {"type": "text", "text": prompt.text}
        agent.update("agent_message_chunk", messageId=f"m-{prompt.text}", content=text)
        prompt.end()


class Client:
    def __init__(self, stage: Stage) -> None:
        self.viewer = viewer_of(stage.hub, "/acp")

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Its answer, behind whatever else is said."""
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.viewer.receive(json.dumps(request))
        while True:
            message: dict[str, Any] = json.loads(await self.viewer.next_frame())
            if message.get("id") == method and "method" not in message:
                return message


@asynccontextmanager
async def client_of(script: Script) -> AsyncIterator[tuple[Client, Runtime]]:
    """A client that has greeted, of a server whose agent can all of this."""
    can = {"agentrt": {"forkAt": True}, "steering": {"supported": True}}
    agents = Incarnations(script, capabilities={"sessionCapabilities": {"fork": {}}}, meta=can)
    async with (
        open_fake_runtime({"fake": agents.start}) as runtime,
        stage_of(runtime) as stage,
    ):
        client = Client(stage)
        greeted = await client.ask("initialize", protocolVersion=1)
        assert greeted["result"]["_meta"] == can
        yield client, runtime


async def test_an_acp_client_forks_a_session(autojump_clock: MockClock) -> None:
    agents = Incarnations(echo, capabilities={"sessionCapabilities": {"fork": {}}})
    async with (
        open_fake_runtime({"fake": agents.start}) as runtime,
        stage_of(runtime) as stage,
    ):
        client = Client(stage)
        greeted = await client.ask("initialize", protocolVersion=1)
        assert greeted["result"]["agentCapabilities"]["sessionCapabilities"]["fork"] == {}
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        first = new["result"]["sessionId"]
        refused = await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[])
        assert "the session is empty" in refused["error"]["message"]
        said = [{"type": "text", "text": "hello"}]
        await client.ask("session/prompt", sessionId=first, prompt=said)
        forked = await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[])
        fork = forked["result"]["sessionId"]
        assert fork != first
        ended = await client.ask("session/prompt", sessionId=fork, prompt=said)
        assert ended["result"]["stopReason"] == "end_turn"
        assert [len(runtime.get(id).snapshot().turns) for id in (first, fork)] == [1, 1]


async def test_a_fork_ends_at_the_message_that_is_named(autojump_clock: MockClock) -> None:
    async with client_of(echo) as (client, runtime):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        first = new["result"]["sessionId"]
        for text in ("one", "two"):
            said = [{"type": "text", "text": text}]
            await client.ask("session/prompt", sessionId=first, prompt=said)
        [answer] = [each for each in runtime.get(first).snapshot().items if each.text == "one"]
        point = {"version": 1, "messageId": answer.id}
        forked = await client.ask(
            "session/fork", sessionId=first, cwd="/", _meta={"jetbrains": {"air": {"fork": point}}}
        )
        copy = runtime.get(forked["result"]["sessionId"]).snapshot()
        assert [item.type for item in copy.items] == ["user", "text"]


async def test_the_agent_of_a_fork_gets_the_mcp_servers_of_its_client(
    autojump_clock: MockClock,
) -> None:
    server = {"name": "mine", "command": "serve", "args": [], "env": []}
    agents = Incarnations(echo, capabilities={"sessionCapabilities": {"fork": {}}})
    async with (
        open_fake_runtime({"fake": agents.start}) as runtime,
        stage_of(runtime) as stage,
    ):
        client = Client(stage)
        await client.ask("initialize", protocolVersion=1)
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        first = new["result"]["sessionId"]
        said = [{"type": "text", "text": "hello"}]
        await client.ask("session/prompt", sessionId=first, prompt=said)
        forked = await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[server])
        assert "result" in forked
        [asked] = agents.sent("session/fork")
        assert asked["params"]["mcpServers"] == [server]


@pytest.mark.parametrize(
    ("method", "params", "wrong"),
    [
        ("session/new", {"cwd": "/", "mcpServers": "none"}, "mcpServers"),
        ("session/new", {"cwd": "/", "_meta": {"agentrt": {"model": 5}}}, "_meta.agentrt.model"),
        ("session/load", {"cwd": 5}, "cwd"),
        ("session/resume", {"mcpServers": [5]}, "mcpServers[0]"),
        ("session/list", {"cwd": 5}, "cwd"),
        ("_session/steering", {"prompt": [{"type": "text", "text": "a"}, 5]}, "prompt[1]"),
    ],
)
async def test_a_wrong_value_is_refused_and_not_taken_for_one_that_was_not_said(
    method: str, params: dict[str, Any], wrong: str, autojump_clock: MockClock
) -> None:
    async with client_of(echo) as (client, _):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        about = {"sessionId": new["result"]["sessionId"], **params}
        refused = await client.ask(method, **about)
        assert refused["error"] == {
            "code": -32602,
            "message": f"{method}: wrong: {wrong}",
            "data": {"code": "bad_request", "data": None},
        }


async def test_an_acp_client_steers(autojump_clock: MockClock) -> None:
    said = [{"type": "text", "text": "faster"}]

    async def waits(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("working")
            await trio.sleep(1)  # until it has been steered
            agent.result(agent.received[-1]["id"], {"outcome": "injected"})
            prompt.end()

    async with client_of(waits) as (client, runtime):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        id = new["result"]["sessionId"]
        only = {"steering": {"idleBehavior": "promptRequired"}}
        none = await client.ask("_session/steering", sessionId=id, prompt=said, _meta=only)
        assert none["result"] == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        turn = runtime.get(id).submit("go")
        took = await client.ask("_session/steering", sessionId=id, prompt=said)
        assert took["result"] == {"outcome": "injected"}
        await trio.sleep(2)
        assert turn.result.outcome == "completed"
        shown = runtime.get(id).snapshot().items
        assert [item.type for item in shown] == ["user", "user", "text"]
        began = await client.ask("_session/steering", sessionId=id, prompt=said)
        assert began["result"] == {"outcome": "startedNewTurn"}
