"""What is said in a terminal is stored, and gone on with: wherever it was said, whoever is open."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program import COMMAND, FAST_DEMO, INERT, PATIENCE, Program, Terminal
from test_stored import file, held, listed

__all__ = ["file"]  # a fixture

PROMPT = "> "
LINES = ("first line", "second line")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.env["PATH"] = "/nowhere"  # no agent is installed
    return program


def state(program: Program) -> Path:
    return program.home / ".local" / "state" / "agentrt"


def read(it: Terminal, number: int) -> None:
    """Have the demo agent read a line of the notes."""
    it.expect(PROMPT)
    it.line(f"read notes.txt:{number}")
    it.expect(LINES[number - 1])
    it.expect("```")


def until(holds: Callable[[], bool], it: Terminal) -> None:
    """Look now and then."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, it.shown
        time.sleep(0.05)


def leave(it: Terminal) -> None:
    it.expect(PROMPT)
    it.ctrl("d")
    assert it.ended() == 0


@pytest.mark.slow
@pytest.mark.door("one-shot", "resume")
def test_one_prompt_is_stored_and_continued_with_its_agent(program: Program) -> None:
    program.demo("read notes.txt:1")
    done = program.run("--continue", "-p", "read notes.txt:2", "--output-format", "stream-json")
    assert "second line" in done.stdout
    assert '"agent_restarted"' not in done.stderr
    [one] = listed(program)
    assert (one["agent"], one["prompt"], one["turns"]) == ("demo", "read notes.txt:1", 2)
    assert Path(one["store"]).name == "terminal.db"


@pytest.mark.slow
def test_a_session_resumed_by_an_id_prefix_stays_in_its_folder_unless_one_is_given(
    program: Program,
) -> None:
    program.demo("read notes.txt:1")
    [one] = listed(program)
    resume = ("--resume", one["session"][:6], "-p", "read notes.txt:2")
    home = ("--cwd", str(program.home))
    program.run(*home, "--continue", "-p", "hello", status=4)
    assert "second line" in program.run(*resume).stdout
    assert "no file" in program.run(*home, *resume).stdout
    assert "no file" in program.run(*home, "--continue", "-p", "read notes.txt:2").stdout


@pytest.mark.slow
def test_the_agents_own_id_of_a_stored_session_finds_it_too(program: Program) -> None:
    program.demo("read notes.txt:1")
    [one] = listed(program)
    program.run("--resume", one["agent_session"], "-p", "hello")
    assert [each["turns"] for each in listed(program)] == [2]


@pytest.mark.slow
def test_a_conversation_says_how_to_go_on_with_it_and_shows_what_was_said(
    program: Program,
) -> None:
    with program.terminal(*FAST_DEMO) as it:
        read(it, 1)
        it.expect(PROMPT)
        it.ctrl("d")
        id = it.expect(r"Resume: agentrt --resume (\S+)", regex=True)[1]
        assert it.ended() == 0
    with program.terminal("--resume", id) as it:
        it.expect("> read notes.txt:1\n")
        it.expect("first line")
        read(it, 2)
        leave(it)
    assert [one["turns"] for one in listed(program)] == [2]


@pytest.mark.slow
def test_what_did_not_end_as_one_expects_is_shown_so_again(program: Program) -> None:
    with program.terminal(*FAST_DEMO) as it:
        it.expect(PROMPT)
        it.line("/slow 600")
        it.expect("→ Say nothing")
        it.ctrl("c")
        it.expect("— cancelled")
        leave(it)
    with program.terminal("--continue") as it:
        it.expect("> /slow 600\n")
        it.expect("✗ Say nothing for 600 s: cancelled\n")
        it.expect("— cancelled\n")
        leave(it)


@pytest.mark.slow
def test_a_question_that_was_open_at_a_kill_is_asked_again_below_what_was_said(
    program: Program,
) -> None:
    with program.terminal(*FAST_DEMO) as it:
        it.expect(PROMPT)
        it.line("run echo yes > made.txt")
        it.expect("y/a/n/x? ")
        with closing(sqlite3.connect(state(program) / "terminal-1.db")) as file:
            stored = "SELECT 1 FROM session WHERE phase = 'waiting'"  # it is shown before that
            until(lambda: file.execute(stored).fetchone() is not None, it)
        it.process.kill()
        it.process.wait()
    with program.terminal("--continue") as it:
        it.expect("> run echo yes > made.txt\n")
        it.expect("— the program that ran the agent ended during this turn\n")
        it.expect("Allow this? ")
        it.expect("y/n? ")
        time.sleep(INERT)
        it.line("y")
        it.expect("[agentrt] ")
        it.expect(PROMPT)
        assert not (program.folder / "made.txt").exists()
        leave(it)


