"""`agentrt sessions` on what agentrt itself has stored: beside whoever writes it, or without."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from program import Program

from agentrt.store import open_store
from agentrt.telemetry import read_audit
from journal.kit import kept
from runtime.fakes import Incarnations, echo

HERE = "mend the blue door"
ELSEWHERE = "paint the red window"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.env["PATH"] = "/nowhere"  # the demo agent is the only one
    return program


@pytest.fixture
def file(program: Program) -> Path:
    """The server's, with a session in the program's folder, and one that is elsewhere."""
    path = program.home / ".local" / "state" / "agentrt" / "journal.db"

    async def fill() -> None:
        async with open_store(path) as store:
            for id, cwd, prompt in (
                ("abc-one", str(program.folder), HERE),
                ("abd-two", str(program.home), ELSEWHERE),
            ):
                async with kept(store, Incarnations(echo), id=id, cwd=cwd) as session:
                    await session.run(prompt)

    trio.run(fill)
    return path


@pytest.mark.slow
def test_a_session_whose_folder_moved_is_resumed_where_it_is_now(program: Program) -> None:
    assert program.run("--agent", "demo", "-p", "hello").returncode == 0
    [one] = listed(program)
    moved = program.home / "moved"
    program.folder.rename(moved)
    program.folder = program.home
    gone = program.run("--resume", one["session"], "-p", "again", status=None)
    assert gone.returncode != 0
    assert "--cwd DIR" in gone.stderr
    resumed = program.run("--resume", one["session"], "--cwd", str(moved), "-p", "again")
    assert resumed.returncode == 0
    [found] = listed(program, "--cwd", str(moved))
    assert (found["session"], found["turns"]) == (one["session"], 2)


@contextmanager
def held(file: Path) -> Iterator[None]:
    """The file is being written: by process 4711."""
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"4711\n", 0)
        yield
    finally:
        os.close(lock)


def listed(program: Program, *arguments: str) -> list[Any]:
    return list(json.loads(program.run("sessions", *arguments, "--json").stdout))


def test_the_stored_sessions_of_the_folder_are_listed(program: Program, file: Path) -> None:
    [one] = listed(program)
    assert (one["session"], one["agent"], one["prompt"]) == ("abc-one", "fake", HERE)
    assert (one["turns"], one["cwd"], one["store"]) == (1, str(program.folder), str(file))
    told = program.run("sessions").stdout
    assert told.splitlines()[0].split() == ["UPDATED", "AGENT", "SESSION", "TITLE"]
    assert HERE in told
    assert ELSEWHERE not in told
    assert "agentrt --resume SESSION" in told


def test_those_of_all_folders_are_listed_when_asked_for(program: Program, file: Path) -> None:
    assert [one["session"] for one in listed(program, "--all")] == ["abd-two", "abc-one"]
    assert [one["session"] for one in listed(program, "--all", "--limit", "1")] == ["abd-two"]
    assert str(program.home) in program.run("sessions", "list", "--all").stdout


@pytest.mark.slow
def test_sessions_are_found_by_their_words_wherever_they_were(program: Program, file: Path) -> None:
    [one] = listed(program, "search", "WINDOW", "red")
    assert (one["session"], one["snippet"]) == ("abd-two", f"{ELSEWHERE} {ELSEWHERE}")
    assert ELSEWHERE in program.run("sessions", "search", "wind").stdout
    done = program.run("sessions", "search", "no-such-word")
    assert (done.stdout, done.stderr) == ("", "agentrt: nothing was found\n")


def test_one_is_shown_by_the_beginning_of_its_id(program: Program, file: Path) -> None:
    told = program.run("sessions", "show", "abc").stdout
    assert f"## You\n\n> {HERE}\n\n## Agent\n\n> {HERE}\n" in told
    exported = json.loads(program.run("sessions", "export", "abc", "--format", "json").stdout)
    assert [turn["outcome"] for turn in exported["turns"]] == ["completed"]


def test_a_beginning_that_several_have_is_refused_with_their_names(
    program: Program, file: Path
) -> None:
    done = program.run("sessions", "show", "ab", status=2)
    assert "abc-one" in done.stderr
    assert "abd-two" in done.stderr


@pytest.mark.slow
def test_one_that_nobody_has_is_not_found(program: Program, file: Path) -> None:
    program.run("sessions", "show", "x", status=4)
    program.run("sessions", "delete", "x", status=4)


def test_reading_works_while_another_process_writes(program: Program, file: Path) -> None:
    with held(file):
        assert len(listed(program, "--all")) == 2
        assert len(listed(program, "search", "the")) == 2
        assert HERE in program.run("sessions", "show", "abc-one").stdout


@pytest.mark.parametrize("verb", [["delete", "abc"], ["vacuum"], ["repair"]])
def test_what_changes_a_file_is_refused_with_the_pid_of_its_writer(
    program: Program, file: Path, verb: list[str]
) -> None:
    with held(file):
        done = program.run("sessions", *verb, status=2)
    assert "is being written by process 4711" in done.stderr
    assert len(listed(program, "--all")) == 2


def test_one_is_deleted_and_the_audit_log_has_its_id(program: Program, file: Path) -> None:
    audit = program.folder / "audit.jsonl"
    done = program.run("--audit", str(audit), "sessions", "delete", "abc")
    assert done.stdout.startswith("deleted abc-one\n")
    (record,) = read_audit(audit)
    assert (record.kind, record.title, record.session) == ("action", "sessions delete", "abc-one")
    assert [one["session"] for one in listed(program, "--all")] == ["abd-two"]


@pytest.mark.slow
def test_what_was_deleted_is_not_in_the_file_after_a_vacuum(program: Program, file: Path) -> None:
    program.run("sessions", "delete", "abc")
    assert " now\n" in program.run("sessions", "vacuum").stdout
    assert b"blue" not in file.read_bytes()
    assert len(listed(program, "search", "window")) == 1


def test_another_file_is_named(program: Program, file: Path) -> None:
    other = program.folder / "other.db"
    file.rename(other)
    assert listed(program, "--all") == []
    assert len(listed(program, "--all", "--store", str(other))) == 2
    program.run("sessions", "--store", "missing.db", status=2)


def test_without_a_store_the_agents_are_asked(program: Program, file: Path) -> None:
    done = program.run("sessions", "--store", "off")
    assert done.stderr == "agentrt: no session is stored in this folder (--all: in any)\n"


@pytest.mark.slow
def test_the_doctor_names_the_files_and_what_writes_them(program: Program, file: Path) -> None:
    done = program.run("doctor")
    assert f"✓ {file}: 2 sessions, " in done.stdout
    assert "SQLite        3." in done.stdout
    assert "mode wal" in done.stdout
    assert str(file) not in program.run("doctor", "--agent", "demo").stdout
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    assert f"✗ {file} is damaged: " in program.run("doctor", status=1).stdout
    file.unlink()
    assert "terminal.db, which has none yet" in program.run("doctor").stdout


@pytest.mark.slow
def test_a_damaged_file_is_named_and_mended(program: Program, file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    done = program.run("sessions", "--all", status=3)
    assert "agentrt sessions repair" in done.stderr
    file.write_bytes(whole)
    with open(file, "r+b") as damaged:
        damaged.seek(len(whole) - 4096)
        damaged.write(os.urandom(4096))
    done = program.run("sessions", "repair")
    assert "2 sessions saved" in done.stdout
    assert f"{file}.corrupt-" in done.stdout
    assert len(listed(program, "--all")) == 2
    assert program.run("sessions", "repair").stdout == f"{file}: not damaged\n"
