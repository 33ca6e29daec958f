"""What clients offer to sessions is bounded, whatever interface they use, since it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_with, viewer_of

from runtime.fakes import echo


def tool(name: str, size: int = 0, letter: str = "x") -> dict[str, Any]:
    schema = {"type": "object", "description": letter * size}
    return {"name": name, "description": "", "input_schema": schema}


MANY = [tool(f"t{number}") for number in range(64)]


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ([tool("large", 256 * 1024)], "bad_request"),  # for its characters
        ([tool(f"t{number}", 5_000) for number in range(60)], "bad_request"),
        ([tool("large", 100 * 1024, "\u5b57")], "limit"),  # for its bytes
    ],
)
async def test_a_client_with_too_large_tools_is_refused_and_may_say_hello_again(
    tools: list[dict[str, Any]], code: str
) -> None:
    async with stage_with(echo) as stage:
        viewer = viewer_of(stage.hub)

        async def hello(tools: list[dict[str, Any]]) -> dict[str, Any]:
            said = {"type": "hello", "id": "h", "client": "mine", "tools": tools}
            viewer.receive(json.dumps(said, ensure_ascii=False))
            with trio.fail_after(30):
                while True:
                    frame = json.loads(await viewer.next_frame())
                    for message in frame if isinstance(frame, list) else [frame]:
                        if message["type"] == "ack":
                            return dict(message)

        assert (await hello(tools))["error"]["code"] == code
        assert (await hello(MANY))["ok"]


class Chat:
    """A connection that speaks the AI SDK's protocol."""

    def __init__(self, stage: Stage) -> None:
        self._viewer = viewer_of(stage.hub, "/ai")

    async def send(self, **body: Any) -> str:
        """Send a message without a chat, which is refused; return the reason."""
        request = {"type": "send", "requestId": "r", "id": "none", "messages": [], "body": body}
        message = {"id": "m", "role": "assistant", "parts": []}
        self._viewer.receive(json.dumps(request | {"messages": [message]}))
        with trio.fail_after(30):
            while (frame := json.loads(await self._viewer.next_frame()))["type"] != "error":
                pass
        return str(frame["errorText"])


async def test_the_tools_of_all_messages_of_a_chat_are_bounded_together() -> None:
    async with stage_with(echo) as stage:
        chat = Chat(stage)
        for number in range(2):
            assert "(limit)" not in await chat.send(tools=[tool(f"t{number}", 100_000)])
        assert "262,144 bytes" in await chat.send(tools=[tool("third", 100_000)])
        assert "at most 64 tools" in await chat.send(tools=[*MANY, tool("more")])
        assert "(limit)" not in await chat.send(tools=[tool("t1", 10)])  # replaces the large one


async def test_the_mcp_servers_of_an_editor_are_bounded() -> None:
    async with stage_with(echo) as stage:
        viewer = viewer_of(stage.hub, "/acp")

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            viewer.receive(
                json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
            )
            with trio.fail_after(30):
                while (answer := json.loads(await viewer.next_frame())).get("id") != method:
                    pass
            return dict(answer)

        await ask("initialize", protocolVersion=1)
        server = {"name": "s", "command": "true", "args": ["x" * 256 * 1024], "env": []}
        id = (await ask("session/new", cwd="/", mcpServers=[]))["result"]["sessionId"]
        for method, params in (
            ("session/new", {}),
            ("session/load", {"sessionId": id}),
            ("session/resume", {"sessionId": id}),
            ("session/fork", {"sessionId": id}),
        ):
            error = (await ask(method, cwd="/", mcpServers=[server], **params))["error"]
            assert error["code"] == -32602, method
            assert "262,144 bytes" in error["message"], method
