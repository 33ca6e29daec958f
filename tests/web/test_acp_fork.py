"""`session/fork` of ACP clients."""

from __future__ import annotations

import json
from typing import Any

from trio.testing import MockClock

from agentrt._web.acp import ACP, AcpViewer
from agentrt._web.hub import Hub
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from runtime.fakes import Incarnations


async def echo(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.say(prompt.text)
        prompt.end()


class Client:
    def __init__(self, viewer: AcpViewer) -> None:
        self.viewer = viewer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Its answer, behind whatever else is said."""
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.viewer.receive(json.dumps(request))
        while True:
            message: dict[str, Any] = json.loads(await self.viewer.next_frame())
            if message.get("id") == method and "method" not in message:
                return message


async def test_an_acp_client_forks_a_session(autojump_clock: MockClock) -> None:
    agents = Incarnations(echo, capabilities={"sessionCapabilities": {"fork": {}}})
    async with open_fake_runtime({"fake": agents.start}) as runtime:
        hub = Hub(runtime)
        viewer = hub.attach_viewer(ACP)
        assert isinstance(viewer, AcpViewer)
        client = Client(viewer)
        greeted = await client.ask("initialize", protocolVersion=1)
        assert greeted["result"]["agentCapabilities"]["sessionCapabilities"]["fork"] == {}
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        first = new["result"]["sessionId"]
        refused = await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[])
        assert "nothing was said" in refused["error"]["message"]
        said = [{"type": "text", "text": "hello"}]
        await client.ask("session/prompt", sessionId=first, prompt=said)
        forked = await client.ask("session/fork", sessionId=first, cwd="/", mcpServers=[])
        fork = forked["result"]["sessionId"]
        assert fork != first
        ended = await client.ask("session/prompt", sessionId=fork, prompt=said)
        assert ended["result"]["stopReason"] == "end_turn"
        assert [len(runtime.get(id).snapshot().turns) for id in (first, fork)] == [1, 1]
        hub.close()
