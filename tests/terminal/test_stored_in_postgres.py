"""`agentrt` on sessions that are stored in PostgreSQL."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import signal
import time
from pathlib import Path

import pytest
import trio
from program import FAST_DEMO, INERT, PATIENCE, Program
from test_attach import attached
from test_repl import PROMPT
from test_serve import serving

from agentrt.storage import server_of, writing
from agentrt.store import open_store
from journal.kit import kept
from postgres.server import PASSWORD, Server, free_port
from runtime.fakes import Incarnations, echo


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.env["PATH"] = "/nowhere"  # the demo agent is the only one
    return program


@pytest.fixture
def url(postgres: Server, program: Program) -> str:
    """A store with a session in the program's folder, and one that is elsewhere."""
    url = postgres.url(f"t_{secrets.token_hex(6)}")

    async def fill() -> None:
        async with open_store(url) as store:
            for id, cwd, prompt in (
                ("abc-one", str(program.folder), "mend the blue door"),
                ("abd-two", str(program.home), "paint the red window"),
            ):
                async with kept(store, Incarnations(echo), id=id, cwd=cwd) as session:
                    await session.run(prompt)

    trio.run(fill)
    return url


@pytest.mark.slow
def test_sessions_are_listed_found_shown_and_deleted(program: Program, url: str) -> None:
    store = ("--store", url)
    [one] = json.loads(program.run("sessions", *store, "--json").stdout)
    assert (one["session"], one["store"]) == ("abc-one", str(server_of(url)))
    [one] = json.loads(program.run("sessions", "search", *store, "WIND", "red", "--json").stdout)
    assert one["session"] == "abd-two"
    assert "## You\n\n> mend the blue door" in program.run("sessions", "show", *store, "abc").stdout
    program.run("sessions", "show", *store, "ab", status=2)
    assert program.run("sessions", "delete", *store, "abc").stdout.startswith("deleted abc-one")
    assert program.run("sessions", "show", *store, "abc", status=4).stdout == ""


def test_what_is_for_files_alone_is_refused_with_a_word(program: Program, url: str) -> None:
    assert "autovacuum" in program.run("sessions", "vacuum", "--store", url, status=2).stderr
    assert "backup" in program.run("sessions", "repair", "--store", url, status=2).stderr


@pytest.mark.slow
def test_the_doctor_names_the_server(program: Program, url: str) -> None:
    told = program.run("--store", url, "doctor").stdout
    assert f"✓ {server_of(url)}: 2 sessions" in told
    assert "PostgreSQL    1" in told


@pytest.mark.slow
def test_one_is_gone_on_with_and_stored_again(program: Program, url: str) -> None:
    store = ("--store", url)
    program.run("--agent", "demo", *store, "-p", "say one and two")
    [one] = json.loads(program.run("sessions", "search", *store, "one", "two", "--json").stdout)
    program.run("--resume", one["session"], *store, "-p", "say three")
    [one] = json.loads(program.run("sessions", "search", *store, "one", "three", "--json").stdout)
    assert one["turns"] == 2


@pytest.mark.slow
def test_a_store_that_somebody_writes_can_be_read_and_not_written(
    program: Program, url: str
) -> None:
    with writing(server_of(url)):
        assert "abc-one" in program.run("sessions", "--store", url, "--json").stdout
        done = program.run("sessions", "delete", "--store", url, "abc", status=2)
        assert "is being written by process" in done.stderr


@pytest.mark.slow
def test_a_password_on_the_command_line_is_warned_of_and_shown_nowhere(
    program: Program, postgres: Server
) -> None:
    store = ("--store", postgres.tcp_url("guest:the-secret"))
    done = program.run("sessions", *store, status=2)
    assert "PGPASSWORD" in done.stderr
    assert "password authentication failed" in done.stderr
    doctor = program.run(*store, "doctor", status=1)
    for text in (done.stdout, done.stderr, doctor.stdout, doctor.stderr):
        assert "the-secret" not in text
    program.env["PGPASSWORD"] = PASSWORD
    done = program.run("sessions", "--store", postgres.tcp_url(schema="none"), status=2)
    assert "warning" not in done.stderr
    assert "does not contain a store" in done.stderr


@pytest.mark.slow
def test_a_password_in_the_settings_is_shown_by_none_of_them(program: Program) -> None:
    for url, shown in (
        ("postgresql://me:the-secret@host/db", "postgresql://me@host/db"),
        ("postgresql://me:the-secret/db@host", "(set)"),
    ):
        program.env["AGENTRT_SERVE_STORE"] = url
        told = program.run("config").stdout + program.run("config", "--json").stdout
        assert told.count(f'"{shown}"') == 2
        assert "the-secret" not in told
    done = program.run("serve", status=2)
    assert "this is not a PostgreSQL URL" in done.stderr
    assert "the-secret" not in done.stderr


def listed(program: Program, url: str) -> dict[str, int]:
    """How many sessions each server has."""
    nodes = json.loads(program.run("nodes", "--store", url, "--json").stdout)
    return {node["name"]: node["sessions"] for node in nodes}