@pytest.mark.slow
def test_an_answer_is_read_while_the_disk_stalls_and_one_warning_says_so(
    program: Program,
) -> None:
    begun, gate = program.folder / "begun", program.folder / "gate"
    os.mkfifo(gate)
    with program.terminal(*FAST_DEMO) as it:
        it.expect(PROMPT)
        it.line("run : > begun; read line < gate; echo it is over")
        it.expect("y/a/n/x? ")
        time.sleep(INERT)
        it.line("y")
        until(begun.exists, it)
        with closing(sqlite3.connect(state(program) / "terminal-1.db")) as other:
            other.execute("BEGIN EXCLUSIVE")
            gate.write_text("\n")
            it.expect("it is over")
            it.expect("ended with status 0")
            it.expect(PROMPT)
            warning = "cannot be written: database is locked; new messages are stored when"
            if warning not in it.shown:
                it.expect(warning)
            it.line("hello")
            it.expect("agentrt: the store cannot be written: database is locked")
        it.expect("the store works again, and nothing was lost")
        it.line("read notes.txt:1")
        it.expect("first line")
        leave(it)
        assert it.shown.count("new messages are stored") == 1
        assert "Traceback" not in it.shown
    assert [one["turns"] for one in listed(program)] == [2]


@pytest.mark.slow
def test_without_an_id_the_earlier_sessions_are_offered(program: Program) -> None:
    program.demo("read notes.txt:1")
    with program.terminal(*FAST_DEMO, "--resume") as it:
        it.expect("  1  read notes.txt:1 · demo · ")
        it.expect("Resume which session? [1–1; Enter: a new one] ")
        it.line("7")
        it.expect("Please enter a number from 1 to 1, or press Enter.")
        it.line("1")
        it.expect("> read notes.txt:1\n")
        it.expect("first line")
        leave(it)
    for others in (("-p", "hello"), ("--continue", "-p", "hello")):
        program.run("--resume", *others, status=2)
    program.run("serve", "--resume", status=2)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "status"), [("d", 0), ("c", 130)])
def test_no_agent_is_started_before_the_session_is_chosen(
    program: Program, key: str, status: int
) -> None:
    program.demo("read notes.txt:1")
    started = program.folder / "started"
    command = f"/bin/sh -c 'touch {started}; exec false'"
    with program.terminal("--command", command, "--resume") as it:
        it.expect("Resume which session?")
        it.ctrl(key)
        assert it.ended() == status
    assert not started.exists()


@pytest.mark.slow
def test_a_folder_without_sessions_gets_a_new_one(program: Program) -> None:
    with program.terminal(*FAST_DEMO, "--resume") as it:
        it.expect("No earlier session in this folder; starting a new one.")
        leave(it)


@pytest.mark.slow
def test_where_nothing_was_said_nothing_is_said_of_it(program: Program) -> None:
    with program.terminal(*FAST_DEMO) as it:
        leave(it)
        assert "To go on" not in it.shown
    assert listed(program) == []


@pytest.mark.slow
def test_another_terminal_goes_on_with_what_is_not_open(program: Program) -> None:
    program.demo("read notes.txt:1")
    [earlier] = listed(program)
    with program.terminal(*FAST_DEMO) as first:
        read(first, 2)
        first.expect(PROMPT)
        [now, _] = listed(program)
        done = program.run("--resume", now["session"], "-p", "hello", status=2)
        assert f"which process {first.process.pid} has open" in done.stderr
        with program.terminal(*FAST_DEMO) as second:
            second.expect(PROMPT)
            second.line("/sessions")
            second.expect("read notes.txt:1")
            second.expect(PROMPT)
            second.line(f"/resume {earlier['session'][:8]}")
            second.expect("> read notes.txt:1\n")
            read(second, 2)
            leave(second)
        first.line("read notes.txt:1")
        first.expect("first line")
        leave(first)
    files = {Path(one["store"]).name: one["turns"] for one in listed(program)}
    assert files == {"terminal.db": 2}
    assert len(listed(program)) == 2


@pytest.mark.slow
def test_a_terminal_works_while_a_server_holds_its_file(program: Program, file: Path) -> None:
    with held(file):
        program.demo("read notes.txt:1")
        assert [one["agent"] for one in listed(program, "--all")] == ["demo", "fake", "fake"]
        agent = program.folder / "fake"
        agent.write_text("#!/bin/false\n")
        agent.chmod(0o755)
        other = ("--command", str(agent))
        done = program.run(*other, "--resume", "abc", "-p", "hello", status=2)
        assert f"the session is in {file}, which process 4711 has open" in done.stderr


@pytest.mark.slow
def test_a_session_goes_back_where_it_came_from(program: Program) -> None:
    program.demo("read notes.txt:1")
    server = state(program) / "journal.db"
    (state(program) / "terminal.db").rename(server)
    program.run("--continue", "-p", "read notes.txt:2")
    [one] = listed(program)
    assert (one["store"], one["turns"]) == (str(server), 2)


@pytest.mark.slow
def test_where_the_way_home_is_blocked_a_session_is_found_all_the_same(program: Program) -> None:
    program.demo("read notes.txt:1")
    with held(state(program) / "terminal.db"):
        program.demo("read notes.txt:2")
        [new, _] = listed(program)
        assert Path(new["store"]).name == "terminal-1.db"
        program.run("--continue", "-p", "read notes.txt:1")
    program.demo("hello")
    assert {Path(one["store"]).name for one in listed(program)} == {"terminal.db"}
    assert sorted(one["turns"] for one in listed(program)) == [1, 1, 2]


