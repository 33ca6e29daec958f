"""`agentrt acp` behind the official client for Python, which is asyncio's."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp.schema import AllowedOutcome, ClientCapabilities, FileSystemCapabilities

PATIENCE = 60.0


class Editor(acp.Client):
    """It allows everything, and has files that are stored nowhere."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.read: list[str] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        self.asked.append(tool_call.title)
        [allow] = [option for option in options if option.kind == "allow_once"]
        outcome = AllowedOutcome(outcome="selected", option_id=allow.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, path: str, session_id: str, **_: Any
    ) -> acp.ReadTextFileResponse:
        self.read.append(path)
        return acp.ReadTextFileResponse(content="as it is in the editor")

    @property
    def text(self) -> str:
        chunks = [u for u in self.updates if u.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)


async def talk(home: Path) -> Editor:
    editor = Editor()
    command = [sys.executable, "-m", "agentrt", "acp", "--agent", "demo", "--model", "instant"]
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    run = {n: v for n, v in os.environ.items() if n == "AGENTRT_TEST_RUN"}
    env = {**kept, **run, "HOME": str(home)}
    async with acp.spawn_agent_process(editor, *command, env=env, cwd=home) as (agent, process):
        offers = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        said = await agent.initialize(protocol_version=1, client_capabilities=offers)
        assert said.agent_info is not None
        assert said.agent_info.name == "agentrt"
        session = await agent.new_session(cwd=str(home), mcp_servers=[])
        for prompt in ("/ask", "/read notes.txt"):
            ended = await agent.prompt(
                session_id=session.session_id, prompt=[acp.text_block(prompt)]
            )
            assert ended.stop_reason == "end_turn"
        listed = await agent.list_sessions(cwd=str(home))
        assert [each.session_id for each in listed.sessions] == [session.session_id]
    assert process.returncode == 0
    return editor


def test_the_official_client_for_python_has_a_conversation(tmp_path: Path) -> None:
    editor = asyncio.run(asyncio.wait_for(talk(tmp_path), PATIENCE))
    assert editor.asked
    assert editor.read == [str(tmp_path / "notes.txt")]
    assert "Allowed, so I did nothing" in editor.text
    assert "as it is in the editor" in editor.text
