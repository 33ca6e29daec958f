"""The request that a policy sees: what the agent has reported of its question."""

from __future__ import annotations

from typing import Any

import agentrt
from agentrt.events import PermissionOption
from agentrt.permissions import PermissionRequest
from agentrt.testing import FakeAcpAgent, FakeClaudeAgent, MemoryAgent, open_fake_session
from runtime.fakes import session_with

CWD = "/shop/project"


class Policy:
    """Allows everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[PermissionRequest] = []

    def __call__(self, request: PermissionRequest) -> agentrt.Allow:
        self.asked.append(request)
        return agentrt.Allow()


async def test_a_request_is_made_of_what_an_acp_agent_reported() -> None:
    question: dict[str, Any] = {
        "sessionId": "s",
        "toolCall": {
            "toolCallId": "t1",
            "title": "Edit a.py",
            "kind": "edit",
            "rawInput": {"file_path": "a.py"},
            "locations": [{"path": "/shop/b.py"}],
            "content": [{"type": "diff", "path": "/shop/a.py", "oldText": "a", "newText": "b"}],
        },
        "options": [{"optionId": "1", "name": "Yes", "kind": "allow_once"}],
    }

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.request("session/request_permission", question)
            prompt.end()

    policy = Policy()
    async with session_with(script, permissions=policy, cwd=CWD) as (session, _):
        await session.run("edit it")
    [request] = policy.asked
    assert request == PermissionRequest(
        id=request.id,
        title="Edit a.py",
        tool="",
        kind="edit",
        input={"file_path": "a.py"},
        options=(PermissionOption("1", "Yes", "allow_once"),),
        cwd=CWD,
        tool_call="t1",
        changes=("/shop/a.py",),
        locations=("/shop/b.py",),
        raw=question,
    )
    assert request.id


async def test_a_request_is_made_of_what_claude_reported() -> None:
    async def program(process: MemoryAgent) -> None:
        async with FakeClaudeAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                await agent.ask("t1", name="Edit", file_path="a.py")
                prompt.end()

    policy = Policy()
    opening = open_fake_session(
        lambda: MemoryAgent(program), protocol="claude", permissions=policy, cwd=CWD
    )
    async with opening as session:
        await session.run("edit it")
    [request] = policy.asked
    assert request == PermissionRequest(
        id=request.id,
        title="Edit a.py",
        tool="Edit",
        kind="edit",
        input={"file_path": "a.py"},
        options=request.options,
        cwd=CWD,
        tool_call="t1",
        raw={
            "subtype": "can_use_tool",
            "tool_name": "Edit",
            "input": {"file_path": "a.py"},
            "tool_use_id": "t1",
        },
    )
    assert request.id
    assert {option.kind for option in request.options} >= {"allow_once", "reject_once"}
