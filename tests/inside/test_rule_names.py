"""The names in rules: of actions, of tools, and of programs that were meant to be commands.

Every program and tool of the tables is tried in every spelling of a rule.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentrt
from agentrt._core.permissions.rules import PermissionRule
from agentrt._core.permissions.words import CLAUDE_TOOLS, PLANNING_TOOLS, PROGRAMS
from agentrt.events import Notice
from agentrt.testing import says, scripted_agents

PARAMETERS = st.lists(st.sampled_from(["push", "-rf", "*", "x/y", "--all"]), max_size=3)


@given(st.sampled_from(sorted(PROGRAMS)), PARAMETERS, st.sampled_from(["{} {}", "{}({})", "{}:{}"]))
def test_a_program_is_no_rule_and_the_error_has_one_that_is(
    program: str, words: list[str], shape: str
) -> None:
    """With arguments in every spelling; the rule in the error can be used as it is."""
    arguments = " ".join(words)
    text = shape.format(program, arguments) if arguments else program
    for side in ("allow", "deny", "ask"):
        with pytest.raises(ValueError, match="is not a permission rule") as raised:
            agentrt.rules(**{side: [text]})
    remedy = str(raised.value).partition("; write NAME or")[0]
    right = remedy[remedy.index(f"Bash({program}") :].partition(")")[0] + ")"
    if "*" not in arguments.rstrip("*: "):  # a rule has a * only at its end
        assert str(PermissionRule(right, denies=True)) == right


def test_no_name_of_a_tool_is_taken_for_a_program() -> None:
    for name in {*CLAUDE_TOOLS, *PLANNING_TOOLS}:
        assert PermissionRule(name).doubt == ""
    for name in ("mcp__app__deploy", "mcp__agentrt__rm", "save_note", "*", "Task"):
        assert PermissionRule(name).doubt == ""


@agentrt.tool
async def deploy() -> str:
    """Deploy."""
    return "done"


async def doubts(*rules: str) -> list[str]:
    policy = agentrt.rules(deny=rules)
    with scripted_agents({"claude": says("hello")}):
        async with agentrt.open_session("claude", permissions=policy, tools=[deploy]) as session:
            notices = [event for event in session.log.since(0) if isinstance(event, Notice)]
    return [notice.message for notice in notices if notice.code == "rule_doubtful"]


async def test_a_name_that_no_agent_is_known_to_have_is_reported_at_the_start() -> None:
    [doubt] = await doubts("frobnicate", "Bash(rm:*)", "mcp__app__deploy")
    assert "Bash(frobnicate:*)" in doubt


async def test_a_tool_of_the_program_is_not_reported() -> None:
    assert await doubts("deploy") == []
