"""One program, one tool, one policy: on real agents, in the test kit and on the demo agent."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

import agentrt
from agentrt.testing import FakeAgent, scripted_agents

from .lab import Lab
from .modelserver.scripts import Call, Text, prompt_for
from .story import session_with

AGENTS = ["claude", "codex", "gemini", "opencode"]
MORE = ["kimi", "claude-agent-acp", "codex-acp", "codex-acp-zed", "vibe"]


@agentrt.tool
async def save_note(text: str) -> str:
    """Keep a note for later."""
    notes.append(text)
    return f"kept: {text}"


notes: list[str] = []


def only_pytest(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
    if request.command is not None and request.command.startswith("pytest"):
        return agentrt.Allow()
    return agentrt.Deny("only tests are run")


POLICIES: dict[str, agentrt.Policy | None] = {
    "a function that knows of no tool": only_pytest,
    "deny all": agentrt.deny_all,
    "no policy": None,
    "a rule that allows it by its name": agentrt.rules(allow=["save_note"]),
    "a rule that allows the tool": agentrt.rules(allow=[save_note]),
    "a rule about something else": agentrt.rules(deny=["Bash", "Edit", "mcp__other__*"]),
    "a rule that denies it by its name": agentrt.rules(
        deny=["save_note"], otherwise=agentrt.allow_all
    ),
    "a rule that denies the tool": agentrt.rules(deny=[save_note], otherwise=agentrt.allow_all),
    "a rule that denies everything": agentrt.rules(deny=["*"], otherwise=agentrt.allow_all),
}
KEPT = {name: [] if "denies" in name else ["milk"] for name in POLICIES}


@pytest.fixture(autouse=True)
def no_notes() -> None:
    notes.clear()


@pytest.mark.real_agent
@pytest.mark.parametrize("agent", AGENTS + MORE)
async def test_a_program_s_own_tool_runs_on_a_real_agent_as_its_policy_says(lab: Lab) -> None:
    # Gemini offers MCP servers in trusted folders only.
    more = {"trust": "yes"} if lab.agent == "gemini" else {}
    prompt = prompt_for([[Call("save_note", {"text": "milk"})], [Text("Done.")]])
    found: dict[str, list[str]] = {}
    with trio.fail_after(300):
        for name, policy in POLICIES.items():
            notes.clear()
            opening = session_with(lab, permissions=policy, tools=[save_note], **more)
            async with opening as (session, _):
                await session.run(prompt, check=False)
            found[name] = notes.copy()
    assert found == KEPT


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_and_so_it_does_in_the_test_kit(agent: str, policy: str) -> None:
    async def script(fake: FakeAgent) -> None:
        async for prompt in fake.prompts:
            called: Any = fake
            await called.call_tool("save_note", text="milk")
            prompt.end()

    with scripted_agents({agent: script}):
        async with agentrt.open_session(
            agent, tools=[save_note], permissions=POLICIES[policy]
        ) as session:
            await session.run("go", check=False)
    assert notes == KEPT[policy]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
async def test_and_on_the_demo_agent(policy: str) -> None:
    command = (sys.executable, "-m", "agentrt.demo")
    async with agentrt.open_session(
        agentrt.agents.acp(command), tools=[save_note], permissions=POLICIES[policy]
    ) as session:
        await session.run('/tool save_note {"text": "milk"}', check=False)
    assert notes == KEPT[policy]
