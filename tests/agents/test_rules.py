"""Permission rules on real agents: what they deny does not happen, however it is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Edit, Shell, Step, Text, prompt_for
from .story import session_with

sys.path.append(str(Path(__file__).parents[1] / "permissions"))

from spellings import LIKE_GIT_STATUS, QUICK, REMOVING

DOCUMENT = Path(__file__).parents[2] / "docs/guides/permissions.md"
FULL = "AGENTRT_FULL" in os.environ
AGENTS = ["claude", "codex", "gemini", "codex-acp-zed"]
if FULL:
    AGENTS += ["codex-acp", "qwen", "kimi", "opencode", "claude-agent-acp"]
PATIENCE = 600.0 if FULL else 90.0

TELLS_NO_COMMAND = {"gemini", "kimi"}
"""Agents of which no rule can allow a command."""

UNASKED = {"opencode": ["{rm,victim}"]}
"""Lines that an agent runs without asking, in every mode; `doctor` and each start tell of it."""

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", AGENTS)]


async def try_each(lab: Lab, policy: agentrt.Policy, steps: list[Step], clear: str) -> list[str]:
    """Have the model call for each step, a prompt for each; those after which the file `clear` was
    not as before."""
    happened: list[str] = []
    trace = lab.work / clear
    there = trace.exists()
    with trio.fail_after(PATIENCE):
        # Gemini creates no file through its client: it takes the answer "not found" for a failure.
        async with session_with(lab, permissions=policy, files=False) as (session, _):
            for step in steps:
                await session.run(prompt_for([[step], [Text("Done.")]]), check=False)
                if trace.exists() != there:
                    happened.append(str(step))
                    trace.touch() if there else trace.unlink()
    return happened


async def test_what_is_denied_does_not_happen_in_any_spelling(lab: Lab) -> None:
    (lab.work / "victim").touch()
    (lab.work / "it.txt").write_text("a line\n")
    policy = agentrt.rules(deny=["Bash(rm:*)"], otherwise=agentrt.allow_all)
    steps: list[Step] = [Shell(line) for line in (REMOVING if FULL else QUICK)]
    unasked = [str(Shell(line)) for line in UNASKED.get(lab.agent, ()) if FULL]
    assert await try_each(lab, policy, steps, "victim") == unasked


async def test_without_the_rule_it_happens(lab: Lab) -> None:
    (lab.work / "victim").touch()
    happened = await try_each(lab, agentrt.allow_all, [Shell("rm victim")], "victim")
    assert len(happened) == 1


async def test_what_is_not_denied_happens(lab: Lab) -> None:
    policy = agentrt.rules(deny=["Bash(rm:*)"], otherwise=agentrt.allow_all)
    steps: list[Step] = [Shell("echo one > ran"), Shell("true && touch ran")]
    assert len(await try_each(lab, policy, steps, "ran")) == 2


async def test_nothing_but_what_is_allowed_happens(lab: Lab) -> None:
    policy = agentrt.rules(allow=["Bash(git status:*)"])
    lines = LIKE_GIT_STATUS if FULL else LIKE_GIT_STATUS[::6]
    assert await try_each(lab, policy, [Shell(line) for line in lines], "ran") == []


async def test_what_is_allowed_happens(lab: Lab) -> None:
    policy = agentrt.rules(allow=["Bash(touch ran:*)"])
    happened = await try_each(lab, policy, [Shell("touch ran"), Shell("touch ran other")], "ran")
    assert len(happened) == (0 if lab.agent in TELLS_NO_COMMAND else 2)


async def test_the_documentation_says_what_its_requests_answer(lab: Lab) -> None:
    told: dict[str, agentrt.PermissionRequest] = {}

    def listen(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        told[request.kind] = request
        return agentrt.Allow()

    command, new = "echo one > ran", lab.work / "new.txt"
    await try_each(lab, listen, [Shell(command), Edit(str(new), "text\n")], "nothing")
    ran, edited = told["execute"], told["edit"]
    where = "input" if ran.command == command else _where(ran, command)
    paths = (*edited.changes, *edited.paths)
    row = [f"`{lab.agent}`", where, _yes(str(new) in paths), _yes(bool(ran.tool))]
    assert f"| {' | '.join(row)} |" in DOCUMENT.read_text()


def _where(request: agentrt.PermissionRequest, command: str) -> str:
    if request.title == command:
        return "title"
    return "text" if command in str(request.raw["toolCall"].get("content")) else "no"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


async def test_a_change_of_a_file_is_an_edit(lab: Lab) -> None:
    new = str(lab.work / "new.txt")
    steps: list[Step] = [Edit(new, "text\n")]
    denied = agentrt.rules(deny=["Edit(*.txt)"], otherwise=agentrt.allow_all)
    assert await try_each(lab, denied, steps, "new.txt") == []
    elsewhere = agentrt.rules(deny=["Edit(*.md)", "Bash(rm:*)"], otherwise=agentrt.allow_all)
    expected = 0 if lab.agent == "kimi" else 1  # which does not say what it writes
    assert len(await try_each(lab, elsewhere, steps, "new.txt")) == expected


async def test_an_edit_may_be_allowed_by_its_path(lab: Lab) -> None:
    steps: list[Step] = [Edit(str(lab.work / name), "text\n") for name in ("a.md", "new.txt")]
    allowed = agentrt.rules(allow=["Edit(*.txt)"])
    expected = 0 if lab.agent == "kimi" else 1
    assert len(await try_each(lab, allowed, steps, "new.txt")) == expected
    assert not (lab.work / "a.md").exists()
