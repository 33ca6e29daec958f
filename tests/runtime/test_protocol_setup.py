"""What a session is opened with, by the agent's peculiarities and the caller's wishes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import agentrt
from agentrt.agents import Quirks
from agentrt.hosting import limits_for

SLOW = agentrt.agents.acp(["slow"], quirks=Quirks(stdin_close_grace_s=8.0, resend_cancel=True))


def test_an_agent_s_peculiarities_change_the_usual_bounds() -> None:
    limits = limits_for(SLOW)
    assert (limits.stdin_close_grace_s, limits.cancel_resend_s) == (8.0, 0.5)


def test_what_the_caller_chose_is_left_alone() -> None:
    limits = limits_for(SLOW, agentrt.Limits(stdin_close_grace_s=1.0, turn_timeout_s=60.0))
    assert (limits.stdin_close_grace_s, limits.turn_timeout_s, limits.cancel_resend_s) == (
        1.0,
        60.0,
        0.5,
    )


def test_an_agent_that_does_not_leave_at_the_end_of_its_input_is_not_waited_for() -> None:
    unresponsive = agentrt.agents.acp(["unresponsive"], quirks=Quirks(eof_exits=False))
    assert limits_for(unresponsive).stdin_close_grace_s < agentrt.Limits().stdin_close_grace_s


async def test_hooks_for_an_agent_that_has_none_are_refused() -> None:
    @agentrt.hook("Stop")
    async def never(input: object) -> None:
        return None

    agent = agentrt.agents.acp([sys.executable])
    with pytest.raises(agentrt.LocalProtocolError, match="no hooks"):
        async with agentrt.open_session(agent, hooks=[never]):
            pass


async def test_an_option_that_claude_does_not_have_is_refused_before_anything_is_started(
    tmp_path: Path,
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho >{tmp_path}/started\n")
    program.chmod(0o755)
    with pytest.raises(ValueError, match="not an option of Claude Code"):
        async with agentrt.open_session(agentrt.agents.claude(program), options={"colour": "red"}):
            pass
    assert not (tmp_path / "started").exists()
