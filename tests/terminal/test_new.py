"""`agentrt new`: the generated project works as it is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from program import PATIENCE, Program

import agentrt
from in_process import main

AGENTS = sorted(each.agent.name for each in agentrt.find_agents())


@pytest.mark.parametrize("name", AGENTS)
def test_the_rules_for_every_agent_are_a_policy(name: str, tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / "a folder"), "--agent", name]) == 0
    agentrt.rules(**tomllib.loads((tmp_path / "a folder/rules.toml").read_text()))
    assert f'AGENT = "{name}"' in (tmp_path / "a folder/main.py").read_text()


@pytest.mark.parametrize("folder", ["demo", 'my "agent" \\ 2', "Ä", "..."])
def test_the_folder_s_name_gives_a_valid_package_name(folder: str, tmp_path: Path) -> None:
    assert main(["new", str(tmp_path / folder), "--agent", "demo"]) == 0
    project = tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())["project"]
    assert project["name"].isascii()
    assert project["name"].strip("-") == project["name"] != ""


def test_nothing_is_overwritten(program: Program) -> None:
    mine = program.folder / "mine"
    mine.mkdir()
    (mine / "test_main.py").write_text("mine")
    done = program.run("new", "mine", status=2)
    assert "test_main.py exists" in done.stderr
    assert [file.name for file in mine.iterdir()] == ["test_main.py"]
    assert (mine / "test_main.py").read_text() == "mine"


def test_an_unknown_agent_is_refused_before_anything_is_written(program: Program) -> None:
    done = program.run("new", "mine", "--agent", "nonesuch", status=2)
    assert "unknown agent 'nonesuch'" in done.stderr
    assert not (program.folder / "mine").exists()


def test_a_folder_that_cannot_be_made_is_reported(program: Program) -> None:
    done = program.run("new", "notes.txt/mine", status=1)
    assert "cannot write the project" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "demo"])
def test_a_new_project_passes_its_own_tests(program: Program, name: str) -> None:
    program.run("new", "mine", "--agent", name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error"],
        cwd=program.folder / "mine",
        env=program.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.slow
def test_a_new_program_runs(program: Program) -> None:
    program.run("new", "mine", "--agent", "demo")
    done = subprocess.run(
        [sys.executable, "main.py", "list the files"],
        cwd=program.folder / "mine",
        env=program.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "rules.toml" in done.stdout
    assert done.stdout.endswith("-- completed\n")


@pytest.mark.slow
def test_a_new_project_is_formatted_and_typed(program: Program, tmp_path: Path) -> None:
    pytest.importorskip("ruff", reason="needs ruff (the group `lint`)")
    program.run("new", "mine", "--agent", "demo")
    for check in (["format", "--check"], ["check"]):
        subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--isolated", "--line-length=100", "."],
            cwd=program.folder / "mine",
            check=True,
            timeout=PATIENCE,
        )