@pytest.mark.slow
def test_servers_that_share_a_store_are_listed_and_drained(program: Program, url: str) -> None:
    store = ("--store", url)
    assert "No server uses this store" in program.run("nodes", *store).stdout
    with (
        serving(program, *store, "--node", "n1", "--agent", "demo") as one,
        serving(program, *store, "--node", "n2") as two,
    ):
        for served in (one, two):
            served.link()
        deadline = time.monotonic() + PATIENCE
        while (nodes := listed(program, url)) != {"n1": 1, "n2": 0}:
            assert time.monotonic() < deadline, nodes
        done = program.run("sessions", "delete", *store, "abc", status=2)
        assert "is being written" in done.stderr
        program.run("nodes", "drain", *store, "nobody", status=4)
        assert "takes no new sessions" in program.run("nodes", "drain", *store, "n2").stdout
        assert two.process.wait(PATIENCE) == 0
        assert listed(program, url) == {"n1": 1}
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(PATIENCE) == 0
    assert listed(program, url) == {}


@pytest.mark.slow
def test_a_terminal_at_a_gateway_talks_with_a_worker_s_agent(program: Program, url: str) -> None:
    store = ("--store", url)
    with (
        serving(program, *store, "--node", "w", "--role", "worker"),
        serving(program, *store, "--node", "g", "--role", "gateway") as gateway,
    ):
        gateway.link()
        deadline = time.monotonic() + PATIENCE
        while listed(program, url) != {"w": 0, "g": 0}:
            assert time.monotonic() < deadline
        with attached(program, *FAST_DEMO) as it:
            it.expect(PROMPT)
            it.line("read notes.txt")
            it.expect("second line")
            it.expect(PROMPT)
            it.line("run echo through the gateway")
            it.expect("y/a/n/x? ")
            assert listed(program, url) == {"w": 1, "g": 0}
            time.sleep(INERT)
            it.line("y")
            it.expect("The command ended with status 0")
            it.line("/slow")
            it.expect("Say nothing")
            it.ctrl("c")
            it.expect("— cancelled")
        table = program.run("nodes", *store).stdout
        assert "gateway" in table


@pytest.mark.slow
def test_what_cannot_be_shared_is_said(program: Program) -> None:
    assert "PostgreSQL" in program.run("serve", "--node", "n1", status=2).stderr
    assert "--node" in program.run("serve", "--home", "x", status=2).stderr
    assert "--node" in program.run("serve", "--role", "worker", status=2).stderr
    assert "PostgreSQL" in program.run("nodes", status=2).stderr
    shared = ("--store", "postgresql://", "--node")
    assert (
        "node must have 1 to 200 printable characters, got ''"
        in program.run("serve", *shared, "", status=2).stderr
    )
    assert "got 'a\\nb'" in program.run("serve", *shared, "a\nb", status=2).stderr
    assert (
        "home must have 1 to 200 printable characters, got ''"
        in program.run("serve", *shared, "n1", "--home", "", status=2).stderr
    )
    gateway = (*shared, "n1", "--role", "gateway")
    for opens in (("--agent", "demo"), ("--resume", "x")):
        assert (
            "a gateway runs no sessions" in program.run("serve", *gateway, *opens, status=2).stderr
        )


@pytest.mark.slow
def test_a_database_that_is_away_is_waited_for(
    program: Program, postgres: Server, tmp_path: Path
) -> None:
    sockets = tmp_path / "s"
    sockets.mkdir()
    name = f".s.PGSQL.{postgres.port}"
    url = f"postgresql://postgres@/postgres?host={sockets}&port={postgres.port}&schema=away"
    port = free_port()
    with serving(program, "--store", url, "--port", str(port), "--agent", "demo") as server:
        assert server.process.stderr is not None
        assert b"cannot be used" in server.process.stderr.readline()
        said = server.process.stderr.readline()
        assert re.match(rb"agentrt: waiting up to \d+ s for the database", said)
        status, text = ready(port)
        assert (status, text) == (503, "waiting for the database\n")
        assert ready(port, "/healthz") == (200, "ok\n")
        (sockets / name).symlink_to(postgres.folder / name)
        assert server.process.stderr.readline() == b"agentrt: connected to the database\n"
        assert "/?t=" in server.link()
        assert ready(port) == (200, "ready\n")


@pytest.mark.slow
def test_and_for_no_longer_than_is_said(program: Program, tmp_path: Path) -> None:
    program.env["AGENTRT_LIMITS_STORE_START_TIMEOUT_S"] = "1"
    url = f"postgresql://postgres@/postgres?host={tmp_path}"
    done = program.run("serve", "--store", url, status=2)
    assert "s for the database (limits.store_start_timeout_s)" in done.stderr
    assert done.stderr.count("cannot be used") == 2


@pytest.mark.slow
def test_a_database_that_refuses_is_not_waited_for(program: Program, postgres: Server) -> None:
    url = postgres.url("away", "no_such_database")
    done = program.run("serve", "--store", url, status=2)
    assert "waiting" not in done.stderr
    assert "no_such_database" in done.stderr


def ready(port: int, path: str = "/readyz") -> tuple[int, str]:
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:  # it listens a moment behind its word
            time.sleep(0.01)
        finally:
            connection.close()
