"""The catalogue, and finding agents on this machine."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agentrt.agents import (
    BUILT_IN,
    Agent,
    FoundAgent,
    Quirks,
    acp,
    agent_version,
    claude,
    find_agents,
    resolve_agent,
)
from agentrt.config import Config
from agentrt.errors import AgentNotFound


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing installed; programs go to the folder that is returned."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return programs


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def found(name: str, config: Config | None = None) -> FoundAgent:
    return next(found for found in find_agents(config) if found.agent.name == name)


def test_the_catalogue_says_of_each_agent_how_to_get_it() -> None:
    for agent in BUILT_IN.values():
        assert agent.title
        assert agent.install
        assert agent.docs or agent.name == "demo"
        assert not {"npx", "uvx", "bunx"} & {agent.command[0]}, "would download by surprise"


def test_no_two_agents_share_a_name() -> None:
    names = [name for agent in BUILT_IN.values() for name in (agent.name, *agent.aliases)]
    assert len(names) == len(set(names))


def test_on_an_empty_machine_only_the_demo_agent_is_there() -> None:
    assert [found.agent.name for found in find_agents() if found.available] == ["demo"]
    assert resolve_agent("demo").command == (sys.executable, "-P", "-m", "agentrt.demo")


def test_a_program_is_found_on_the_path(machine: Path) -> None:
    gemini = program(machine / "gemini")
    assert resolve_agent("gemini").command == (str(gemini), "--acp")
    assert resolve_agent("gemini-cli").name == "gemini"
    assert found("gemini").path == str(gemini)


def test_another_command_of_the_same_agent_is_found(machine: Path) -> None:
    kiro = program(machine / "kiro-cli")
    assert resolve_agent("kiro").command == (str(kiro), "acp")
    chat = program(machine / "kiro-cli-chat")
    assert resolve_agent("kiro").command == (str(chat), "acp")


def test_two_agents_of_one_name_are_distinguished_by_where_they_are(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = machine.parent / "node_modules"
    monkeypatch.setenv("PATH", f"{machine}:{modules / '.bin'}")
    (modules / ".bin").mkdir(parents=True)
    zed = program(modules / "@zed-industries" / "codex-acp" / "codex-acp.js")
    official = program(modules / "@agentclientprotocol" / "codex-acp" / "index.js")
    (machine / "codex-acp").symlink_to(zed)
    assert not found("codex-acp").available
    (modules / ".bin" / "codex-acp").symlink_to(official)
    assert found("codex-acp").path == str(modules / ".bin" / "codex-acp")
    assert found("codex-acp-zed").path == str(machine / "codex-acp")


def test_claude_is_found_in_the_python_sdk_and_where_its_installers_put_it(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = program(tmp_path / "home" / ".claude" / "local" / "claude")
    assert resolve_agent("claude").command == (str(old),)
    native = program(tmp_path / "home" / ".local" / "bin" / "claude")
    assert resolve_agent("claude").command == (str(native),)

    spec = importlib.machinery.ModuleSpec("claude_agent_sdk", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "claude_agent_sdk")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    bundled = program(tmp_path / "claude_agent_sdk" / "_bundled" / "claude")
    assert resolve_agent("claude").command == (str(bundled),)

    on_path = program(machine / "claude")
    assert resolve_agent("claude").command == (str(on_path),)


def test_a_relative_command_is_meant_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = program(tmp_path / "own" / "agent")
    assert resolve_agent(acp("own/agent --acp")).command == (str(own), "--acp")


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(AgentNotFound, match=r"no agent is called 'gemin'; did you mean 'gemini'"):
        resolve_agent("gemin")
    with pytest.raises(AgentNotFound, match=r"known: claude, .*, demo"):
        resolve_agent("xyzzy")


def test_a_missing_program_is_answered_with_how_to_get_it() -> None:
    with pytest.raises(AgentNotFound, match="To get it: npm install -g @google/gemini-cli"):
        resolve_agent("gemini")
    with pytest.raises(AgentNotFound, match=r"'nowhere' was not found\.$"):
        resolve_agent(acp("nowhere"))


def test_the_users_own_agents_come_first_and_win(machine: Path) -> None:
    program(machine / "mine")
    program(machine / "gemini")
    own = {"gemini": acp("mine", name="gemini"), "mine": acp("mine")}
    config = Config(agents=own)
    assert [found.agent.name for found in find_agents(config)][:2] == ["gemini", "mine"]
    assert len(find_agents(config)) == len(BUILT_IN) + 1
    assert resolve_agent("gemini", config).command == (str(machine / "mine"),)


def test_an_agent_of_ones_own_is_made_of_a_command() -> None:
    quirks = Quirks(cancel_grace_s=1.0)
    agent = acp("run 'my agent' --acp", env={"A": "b"}, unset_env=["C"], quirks=quirks)
    assert agent == Agent(
        name="run",
        command=("run", "my agent", "--acp"),
        env={"A": "b"},
        unset_env=("C",),
        quirks=quirks,
    )
    assert acp(["/opt/my agent"], name="mine").command == ("/opt/my agent",)
    for empty in ("", (), [""]):
        with pytest.raises(ValueError, match="empty"):
            acp(empty)


def test_claude_code_takes_its_options_by_name() -> None:
    agent = claude(model="opus", allowed_tools=["Read"], env={"A": "b"})
    assert (agent.protocol, agent.command) == ("claude", ("claude",))
    assert agent.env == {"A": "b"}
    assert agent.claude is not None
    assert (agent.claude.model, agent.claude.allowed_tools) == ("opus", ("Read",))
    for wrong in ({"modelname": "opus"}, {"model": 1}):
        with pytest.raises(ValueError, match="not an option of Claude Code"):
            claude(**wrong)


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("echo 1.2.3", "1.2.3"),
        ("echo 'GitHub Copilot CLI 1.0.102.'", "1.0.102"),
        ("echo 'tool v0.10.46-beta.1 (abc)'", "0.10.46-beta.1"),
        ("echo none", None),
        ("echo 1.2.3; exit 1", None),
        ("echo 1.2.3 >&2", None),
    ],
)
async def test_a_version_is_what_the_program_says(
    machine: Path, told: str, version: str | None
) -> None:
    agent = acp([str(program(machine / "agent", told))])
    with trio.fail_after(30):
        assert await agent_version(agent) == version


async def test_a_version_is_asked_for_in_the_agents_own_environment(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNWANTED", "9.9")
    path = program(machine / "agent", "echo $UNWANTED$WANTED")
    agent = acp([str(path)], env={"WANTED": "1.0"}, unset_env=["UNWANTED"])
    assert await agent_version(agent) == "1.0"


async def test_a_program_that_is_not_there_has_no_version() -> None:
    assert await agent_version(acp("/nowhere/agent")) is None


@pytest.mark.slow
async def test_a_program_that_says_nothing_is_killed_with_all_it_started(
    machine: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    mock_clock.rate = 50  # it waits for 10 s
    monkeypatch.setenv("PATH", f"{machine}:{os.defpath}")
    agent = acp([str(program(machine / "agent", "sleep 300 & sleep 300"))])
    with trio.fail_after(1500):
        assert await agent_version(agent) is None