@pytest.mark.slow
def test_a_terminal_that_was_killed_loses_nothing_that_was_stored(program: Program) -> None:
    """What it shows may be some milliseconds ahead of that."""

    def shown() -> str:
        [one] = listed(program)
        assert one["turns"] == 1
        return program.run("sessions", "show", one["session"]).stdout

    with program.terminal(*FAST_DEMO) as it:
        read(it, 1)
        it.expect(PROMPT)
        until(lambda: "first line" in shown(), it)
        it.process.kill()
    assert "first line" in shown()
    assert "second line" in program.run("--continue", "-p", "read notes.txt:2").stdout


@pytest.mark.parametrize("interactive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_is_stored_when_it_is_switched_off(program: Program, interactive: bool) -> None:
    if interactive:
        with program.terminal(*FAST_DEMO, "--store", "off") as it:
            read(it, 1)
            leave(it)
            assert "To go on" not in it.shown
    else:
        program.demo("read notes.txt:1", "--store", "off")
    assert list(state(program).glob("*.db")) == []


@pytest.mark.slow
def test_it_can_be_switched_off_for_good(program: Program) -> None:
    program.demo("read notes.txt:1")
    settings = program.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[terminal]\nstore = "off"\n')
    program.demo("read notes.txt:2")
    [one] = listed(program)
    assert one["prompt"] == "read notes.txt:1"
    program.run("--continue", "-p", "hello")  # the agent's own conversation
    assert listed(program)[0]["turns"] == 1


@pytest.mark.slow
def test_a_servers_file_that_is_set_is_looked_into(program: Program) -> None:
    path = program.folder / "mine.db"
    program.demo("read notes.txt:1", "--store", f"sqlite:{path}")
    program.env["AGENTRT_SERVE_STORE"] = str(path)
    assert [one["store"] for one in listed(program)] == [str(path)]


@pytest.mark.slow
def test_a_file_that_is_named_is_used_alone(program: Program) -> None:
    path = program.folder / "mine.db"
    program.demo("read notes.txt:1", "--store", str(path))
    assert listed(program) == []
    [one] = listed(program, "--store", str(path))
    program.run("--store", str(path), "--continue", "-p", "hello")
    assert listed(program, "--store", str(path))[0]["turns"] == 2
    with held(path):
        done = program.demo("hello", "--store", str(path), status=2)
        assert "process 4711" in done.stderr
        with program.terminal(*FAST_DEMO, "--store", str(path)) as it:
            it.expect("is being written by process 4711")
            assert it.ended() == 2
    assert one["store"] == str(path)


def test_a_folder_that_takes_no_file_costs_only_the_store(program: Program) -> None:
    state(program).parent.mkdir(parents=True)
    state(program).write_text("in the way")
    done = program.demo("read notes.txt:1")
    assert "first line" in done.stdout
    assert "this conversation is not stored" in done.stderr


@pytest.mark.slow
def test_a_prompt_is_answered_where_no_file_may_grow(program: Program) -> None:
    """`ulimit -f`: a file of a few kilobytes at the most, as on a disk that is full."""
    words = [*COMMAND, *FAST_DEMO, "-p", "read notes.txt:1"]
    done = subprocess.run(
        [shutil.which("sh") or "/bin/sh", "-c", f"ulimit -f 32; exec {shlex.join(words)}"],
        cwd=program.folder,
        env=program.env | {"PYTHONDONTWRITEBYTECODE": "1"},  # it would be half a file
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert "first line" in done.stdout
    assert "warning: this conversation is not stored: " in done.stderr


@pytest.mark.slow
def test_an_answer_of_a_stored_prompt_is_the_same_for_programs(program: Program) -> None:
    def result(*options: str) -> dict[str, Any]:
        done = program.demo("read notes.txt:1", "--output-format", "json", *options)
        found: dict[str, Any] = json.loads(done.stdout)
        return {name: type(value) for name, value in found.items()}

    assert result() == result("--store", "off")


@pytest.mark.slow
def test_a_session_that_is_gone_on_with_takes_no_new_system_prompt(program: Program) -> None:
    program.demo("hello")
    program.run("--continue", "--resume", "x", "-p", "hello", status=2)
    program.run("--continue", "--system", "x", "-p", "hello", status=2)


def test_a_store_is_a_file(program: Program) -> None:
    folder = ("--store", str(program.folder))
    for arguments in ((*FAST_DEMO, "-p", "hello", *folder), ("sessions", *folder)):
        done = program.run(*arguments, status=2)
        assert f"--store takes a file, and {program.folder} is a folder" in done.stderr
    done = program.run("sessions", "--store", "mysql://me:secret@host/db", status=2)
    assert "a URL of PostgreSQL or `off`, not mysql://" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.slow
def test_a_prompt_behind_a_turn_that_a_kill_has_interrupted_ends_as_its_own_turn(
    program: Program,
) -> None:
    with program.terminal(*FAST_DEMO) as it:
        it.line("run sleep 60")
        it.expect("y/a/n/x? ")
        it.process.kill()
    assert "first line" in program.run("--continue", "-p", "read notes.txt:1", status=0).stdout
