"""`agentrt new`: a small project with a program, its tests and its permission rules.

The three texts are complete files, in which only names are replaced. They are short on purpose:
each shows one thing that a first program needs, and the tests show how to test it without an agent.
No existing file is overwritten, and nothing is written if one of them exists.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Final

from ...agents import Agent, find_agents
from ...config import Config
from ...permissions import unreachable_rule
from ..exit_status import UsageError
from ..options import Work
from ..text import one_line

PROGRAM: Final = '''\
"""Send one prompt to an agent, with a tool, permission rules and a deadline.

Run it with: python main.py "Which functions have no test?"
"""

import sys
import tomllib
from pathlib import Path

import agentrt
import trio

AGENT = @AGENT@
DEADLINE_S = 600
RULES = Path(__file__).with_name("rules.toml")


async def run(prompt: str, folder: str = ".") -> tuple[agentrt.TurnResult, list[str]]:
    """Run the prompt in a folder. Returns the result of the turn, and the findings."""
    findings: list[str] = []

    @agentrt.tool
    async def save_finding(text: str) -> str:
        """Save one finding for the report."""
        findings.append(text)
        return "saved"

    permissions = agentrt.rules(**tomllib.loads(RULES.read_text()))
    async with agentrt.open_session(
        AGENT, cwd=folder, tools=[save_finding], permissions=permissions
    ) as session:
        with trio.move_on_after(DEADLINE_S):  # cancels the turn
            async with session.prompt(prompt, check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        print(event.text, end="", flush=True)
    return turn.result, findings


async def main(prompt: str) -> int:
    result, findings = await run(prompt)
    print(f"\\n-- {result.outcome}")
    for denial in result.denials:
        print(f"denied: {denial.title}")
    for finding in findings:
        print(f"finding: {finding}")
    return 0 if result.outcome == "completed" else 1


if __name__ == "__main__":
    sys.exit(trio.run(main, " ".join(sys.argv[1:]) or "What is in this folder?"))
'''

TESTS: Final = '''\
"""Tests of main.py. A script replaces the agent, so they need no agent, no model and no network."""

import trio
from agentrt.testing import FakeAgent, ScriptedAgents, says

import main


async def test_the_answer_is_returned(scripted_agents: ScriptedAgents) -> None:
    scripted_agents[main.AGENT] = says("All functions have tests.")
    result, findings = await main.run("Which functions have no test?")
    assert (result.outcome, result.text) == ("completed", "All functions have tests.")
    assert findings == []


async def test_a_denied_command_does_not_run(scripted_agents: ScriptedAgents) -> None:
    async def script(agent: FakeAgent) -> None:
        async for prompt in agent.prompts:
            agent.use("call_1", "rm -rf build")
            await agent.ask("call_1", "rm -rf build")
            prompt.end()

    scripted_agents[main.AGENT] = script
    result, _ = await main.run("Clean up.")
    [question] = scripted_agents.session.questions
    assert not question.allowed
    assert [denial.title for denial in result.denials] == ["rm -rf build"]


async def test_the_deadline_ends_the_turn(
    scripted_agents: ScriptedAgents, autojump_clock: trio.testing.MockClock
) -> None:
    async def silent(agent: FakeAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    scripted_agents[main.AGENT] = silent
    result, _ = await main.run("Wait.")
    assert result.outcome == "cancelled"
'''

PROJECT: Final = """\
[project]
name = @NAME@
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["agentrt"]

[project.optional-dependencies]
test = ["pytest", "pytest-trio"]

[tool.pytest.ini_options]
trio_mode = true
pythonpath = ["."]
"""

ALLOW: Final = {
    "Read": "reading, listing and searching files of the folder",
    "Bash(git status:*)": "commands that begin with these words",
    "Bash(git diff:*)": "",
}
"""Rules of a new project that allow, each with its explanation."""
DENY: Final = {
    "Bash(rm:*)": "also as a part of a longer command",
    "Edit(.git/**)": "changes to these files",
}
"""Rules of a new project that deny."""


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` for an unknown agent, or if one of the
    files exists."""
    known = {each.agent.name: each.agent for each in find_agents(config)}
    name = options.agent or config.agent or "claude"
    if name not in known:
        raise UsageError(f"unknown agent {name!r}; see `agentrt agents`")
    folder = Path(options.folder).absolute()
    files = contents(folder.name, known[name])
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise UsageError(f"{folder / there[0]} exists; choose another folder, or move the file")
    return partial(create, folder, files)


async def create(folder: Path, files: dict[str, str]) -> int:
    """Write the files and print the next steps; returns the exit status.

    No file is overwritten.
    """
    try:
        write(folder, files)
    except OSError as error:
        print(f"agentrt: cannot write the project: {one_line(str(error), 1000)}", file=sys.stderr)
        return 1
    print(f"Created in {one_line(str(folder), 1000)}: {', '.join(files)}")
    print("\nRun its tests:  pip install pytest pytest-trio && python -m pytest")
    print('Run it:         python main.py "What is in this folder?"')
    return 0


def write(folder: Path, files: dict[str, str]) -> None:
    """Write new files into a folder. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)


def contents(name: str, agent: Agent) -> dict[str, str]:
    """Return the files of a new project in a folder of this name."""
    return {
        "main.py": PROGRAM.replace("@AGENT@", _quoted(agent.name)),
        "test_main.py": TESTS,
        "rules.toml": "".join(_rules(agent)),
        "pyproject.toml": PROJECT.replace("@NAME@", _quoted(_package_name(name))),
    }


def _rules(agent: Agent) -> list[str]:
    """Return the lines of the settings file for the permission rules.

    A rule that could never apply to the agent becomes a comment with the reason.
    """
    lines = [
        f"# Permission rules for {agent.title}. A request that matches no rule is rejected.\n",
        "# Try a rule: agentrt rules check 'Bash(rm:*)' 'make clean && rm -rf build'\n",
    ]
    for side, rules in (("allow", ALLOW), ("deny", DENY)):
        lines.append(f"\n{side} = [\n")
        for rule, about in rules.items():
            reason = unreachable_rule(rule, agent, denies=side == "deny")
            if reason is not None:
                lines.append(f"  # {_quoted(rule)} never applies to this agent: {reason}\n")
            else:
                lines.append(f"  {_quoted(rule)},{f'  # {about}' if about else ''}\n")
        lines.append("]\n")
    return lines


def _quoted(text: str) -> str:
    """Return a string that is the same in Python and in TOML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _package_name(folder: str) -> str:
    """Return a valid package name that resembles the name of a folder."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in folder.lower())
    return plain.strip("-") or "my-agent"
