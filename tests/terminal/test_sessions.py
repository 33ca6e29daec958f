"""`agentrt sessions` on what the agents themselves keep: listed, shown, exported and deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import FAST_DEMO, Program

DEMO = ("--agent", "demo")
OF_AGENTS = ("--store", "off")


def stored(program: Program, *arguments: str) -> list[dict[str, Any]]:
    of_agents = () if "--agent" in arguments else OF_AGENTS
    done = program.run("sessions", "list", *of_agents, *arguments, "--json")
    return list(json.loads(done.stdout))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.env["PATH"] = "/nowhere"  # the demo agent is the only one
    return program


@pytest.fixture
def id(program: Program) -> str:
    """A session in which a file was read."""
    done = program.run(*FAST_DEMO, "-p", "read notes.txt", "--output-format", "json")
    return str(json.loads(done.stdout)["session"])


@pytest.mark.slow
def test_the_sessions_of_the_folder_are_listed(program: Program, id: str) -> None:
    [one] = stored(program)
    assert (one["agent"], one["id"], one["title"]) == ("demo", id, "read notes.txt")
    told = program.run("sessions", *OF_AGENTS).stdout
    assert told.splitlines()[0].split() == ["UPDATED", "AGENT", "SESSION", "TITLE"]
    assert id in told
    assert "agentrt --agent AGENT --resume SESSION" in told


@pytest.mark.slow
def test_a_list_leaves_no_session_behind(program: Program, id: str) -> None:
    for _ in range(2):
        assert len(stored(program, "--all")) == 1


@pytest.mark.slow
def test_those_of_other_folders_are_listed_when_asked_for(program: Program, id: str) -> None:
    other = program.folder.parent / "other"
    other.mkdir()
    assert stored(program, "--cwd", str(other)) == []
    assert [each["id"] for each in stored(program, "--cwd", str(other), "--all")] == [id]
    told = program.run("sessions", *OF_AGENTS, "--all", "--cwd", str(other)).stdout
    assert str(program.folder) in told


@pytest.mark.slow
def test_no_session_is_said_to_be_none(program: Program) -> None:
    done = program.run("sessions", *OF_AGENTS)
    assert (done.stdout, done.stderr) == (
        "",
        "agentrt: no session is stored in this folder (--all: in any)\n",
    )


@pytest.mark.slow
def test_one_is_shown_as_it_was(program: Program, id: str) -> None:
    told = program.run("sessions", "show", id).stdout
    assert told.startswith("# read notes.txt\n\nWith demo ")
    assert "\n## You\n\n> read notes.txt\n" in told
    assert "- **read** `" in told
    assert "second line" in told


@pytest.mark.slow
def test_one_is_exported_with_all_there_is(program: Program, id: str) -> None:
    told = json.loads(program.run("sessions", "export", *DEMO, id, "--format", "json").stdout)
    assert told["items"][0]["type"] == "user"
    assert {"state", "turns", "items", "usage", "modes", "title"} <= told.keys()


@pytest.mark.slow
def test_a_code_block_is_not_ended_by_what_is_in_it(program: Program) -> None:
    (program.folder / "fences.md").write_text("```\n````\nx\n")
    done = program.run(*FAST_DEMO, "-p", "read fences.md", "--output-format", "json")
    id = json.loads(done.stdout)["session"]
    assert "`````" in program.run("sessions", "export", id).stdout


@pytest.mark.slow
def test_one_is_deleted(program: Program, id: str) -> None:
    assert program.run("sessions", "delete", *DEMO, id).stdout == f"deleted {id} of demo\n"
    assert stored(program) == []
    program.run(*FAST_DEMO, "-p", "hello", "--store", "off", "--resume", id, status=4)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["show", "export", "delete"])
@pytest.mark.parametrize("agent", [(), DEMO])
def test_one_that_is_not_there_is_not_found(
    program: Program, verb: str, agent: tuple[str, ...]
) -> None:
    done = program.run("sessions", verb, *agent, "no-such-session", status=4)
    assert done.stdout == ""
    assert done.stderr.startswith("agentrt: ")


@pytest.mark.slow
def test_claude_codes_own_are_listed_without_starting_it(program: Program) -> None:
    name = "".join(c if c.isalnum() else "-" for c in str(program.folder.resolve()))
    project = program.home / ".claude" / "projects" / name
    project.mkdir(parents=True)
    id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    entry = {
        "type": "user",
        "uuid": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "parentUuid": None,
        "sessionId": id,
        "cwd": str(program.folder),
        "timestamp": "2026-01-02T03:04:05.000Z",
        "isSidechain": False,
        "message": {"role": "user", "content": "mend the door"},
    }
    (project / f"{id}.jsonl").write_text(json.dumps(entry) + "\n")
    program.env["PATH"] = str(program.home)
    claude = program.home / "claude"
    claude.write_text("#!/bin/false\n")
    claude.chmod(0o755)
    [one] = stored(program, "--agent", "claude")
    assert (one["id"], one["title"]) == (id, "mend the door")
    assert program.run("sessions", "delete", id).stdout == f"deleted {id} of claude\n"
    assert not (project / f"{id}.jsonl").exists()


def test_an_agent_that_keeps_no_list_says_so(program: Program) -> None:
    from program import odd

    done = program.run("sessions", "list", *odd("plain"), status=1)
    assert "keeps no list of its sessions" in done.stderr
