"""Files that an agent would act on without asking are empty in its sandbox until trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

import agentrt
from agentrt import Agent
from agentrt.errors import FolderNotTrusted, SandboxUnavailable
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(read=[str(HERE)])

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

FILES = {
    "opencode": {"opencode.json": '{"plugin": ["STRANGER"]}', ".opencode/plugin/x.ts": "STRANGER"},
    "copilot": {".github/hooks/x.json": "STRANGER"},
    "codex-acp": {".codex/config.toml": "STRANGER", ".codex/rules/x.rules": "STRANGER"},
    "mine": {".cursor/mcp.json": "STRANGER", ".mcp.json": "STRANGER"},
}
"""Agents that are not started without a sandbox, or whose use of such files is unknown."""


def put(project: Path, agent: str) -> None:
    for name, text in FILES[agent].items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


@pytest.mark.parametrize("agent", FILES)
async def test_an_agent_is_started_without_the_files(
    agent: str, shell_agent: Agent, project: Path
) -> None:
    put(project, agent)
    named = structs.replace(shell_agent, name=agent)
    async with agentrt.open_session(named, cwd=project, sandbox=SANDBOX) as session:
        shown = (await session.run(f"shell cat {' '.join(FILES[agent])}")).text
        notices = [each for each in session.log.since(0) if isinstance(each, agentrt.Notice)]
    assert "STRANGER" not in shown
    assert "Permission denied" not in shown
    [told] = [each for each in notices if each.code == "folder_not_trusted"]
    assert told.message.startswith("the sandbox hides ")
    for name, text in FILES[agent].items():
        assert (project / name).read_text() == text


@pytest.mark.parametrize("agent", FILES)
async def test_a_trusted_folder_shows_them(agent: str, shell_agent: Agent, project: Path) -> None:
    put(project, agent)
    named = structs.replace(shell_agent, name=agent)
    async with agentrt.open_session(named, cwd=project, sandbox=SANDBOX, trust="yes") as session:
        shown = (await session.run(f"shell cat {' '.join(FILES[agent])}")).text
    assert shown.count("STRANGER") == len(FILES[agent])


async def test_a_link_to_such_a_file_starts_no_agent(
    shell_agent: Agent, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".opencode").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "opencode.json").write_text('{"plugin": []}')
    named = structs.replace(shell_agent, name="opencode")
    with pytest.raises(SandboxUnavailable, match="is a link"):
        async with agentrt.open_session(named, cwd=project, sandbox=SANDBOX):
            pass
    with pytest.raises(FolderNotTrusted):
        async with agentrt.open_session(named, cwd=project):
            pass
