"""A client can have a project's files ignored, and never have them trusted."""

from __future__ import annotations

from typing import Any

import pytest
from tenants_kit import BOLT, line, servers

from agentrt.testing import FakeAcpAgent

WIDER: list[dict[str, Any]] = [
    {"trust": "yes"},
    {"trust": "ask"},
    {"trusted": ["/"]},
    {"sandbox": None},
    {"sandbox": "open-network"},
]


async def silent(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        prompt.end()


@pytest.mark.parametrize("wider", WIDER)
async def test_a_tenant_cannot_widen_what_its_agent_may_do(wider: dict[str, Any]) -> None:
    async with servers(None, silent) as there, line(there.port(0), BOLT) as bolt:
        code, message = await bolt.refused("session", op="new", agent="fake", cwd="/", **wider)
    assert code == "bad_request"
    assert next(iter(wider)) in message


async def test_a_tenant_can_have_the_files_ignored() -> None:
    async with servers(None, silent) as there, line(there.port(0), BOLT) as bolt:
        assert await bolt.ok("session", op="new", agent="fake", cwd="/", trust="no")
