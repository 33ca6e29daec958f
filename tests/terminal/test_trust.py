"""`agentrt trust`, and the question about a project's files in a conversation."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from program import INERT, Program, odd

from in_process import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project, home = (tmp_path.resolve() / name for name in ("it", "home"))
    project.mkdir()
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("AGENTRT_", "XDG_"))]:
        if not name.startswith(("AGENTRT_TEST_", "AGENTRT_GUARD")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return project


def put(project: Path, name: str, text: str = "{}") -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)


def decisions(capsys: Output) -> dict[str, str]:
    capsys.readouterr()
    assert main(["trust", "show", "--agent", "gemini", "--agent", "claude", "--json"]) == 0
    return {each["agent"]: each["decision"] for each in json.loads(capsys.readouterr().out)}


def test_files_are_shown_before_they_are_trusted(project: Path, capsys: Output) -> None:
    put(project, ".gemini/settings.json", '{"a": 1}\n\x1b[2J')
    assert main(["trust", "add", "--agent", "gemini", "--yes"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("gemini: undecided\n  .gemini/settings.json: runs its hooks")
    assert '    | {"a": 1}\n' in out
    assert "\x1b" not in out
    assert out.endswith(f"trusted: {project}, gemini\n")


def test_without_a_terminal_a_decision_needs_yes(project: Path, capsys: Output) -> None:
    put(project, ".gemini/settings.json")
    assert main(["trust", "add", "--agent", "gemini"]) == 2
    assert "use --yes" in capsys.readouterr().err
    assert decisions(capsys) == {"gemini": "undecided"}


def test_a_decision_counts_for_one_agent_and_these_contents(project: Path, capsys: Output) -> None:
    put(project, ".gemini/settings.json", "one\ntwo\n")
    put(project, ".mcp.json")
    assert main(["trust", "add", "--agent", "gemini", "--yes"]) == 0
    assert decisions(capsys) == {"gemini": "trusted", "claude": "undecided"}
    put(project, ".gemini/settings.json", "one\nthree\n")
    assert decisions(capsys)["gemini"] == "changed"
    assert main(["trust", "show", "--agent", "gemini"]) == 0
    shown = capsys.readouterr().out
    assert "    | -two\n    | +three\n" in shown


def test_decisions_are_listed_and_removed(project: Path, capsys: Output) -> None:
    put(project, ".gemini/settings.json")
    assert main(["trust"]) == 0
    assert "no decisions" in capsys.readouterr().err
    assert main(["trust", "add", "--agent", "gemini", "--yes"]) == 0
    capsys.readouterr()
    assert main(["trust", "list"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[:3] == [str(project), "gemini", "trusted"]
    assert main(["trust", "remove"]) == 0
    assert capsys.readouterr().out == f"removed: {project}, gemini\n"
    assert main(["trust", "remove"]) == 1
    assert decisions(capsys) == {"gemini": "undecided"}


def test_files_that_cannot_be_shown_cannot_be_trusted(project: Path, capsys: Output) -> None:
    (project / ".gemini").symlink_to(project)
    put(project, "settings.json")
    assert main(["trust", "add", "--agent", "gemini", "--yes"]) == 1
    told = capsys.readouterr()
    assert "symbolic link" in told.out
    assert "only `trusted` in your configuration" in told.err


def test_a_damaged_file_of_decisions_is_reported(project: Path, capsys: Output) -> None:
    home = Path(os.environ["HOME"])
    put(home, ".local/state/agentrt/trust.json", "{")
    assert main(["trust"]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_an_unknown_folder_or_agent_is_an_error(project: Path, capsys: Output) -> None:
    assert main(["trust", "show", "nowhere"]) == 2
    assert main(["trust", "show", "--agent", "nobody"]) == 4


# --- in a conversation


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "starts"), [("a", True), ("n", False)])
def test_an_interactive_session_asks_before_it_starts_the_agent(
    program: Program, answer: str, starts: bool
) -> None:
    put(program.folder, ".cursor/mcp.json", '{"mcpServers": {"x": {"command": "touch"}}}')
    with program.terminal(*odd("echo")) as terminal:
        shown = terminal.expect(r"The agent asks:.*a/y/n/x\? ", regex=True)[0]
        assert "act on files of" in shown
        assert '+{"mcpServers": {"x": {"command": "touch"}}}' in shown
        time.sleep(INERT)
        terminal.line(answer)
        if starts:
            terminal.line("hello")
            terminal.expect("(no answer)")
        else:
            terminal.expect("is not started in")
    assert (program.home / ".local/state/agentrt/trust.json").exists() is starts


@pytest.mark.slow
def test_one_prompt_does_not_ask(program: Program) -> None:
    put(program.folder, ".cursor/mcp.json")
    with program.terminal(*odd("echo"), "-p", "go") as terminal:
        terminal.expect("is not started in")
