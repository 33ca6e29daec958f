"""The official SDK for Claude Code on one shape of `agentrt.testing.odd`: prints what it did.

python odd_claude.py SHAPE REPORT
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
)

PATIENCE = float(os.environ.get("PATIENCE", "8"))


async def allow(name: str, input: dict[str, Any], context: Any) -> PermissionResultAllow:
    return PermissionResultAllow()


def program(folder: Path, shape: str, report: str) -> Path:
    """The SDK starts one program, and gives it flags of its own."""
    python = os.environ.get("AGENTRT_PYTHON", sys.executable)
    file = folder / "claude"
    words = f"-m agentrt.testing.odd --protocol claude --report '{report}' {shape}"
    file.write_text(f"#!/bin/sh\nexec '{python}' {words} \"$@\"\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


async def meet(shape: str, report: str, folder: Path) -> dict[str, str]:
    options = ClaudeAgentOptions(cli_path=program(folder, shape, report), can_use_tool=allow)
    client = ClaudeSDKClient(options)
    await client.connect()
    spoke = asyncio.Event()

    async def turn() -> tuple[str, str]:
        text = ""
        try:
            async with asyncio.timeout(PATIENCE):
                await client.query("go")
                async for message in client.receive_messages():
                    if isinstance(message, AssistantMessage):
                        text += "".join(getattr(block, "text", "") for block in message.content)
                        spoke.set()
                    elif isinstance(message, ResultMessage):
                        return message.subtype, text
                return "the stream ended", text
        except TimeoutError:
            return "no end", text
        except Exception as error:
            return type(error).__name__, text

    running = asyncio.create_task(turn())
    if shape in ("late-answer", "permission-in-cancel"):
        await asyncio.wait_for(spoke.wait(), PATIENCE)
        await asyncio.wait_for(client.interrupt(), PATIENCE)
    first, text = await running
    second, then = await turn() if first != "no end" else ("not tried", "")
    try:
        await asyncio.wait_for(client.disconnect(), PATIENCE)
    except Exception as error:
        then += f" ({type(error).__name__} at its end)"
    told = text if len(text) < 20 else f"{len(text)} characters"
    return {"first": first, "text": told, "second": second, "then": then}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(asyncio.run(meet(sys.argv[1], sys.argv[2], Path(name)))))
