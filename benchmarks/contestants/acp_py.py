"""The ACP Python SDK (`agent-client-protocol`, asyncio) through `spawn_agent_process`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from acp import spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

import harness


class Client:
    seen: harness.Seen

    async def session_update(self, session_id: str, update: Any, **extra: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.seen(update.content.text)
        else:
            self.seen(update.content[0].content.text)
        if self.seen.slow:
            await self.seen.wait()

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **extra: Any
    ) -> RequestPermissionResponse:
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        )


class Adapter:
    async def open(self, agent: str, asks: str, line: int) -> None:
        self.stack = contextlib.AsyncExitStack()
        self.client = Client()
        more: dict[str, Any] = {"transport_kwargs": {"limit": line}} if line else {}
        self.connection, _ = await self.stack.enter_async_context(
            spawn_agent_process(self.client, f"{agent}/fake-acp", **more)
        )
        await self.connection.initialize(protocol_version=1)
        session = await self.connection.new_session(cwd="/", mcp_servers=[])
        self.session = session.session_id

    async def turn(self, prompt: str, seen: harness.Seen) -> None:
        self.client.seen = seen
        await self.connection.prompt(session_id=self.session, prompt=[text_block(prompt)])

    async def cancel(self) -> None:
        await self.connection.cancel(session_id=self.session)

    async def close(self) -> None:
        await self.stack.aclose()


harness.run(Adapter, harness.AsyncioLoop)
