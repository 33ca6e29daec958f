"""The tool by which a model asks for access, over a Unix socket and over HTTP inside a sandbox."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import agentrt
from agentrt import Agent, PermissionOpened, open_session, rules
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


def calling(**arguments: object) -> str:
    return f"tool request_access {json.dumps(arguments)}"


@pytest.mark.parametrize("by", ["socket", "http"])
async def test_tools_work_without_a_network(by: str, shell_agent: Agent, project: Path) -> None:
    @agentrt.tool
    async def double(number: int) -> str:
        """Double a number."""
        return str(2 * number)

    env = {**os.environ, "MCP_HTTP": "1" if by == "http" else ""}
    sandbox = Sandbox(read=[str(HERE)], network="none")
    async with open_session(
        shell_agent, cwd=project, env=env, sandbox=sandbox, tools=[double]
    ) as session:
        assert (await session.run('tool double {"number": 21}')).text == "42"
        session.set_tools([])
        said = (await session.run(calling(host="a.example"))).text
        assert said == "refused: a.example:443 is not allowed: this session has no network"


async def test_the_model_asks_for_a_folder_with_its_reason(
    shell_agent: Agent, project: Path
) -> None:
    outside = project.parent / "neighbour"
    sandbox = Sandbox(read=[str(HERE)])
    asked = []
    async with open_session(
        shell_agent, cwd=project, sandbox=sandbox, permissions=agentrt.ask
    ) as session:
        prompt = calling(path=str(outside), write=True, why="the build needs it")
        async with session.prompt(prompt) as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    asked.append(event.detail)
                    turn.answer(event, "session")
        assert turn.result.text == f"{outside} can be written now"
        assert (await session.run(f"shell echo hi > {outside}/new")).text == ""
        assert (await session.run(calling(path=str(outside)))).text == f"{outside} can be read now"
        for path in ("relative", "/proc/1", "/nowhere/x", ""):
            said = (await session.run(calling(path=path, write=True))).text
            assert said.startswith(("refused: ", "nothing was requested"))
    given = {"path": str(outside), "reason": "the build needs it"}
    assert asked == [{"tool": "Write", "input": given}]
    assert (outside / "new").read_text() == "hi\n"


async def test_a_host_that_is_allowed_once_is_for_the_next_connection(
    shell_agent: Agent, project: Path
) -> None:
    policy = rules(allow=["Network(new.invalid)"])
    async with open_session(
        shell_agent, cwd=project, sandbox=Sandbox(read=[str(HERE)]), permissions=policy
    ) as session:
        said = (await session.run(calling(host="new.invalid:80"))).text
        assert said == "new.invalid:80 can be reached now"
        assert (await session.run(calling(host="a b"))).text.startswith("refused: ")
        assert (await session.run(calling(host="other.invalid"))).text.startswith("refused: ")


async def test_a_rule_can_take_the_tool_away(shell_agent: Agent, project: Path) -> None:
    policy = rules(deny=["mcp__agentrt__request_access"], otherwise=agentrt.allow_all)
    async with open_session(
        shell_agent, cwd=project, sandbox=Sandbox(read=[str(HERE)]), permissions=policy
    ) as session:
        said = (await session.run(calling(path="/root"))).text
    assert "Denied by the rule" in said
