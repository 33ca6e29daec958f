"""What every supported version of Claude Code does at the start, and that it is what it is.

Turns of all versions are in `test_claude_background.py` and `test_claude_programs.py`.
"""

from __future__ import annotations

import pytest
import trio

import agentrt
from claude.test_handshake import OLDEST

from .lab import Lab
from .recipes import CLAUDES, OLDER_CLAUDES
from .story import agent_of, session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", CLAUDES)]

PATIENCE = 120.0


async def test_a_supported_version_is_known_and_not_warned_of(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run("Please [[text]]")
            version = session.agent.version
    assert version is not None
    assert lab.agent in ("claude", f"claude-{version}")
    assert OLDER_CLAUDES[0] == OLDEST
    assert story.notices("version") == []


async def test_claude_code_is_refused_where_the_older_dialect_is_spoken(lab: Lab) -> None:
    """It would ignore every answer."""
    agent = agentrt.agents.claude(lab.argv, legacy=True)
    opening = agentrt.open_session(agent, cwd=lab.work, env=lab.env, permissions=agentrt.allow_all)
    with trio.fail_after(PATIENCE):
        async with opening as session:
            result = await session.run("Please [[shell]]", check=False)
    assert result.outcome == "failed"
    assert result.error is not None
    assert result.error.code == "wrong_dialect"
    assert not (lab.work / "ran.txt").exists()


async def test_a_missing_login_is_reported_at_the_start(lab: Lab) -> None:
    env = {name: value for name, value in lab.env.items() if name != "ANTHROPIC_API_KEY"}
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(agent_of(lab), cwd=lab.work, env=env) as session:
            told = session.subscribe(after=0)
            result = await session.run("Please [[text]]", check=False)
    notices = [event async for event in told if isinstance(event, agentrt.Notice)]
    assert [notice.code for notice in notices if notice.level == "warning"] == ["auth_required"]
    assert result.outcome == "failed"
