"""Each program in `examples/` does what its docstring says, on the demo agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
TIMEOUT_S: Final = 90

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# Greeter\n")
    return folder


def environment(folder: Path) -> dict[str, str]:
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "PYTHONWARNINGS": "error"}
    return {**{k: v for k, v in os.environ.items() if not k.startswith("AGENTRT_")}, **own}


def run(name: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.stderr == ""
    return done


def test_a_batch_writes_an_answer_for_each_prompt(folder: Path) -> None:
    prompts = folder / "prompts"
    prompts.mkdir()
    (prompts / "a.txt").write_text("list the files")
    (prompts / "b.txt").write_text("read README.md")
    done = run("batch.py", prompts, folder / "results", folder=folder)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["a.txt: completed", "b.txt: completed"]
    assert "Greeter" in (folder / "results" / "b.txt").read_text()


def test_a_batch_reports_a_prompt_without_an_answer(folder: Path) -> None:
    prompts = folder / "prompts"
    prompts.mkdir()
    (prompts / "a.txt").write_text("/refuse")
    done = run("batch.py", prompts, folder / "results", folder=folder)
    assert (done.returncode, done.stdout) == (1, "a.txt: refused\n")


def test_a_writer_revises_what_a_reviewer_rejects(folder: Path) -> None:
    done = run("writer_and_reviewer.py", folder=folder)
    said = ["the reviewer says: revise it", "the reviewer says: good"]
    assert done.stdout.splitlines() == said
    assert (folder / "draft.txt").read_text() == "A second draft.\n"


def test_a_killed_program_continues_its_session_and_its_cost_is_reported(folder: Path) -> None:
    store = folder / "sessions.db"
    done = run("recovery.py", store, folder=folder)
    assert done.stdout.splitlines() == ["before: ['completed', 'agent_died']", "after: completed"]
    report = run("cost_report.py", store, folder=folder)
    assert re.fullmatch(r"\S+  list the files +\d+ tokens  \$\d+\.\d{4}\n", report.stdout)


def test_a_session_in_a_store_of_one_s_own_survives_kill_9(folder: Path) -> None:
    done = run("own_store.py", folder.parent / "sessions.jsonl", folder=folder)
    assert done.stdout.splitlines() == [
        "before: ['completed', 'agent_died']",
        "after: completed",
        "found: ['list the files']",
    ]


def test_a_chat_bot_asks_queues_and_stops(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "approvals.py")],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as bot:
        assert bot.stdin is not None
        assert bot.stdout is not None

        def say(*lines: str) -> None:
            assert bot.stdin is not None
            bot.stdin.write("".join(f"{line}\n" for line in lines))
            bot.stdin.flush()

        say("docs create note.txt with hello")
        assert re.match(r"docs < may I\? .*note\.txt", bot.stdout.readline())
        say("docs yes")
        assert bot.stdout.readline().startswith("docs < ")
        assert (folder / "note.txt").read_text() == "hello\n"
        say("build /slow 60", "build read note.txt", "build stop")
        assert bot.stdout.readline() == "build < (cancelled)\n"
        bot.stdin.close()
        bot.kill()


def test_a_dialect_serves_a_client_with_permission_requests(folder: Path) -> None:
    done = run("dialect.py", "create note.txt with hello", folder=folder)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("= ")
    assert lines[1:] == ["? Create note.txt", "I created `note.txt`.", "[completed]"]
    assert (folder / "note.txt").read_text() == "hello\n"
    source = (EXAMPLES / "dialect.py").read_text()
    assert len(source.splitlines()) < 150
    assert not re.search(r"agentrt[\w.]*\._", source)


def test_a_driver_of_its_own_works_with_a_pipe_and_in_a_session(folder: Path) -> None:
    done = run("own_driver.py", "run make clean", folder=folder)
    assert done.stdout.splitlines() == ["I leave it. [completed]", "I would run it. [completed]"]
    for name in ("own_driver.py", "mini_driver.py", "mini_agent.py"):
        assert not re.search(r"agentrt[\w.]*\._", (EXAMPLES / name).read_text())


def test_every_example_is_in_the_list() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"({path.name})" not in text] == []
