"""What a client offers in `initialize`, in the shape of either version of ACP."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hub_kit import stage_with, viewer_of
from trio.testing import MockClock

from agentrt.testing import FakeAcpAgent

FORM = {
    "mode": "form",
    "message": "Where to?",
    "requestedSchema": {"type": "object", "properties": {"place": {"type": "string"}}},
}
OFFERED = {"elicitation": {"form": {}}}


async def elicits(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        answer = await agent.request(
            "elicitation/create", {"sessionId": prompt.params["sessionId"], **FORM}
        )
        agent.say(json.dumps(answer))
        prompt.end()


@pytest.mark.parametrize(
    ("initialize", "asked"),
    [
        ({"protocolVersion": 1, "clientCapabilities": OFFERED}, True),
        ({"protocolVersion": 2, "capabilities": OFFERED, "info": {"name": "x"}}, True),
        ({"protocolVersion": 2, "capabilities": {}, "info": {"name": "x"}}, False),
        ({"protocolVersion": 1, "clientCapabilities": {}, "capabilities": OFFERED}, False),
        ({"protocolVersion": 1}, False),
    ],
)
async def test_a_client_of_either_version_gets_the_forms_that_it_offers(
    initialize: dict[str, Any], asked: bool, autojump_clock: MockClock
) -> None:
    async with stage_with(elicits) as stage:
        viewer = viewer_of(stage.hub, "/acp")
        questions = 0

        async def answer_one() -> dict[str, Any]:
            """Read a message, and answer it if it is a question."""
            nonlocal questions
            message: dict[str, Any] = json.loads(await viewer.next_frame())
            if message.get("method") == "elicitation/create":
                questions += 1
                answer = {"action": "accept", "content": {"place": "Rome"}}
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
                viewer.receive(json.dumps(reply))
            return message

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            viewer.receive(json.dumps(request))
            while (message := await answer_one()).get("id") != method:
                pass
            return message

        greeted = await ask("initialize", **initialize)
        version = 2 if "info" in initialize else 1
        assert greeted["result"]["protocolVersion"] == version
        new = await ask("session/new", cwd="/", mcpServers=[])
        session = new["result"]["sessionId"]
        with trio.move_on_after(3600):  # nobody answers a form that no client shows
            prompt = [{"type": "text", "text": "go"}]
            await ask("session/prompt", sessionId=session, prompt=prompt)
            while version == 2 and not questions:  # the prompt is answered before its turn asks
                await answer_one()
        assert questions == asked
