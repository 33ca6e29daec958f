"""The options that ACP clients see: those with which they said that they can do something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hub_kit import Stage, stage_with
from test_acp_fork import Client
from trio.testing import MockClock

from agentrt.testing import FakeAcpAgent
from runtime.fakes import OPTION

SWITCH = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
BOTH, SELECT = [SWITCH, OPTION], [OPTION]


async def switches(agent: FakeAcpAgent) -> None:
    """Turns its switch on with each prompt, and its effort up at `up`."""
    async for prompt in agent.prompts:
        effort = {**OPTION, "currentValue": "high"} if prompt.text == "up" else OPTION
        options = [{**SWITCH, "currentValue": True}, effort]
        agent.update("config_option_update", configOptions=options)
        prompt.end()


class Watching(Client):
    """Keeps what it is told of its options."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.told: list[list[str]] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.viewer.receive(json.dumps(request))
        while True:
            message: dict[str, Any] = json.loads(await self.viewer.next_frame())
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "config_option_update":
                self.told.append(ids(update))
            if message.get("id") == method and "method" not in message:
                return message

    async def say(self, session: str, text: str) -> None:
        await self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def ids(said: dict[str, Any]) -> list[str]:
    return [option["id"] for option in said["configOptions"]]


@asynccontextmanager
async def watching(capabilities: dict[str, Any]) -> AsyncIterator[Watching]:
    async with stage_with(switches, fake={"new_session": {"configOptions": BOTH}}) as stage:
        client = Watching(stage)
        await client.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        yield client


OFFERS_SWITCHES = {"session": {"configOptions": {"boolean": {}}}}


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"session": {}}, {"session": {"configOptions": {}}}],
    ids=["nothing", "a session", "options"],
)
async def test_a_client_that_offers_no_switches_is_told_of_none(
    capabilities: dict[str, Any], autojump_clock: MockClock
) -> None:
    async with watching(capabilities) as client:
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        session = new["result"]["sessionId"]
        assert ids(new["result"]) == ["effort"]
        await client.say(session, "on")
        assert client.told == []  # nothing that it can see is another one
        await client.say(session, "up")
        assert client.told == [["effort"]]
        for method in ("session/load", "session/resume"):
            again = await client.ask(method, sessionId=session, cwd="/", mcpServers=[])
            assert ids(again["result"]) == ["effort"]


async def test_a_client_that_offers_switches_is_told_of_them(autojump_clock: MockClock) -> None:
    async with watching(OFFERS_SWITCHES) as client:
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        assert ids(new["result"]) == ["fast", "effort"]
        await client.say(new["result"]["sessionId"], "on")
        assert client.told == [["fast", "effort"]]
