"""Drafts of ACP without a method in agentrt, by raw calls to the agents that offer them."""

from __future__ import annotations

import pytest
import trio

from .lab import Lab
from .story import session_with

pytestmark = [pytest.mark.real_agent]


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp"])
async def test_the_providers_are_listed_by_a_raw_call(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            found = await session.call("providers/list")
    assert isinstance(found["providers"], list)
