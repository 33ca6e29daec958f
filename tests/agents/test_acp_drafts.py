"""Drafts of ACP without a method in agentrt, by raw calls to the agents that offer them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import trio

from .lab import Lab, model_server, prepare
from .story import session_with

pytestmark = [pytest.mark.real_agent]


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp"])
async def test_the_providers_are_listed_by_a_raw_call(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            found = await session.call("providers/list")
    assert isinstance(found["providers"], list)


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
