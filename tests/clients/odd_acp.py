"""The official ACP client for Python on one shape of `agentrt.testing.odd`: prints what it did.

python odd_acp.py SHAPE REPORT
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import acp
from acp.schema import AllowedOutcome

AGENT = (os.environ.get("AGENTRT_PYTHON", sys.executable), "-m", "agentrt.testing.odd")
PATIENCE = float(os.environ.get("PATIENCE", "8"))


class Client(acp.Client):
    def __init__(self) -> None:
        self.text = ""
        self.spoke = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text
            self.spoke.set()

    async def request_permission(self, **_: Any) -> acp.RequestPermissionResponse:
        outcome = AllowedOutcome(outcome="selected", option_id="yes")
        return acp.RequestPermissionResponse(outcome=outcome)


async def ended(work: Any) -> str:
    """How a request ended, in words."""
    try:
        answer = await asyncio.wait_for(work, PATIENCE)
    except TimeoutError:
        return "no end"
    except Exception as error:
        return type(error).__name__
    return str(answer.stop_reason)


async def meet(shape: str, report: str) -> dict[str, str]:
    client = Client()
    env = dict(os.environ)
    command = [*AGENT, "--report", report, shape]
    async with acp.spawn_agent_process(client, *command, env=env) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id

        async def prompt() -> str:
            block = acp.text_block("go")
            return await ended(agent.prompt(session_id=session, prompt=[block]))

        turn = asyncio.create_task(prompt())
        if shape in ("late-answer", "permission-in-cancel"):
            await asyncio.wait_for(client.spoke.wait(), PATIENCE)
            await agent.cancel(session_id=session)
        first = await turn
        text, client.text = client.text, ""
        second = await prompt() if first != "no end" else "not tried"
        return {
            "first": first,
            "text": text if len(text) < 20 else f"{len(text)} characters",
            "second": second,
            "then": client.text,
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(meet(sys.argv[1], sys.argv[2]))))
