"""Rules about tools: the names that each agent has for them, and the program's own tools.

Rules get requests as each protocol words them, without a session for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentrt
from agentrt._core.permissions.rules import PermissionRule
from agentrt._core.permissions.standing import OwnTools
from agentrt._core.permissions.words import CLAUDE_TOOLS, PLANNING_TOOLS, PROGRAMS
from agentrt.events import Notice
from agentrt.permissions import PermissionRequest
from agentrt.testing import FakeAgent, FakeClaudeAgent, ask_policy, says, scripted_agents
from tables import for_each

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


CLAUDE = {"tool": "mcp__agentrt__greet", "input": {"name": "Ann"}}
ARGUMENTS = {"name": "Ann"}
REQUESTS: dict[str, dict[str, Any]] = {
    "claude": {
        **CLAUDE,
        "title": "greet (agentrt)",
        "raw": {"mcp_server": {"name": "agentrt", "source": "sdk"}},
    },
    "claude-agent-acp": {**CLAUDE, "title": "mcp__agentrt__greet"},
    "gemini": {"title": "greet (agentrt MCP Server)"},
    "kimi": {"title": "mcp__agentrt__greet"},
    "codex-acp": {
        "title": "mcp.agentrt.greet",
        "kind": "execute",
        "input": {"server": "agentrt", "tool": "greet", "arguments": ARGUMENTS},
        "raw": {"_meta": {"is_mcp_tool_approval": True}},
    },
    "codex-acp-zed": {
        "title": "Approve MCP tool call",
        "input": {
            "server_name": "agentrt",
            "request": {
                "message": 'Allow the agentrt MCP server to run tool "greet"?',
                "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": ARGUMENTS},
            },
        },
    },
    "vibe": {"tool": "mcp_agentrt.greet", "title": "mcp_agentrt.greet", "input": ARGUMENTS},
}
"""Requests about the tool `greet`, as each agent words them (recorded)."""


@agentrt.tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


def asked(**fields: Any) -> PermissionRequest:
    return PermissionRequest(**{"title": "", "cwd": "/shop", **fields})


def own(policy: agentrt.Policy | None = None) -> OwnTools:
    return OwnTools(["greet"], policy=policy, kind_holds=True)


@for_each("agent", REQUESTS)
@for_each("policy", [None, agentrt.deny_all, agentrt.ask, lambda request: 1 / 0])
def test_an_own_tool_is_allowed_whatever_the_policy_says_of_other_requests(
    agent: str, policy: agentrt.Policy | None
) -> None:
    assert own(policy).decide(asked(**REQUESTS[agent])) == agentrt.Allow()


@for_each("agent", REQUESTS)
@for_each("rule", [greet, "greet", "mcp__agentrt__greet", "mcp__agentrt__*", "*"])
def test_a_rule_denies_an_own_tool_for_every_agent(agent: str, rule: Any) -> None:
    tools = own(agentrt.rules(deny=[rule], otherwise=agentrt.allow_all))
    assert isinstance(tools.decide(asked(**REQUESTS[agent])), agentrt.Deny)
    assert "Denied by the rule" in str(tools.refusal("greet", ARGUMENTS))


@pytest.mark.parametrize("agent", REQUESTS)
def test_a_rule_has_an_own_tool_asked_and_the_call_runs_after_the_answer(agent: str) -> None:
    tools = own(agentrt.rules(ask=[greet]))
    assert "did not ask" in str(tools.refusal("greet", ARGUMENTS))
    assert tools.decide(asked(**REQUESTS[agent])) == agentrt.permissions.Ask()
    assert tools.refusal("greet", ARGUMENTS) is None


def test_rules_about_other_things_are_not_about_an_own_tool() -> None:
    policy = agentrt.rules(
        deny=["Bash", "Edit(/etc/**)", "mcp__other__*", "greeting"], ask=["Read"]
    )
    tools = own(policy)
    given = {"command": "rm x", "path": "/etc/passwd"}
    assert tools.decide(asked(tool="mcp__agentrt__greet", input=given)) == agentrt.Allow()
    assert tools.refusal("greet", given) is None


def test_rules_inside_of_rules_count() -> None:
    inner = agentrt.rules(deny=[greet])
    tools = own(agentrt.rules(allow=["Read"], otherwise=inner))
    assert isinstance(tools.decide(asked(**REQUESTS["claude"])), agentrt.Deny)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool": "mcp__other__greet"},
        {"tool": "mcp__agentrt__other"},
        {"tool": "Bash", "title": "greet (agentrt MCP Server)", "input": {"command": "rm x"}},
        {"tool": "", "title": "greet (agentrt MCP Server)", "kind": "execute"},
        {"tool": "", "title": "mcp__agentrt__greet", "input": {"command": "rm x"}},
        {"tool": "", "title": "greet"},
        {"tool": "", "title": "greet (agentrt MCP Server) "},
        {"tool": "greet"},
        {"input": {"server": "agentrt", "tool": "greet", "arguments": {}}},
        {"tool": "mcp__agentrt__greet", "raw": {"mcp_server": {"source": "project"}}},
    ],
)
def test_nothing_else_is_taken_for_an_own_tool(fields: dict[str, Any]) -> None:
    assert own().decide(asked(**fields)) is None


def test_a_title_counts_only_where_the_agents_program_chooses_it() -> None:
    tools = OwnTools(["greet"], kind_holds=False)
    assert tools.decide(asked(title="greet (agentrt MCP Server)")) is None


def test_a_bare_function_is_not_a_rule() -> None:
    def plain() -> None: ...

    with pytest.raises(ValueError, match=r"bare function.*@agentrt\.tool"):
        agentrt.rules(allow=[plain])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must be a list"):
        agentrt.rules(allow=greet)  # type: ignore[arg-type]


Script = Callable[[FakeAgent], Awaitable[None]]


async def calls(agent: FakeAgent) -> None:
    async for prompt in agent.prompts:
        answer = await agent.call_tool("greet", name="Ann")  # type: ignore[union-attr]
        agent.say(answer.text)
        prompt.end()


DENIED = agentrt.rules(deny=[greet], otherwise=agentrt.allow_all)


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_the_kit_calls_an_own_tool_as_the_real_agent_does(agent: str) -> None:
    for policy, said in ((agentrt.deny_all, "hello Ann"), (DENIED, "enied")):
        with scripted_agents({agent: calls}):
            async with agentrt.open_session(agent, tools=[greet], permissions=policy) as session:
                assert said in (await session.run("go")).text


async def test_the_kit_s_claude_asks_before_it_calls_an_own_tool() -> None:
    async def script(agent: FakeClaudeAgent) -> None:
        await calls(agent)

    with scripted_agents({"claude": script}) as agents:  # type: ignore[dict-item]
        async with agentrt.open_session("claude", tools=[greet]) as session:
            assert (await session.run("go")).text == "hello Ann"
    [question] = agents.session.questions
    assert "greet" in question.opened.title
    assert question.allowed


@pytest.mark.slow
async def test_the_demo_agent_asks_as_well() -> None:
    for policy, said in ((agentrt.deny_all, "completed"), (DENIED, "did not allow")):
        async with agentrt.open_session("demo", tools=[greet], permissions=policy) as session:
            result = await session.run('/tool greet {"name": "Ann"}')
            assert said in result.text


async def test_a_policy_is_asked_about_an_own_tool_as_in_a_session() -> None:
    assert await ask_policy(agentrt.deny_all, greet, name="Ann") == agentrt.Allow()
    assert isinstance(await ask_policy(DENIED, greet, name="Ann"), agentrt.Deny)
