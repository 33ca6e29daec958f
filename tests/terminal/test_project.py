"""`agentrt doctor --project`, and what the command line says of a folder that is not trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from in_process import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of agents, on a machine with a few agents that end at once."""
    project, home, programs = (tmp_path.resolve() / name for name in ("it", "home", "bin"))
    for folder in (project, home, programs):
        folder.mkdir()
    for name in ("gemini", "copilot", "opencode", "cursor-agent"):
        (programs / name).write_text("#!/bin/sh\necho started >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("AGENTRT_", "XDG_"))]:
        if not name.startswith(("AGENTRT_TEST_", "AGENTRT_GUARD")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.chdir(project)
    return project


def put(project: Path, *names: str) -> None:
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("{}")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["doctor", "--project", *arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_each_file_is_listed_with_its_effect_and_the_outcome(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(project, ".gemini/settings.json", ".github/hooks/x.json", ".cursor/mcp.json", "a/b")
    told = report(capsys, str(project / "a"))
    assert told["folder"] == str(project / "a")
    assert told["trusted"] is False
    agents = {each["name"]: each for each in told["agents"]}
    assert list(agents) == ["gemini", "opencode", "copilot", "cursor", "demo"]
    [file] = agents["gemini"]["files"]
    assert file["path"] == str(project / ".gemini" / "settings.json")
    assert "runs its hooks" in file["effect"]
    assert (file["outcome"], agents["gemini"]["starts"]) == ("ignored", True)
    assert "own tools" in agents["gemini"]["lost"]
    assert agents["copilot"]["starts"] is False
    assert ".github/hooks" in agents["copilot"]["reason"]
    assert [each["outcome"] for each in agents["cursor"]["files"]] == ["not started"]
    assert ".cursor/mcp.json" in agents["cursor"]["reason"]
    assert (agents["opencode"]["files"], agents["demo"]["files"]) == ([], [])


def test_in_a_trusted_folder_all_of_it_is_acted_on(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(project, ".gemini/settings.json", ".github/hooks/x.json")
    config = Path(os.environ["HOME"]) / ".config" / "agentrt" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"trusted = [{json.dumps(str(project))}]\n")
    told = report(capsys)
    assert told["trusted"] is True
    outcomes = [file["outcome"] for agent in told["agents"] for file in agent["files"]]
    assert outcomes == ["acted on", "acted on"]
    assert all(agent["starts"] for agent in told["agents"])


def test_people_are_told_the_same(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(project, ".gemini/settings.json", ".github/hooks/x.json")
    assert main(["doctor", "--project"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{project} is not trusted (to trust it, list it under `trusted`")
    assert "✓ gemini: the agent is started so that it ignores this file" in lines
    assert "✗ copilot: the agent is not started" in lines
    assert "✓ opencode: no file that it acts on" in lines


def test_a_folder_that_is_not_there_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--project", "nowhere"]) == 2
    assert "the folder 'nowhere' does not exist" in capsys.readouterr().err


# --- one prompt


def test_a_start_that_is_refused_says_how_to_trust_the_folder(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(project, ".github/hooks/x.json")
    assert main(["-p", "hi", "--agent", "copilot", "--store", "off"]) == 2
    told = capfd.readouterr().err
    assert "copilot is not started in" in told
    assert "list it under `trusted`" in told
    assert "started\n" not in told.replace("is not started", "")


@pytest.mark.parametrize("below", [False, True])
def test_the_command_line_may_trust_the_folder(
    project: Path, capfd: pytest.CaptureFixture[str], below: bool
) -> None:
    put(project, ".github/hooks/x.json", "sub/x")
    (project / ".git").mkdir()
    where = ["--cwd", "sub"] if below else []
    assert main(["-p", "hi", "--agent", "copilot", "--store", "off", "--trust=yes", *where]) == 1
    assert "started" in capfd.readouterr().err.splitlines()[-1]  # by its own program


def test_a_project_cannot_trust_itself(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(project, ".github/hooks/x.json")
    (project / ".agentrt.toml").write_text('trusted = ["."]\n[agents.copilot]\nenv = {A = "b"}\n')
    assert main(["-p", "hi", "--agent", "copilot", "--store", "off"]) == 2
    assert "copilot is not started in" in capfd.readouterr().err


def test_who_attaches_to_a_server_cannot_trust_for_it(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["acp", "--attach", "--trust=yes"]) == 2
    assert "--trust is set on the server" in capfd.readouterr().err
