"""`claude-agent-sdk` (asyncio) through `ClaudeSDKClient`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)

import harness


async def allow(name: str, input: dict[str, Any], context: Any) -> PermissionResultAllow:
    return PermissionResultAllow()


@tool("echo", "Echo", {"text": str})
async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": arguments["text"]}]}


class Adapter:
    async def open(self, agent: str, asks: str, line: int) -> None:
        more: dict[str, Any] = {"max_buffer_size": line} if line else {}
        if asks == "mcp":
            more["mcp_servers"] = {"agentrt": create_sdk_mcp_server("agentrt", tools=[echo])}
        elif asks == "ask":
            more["can_use_tool"] = allow
        self.client = ClaudeSDKClient(
            ClaudeAgentOptions(
                cli_path=f"{agent}/fake-claude", include_partial_messages=True, **more
            )
        )
        await self.client.connect()

    async def turn(self, prompt: str, seen: harness.Seen) -> None:
        await self.client.query(prompt)
        async for message in self.client.receive_messages():
            if isinstance(message, StreamEvent):
                seen(message.event["delta"]["text"])
            elif isinstance(message, AssistantMessage | UserMessage):
                for block in message.content:
                    if isinstance(block, TextBlock):
                        seen(block.text)
                    elif isinstance(block, ToolResultBlock):
                        seen(block.content)
            elif isinstance(message, ResultMessage):
                return
            else:
                continue
            if seen.slow:
                await seen.wait()

    async def cancel(self) -> None:
        await self.client.interrupt()

    async def close(self) -> None:
        await self.client.disconnect()


harness.run(Adapter, harness.AsyncioLoop)
