"""Drafts of ACP without a method in agentrt, by raw calls to the agents that offer them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import trio

from .expectations import EXPECTATIONS
from .lab import Lab, model_server, prepare
from .story import session_with, until
from .versions import PACKAGES

pytestmark = [pytest.mark.real_agent]


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp"])
async def test_the_providers_are_listed_by_a_raw_call(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            found = await session.call("providers/list")
    assert isinstance(found["providers"], list)


@pytest.mark.parametrize("agent", ["codex-acp"])
async def test_the_agents_title_is_set_by_a_raw_call(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            mine = {"sessionId": session.agent_session, "title": "Mine"}
            await session.call("session/set_title", **mine)
            await until(lambda: session.title == "Mine")


OFFERED = {
    "claude-agent-acp": {"providers", "systemPrompt"},
    "codex-acp": {"providers", "systemPrompt", "title", "subagents"},
}
"""The drafts that an agent declares, apart from those of its own."""
DRAFTS = {"providers", "systemPrompt", "title", "subagents", "archive", "status", "inject"}


@pytest.mark.parametrize(
    "agent", [name for name in EXPECTATIONS if PACKAGES[name].protocol == "acp"]
)
async def test_an_agent_declares_the_drafts_that_the_table_says(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            declared = session.capabilities["agent"]
    names = {*declared, *declared.get("sessionCapabilities", {}), *declared.get("auth", {})}
    assert names & DRAFTS == OFFERED.get(lab.agent, set())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("agent", "option"),
    [
        ("claude-agent-acp", "system_prompt"),
        ("claude-agent-acp", "append_system_prompt"),
        ("codex-acp", "append_system_prompt"),
    ],
)
async def test_a_system_prompt_reaches_the_model(
    agent: str, option: str, version: Literal[1, 2], installed: Path, tmp_path: Path
) -> None:
    with model_server(tmp_path, bodies=True) as model:
        lab = replace(prepare(agent, model, installed, tmp_path), acp_version=version)
        prompt = {option: "Answer like a-cat-of-42."}
        with trio.fail_after(120):
            async with session_with(lab, options=prompt) as (session, _):
                result = await session.run("Please [[text]]")
        assert result.outcome == "completed"
        assert any("a-cat-of-42" in each for each in bodies(tmp_path))


def bodies(folder: Path) -> list[str]:
    """The bodies of the requests to the model."""
    return [each.read_text() for each in folder.glob("[0-9]*.json")]
