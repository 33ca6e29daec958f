"""Drafts of ACP, with the agents that offer them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import trio

from agentrt.agents import ProviderSetting
from agentrt.errors import RequestError

from .expectations import EXPECTATIONS
from .lab import Lab, model_server, prepare
from .story import session_with
from .versions import PACKAGES

pytestmark = [pytest.mark.real_agent]


VERSIONS = pytest.mark.parametrize("version", [1, 2])
PROVIDERS = {
    "claude-agent-acp": ("main", "anthropic", ""),
    "codex-acp": ("openai", "openai", "/v1"),
}
"""The provider of each agent, its API, and the path of its address."""


def gateway(agent: str, url: str) -> ProviderSetting:
    id, api, path = PROVIDERS[agent]
    return ProviderSetting(id=id, api_type=api, base_url=url + path, headers={"X-Gate": SECRET})


SECRET = "the-key-of-the-gateway"


@VERSIONS
@pytest.mark.parametrize("agent", list(PROVIDERS))
async def test_a_provider_is_listed_set_and_disabled(
    agent: str, version: Literal[1, 2], installed: Path, tmp_path: Path
) -> None:
    with model_server(tmp_path) as model, model_server(tmp_path_of(tmp_path, "other")) as other:
        lab = replace(prepare(agent, model, installed, tmp_path), acp_version=version)
        setting = gateway(agent, other.url)
        with trio.fail_after(240):
            async with session_with(lab, providers=[setting], trace=tmp_path / "t") as (session, _):
                (shown,) = await session.list_providers()
                assert (shown.id, shown.base_url) == (setting.id, setting.base_url)
                assert setting.api_type in shown.api_types
                assert (await session.run("Please [[text]]")).outcome == "completed"
                assert (len(model.asks()), len(other.asks())) == (0, 1)
                session.cancel(now=True)  # the next process gets it, too
                assert (await session.run("Please [[text]]")).outcome == "completed"
                assert not model.asks()
                if agent == "codex-acp":  # its sessions cannot change their provider
                    with pytest.raises(RequestError, match="resume"):
                        await session.set_provider(ProviderSetting(id=setting.id))
                else:
                    await session.set_provider(ProviderSetting(id=setting.id))
                    (shown,) = await session.list_providers()
                    assert shown.base_url != setting.base_url
                    assert (await session.run("Please [[text]]")).outcome == "completed"
                    assert model.asks()
                log = repr(session.snapshot())
    assert SECRET not in log
    assert SECRET not in (tmp_path / "t").read_text()


def tmp_path_of(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


@pytest.mark.parametrize("agent", ["codex-acp"])
async def test_a_title_is_in_the_agents_own_list(lab: Lab) -> None:
    with trio.fail_after(120):
        async with session_with(lab) as (session, _):
            session.rename("Mine")
            assert (await session.run("Please [[text]]")).outcome == "completed"
            mine = [e for e in await session.list_sessions() if e.id == session.agent_session]
            assert [each.title for each in mine] == ["Mine"]


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
