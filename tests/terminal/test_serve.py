"""`agentrt serve` as a program: its links, its end, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil
import pytest
from program import FAST_DEMO, PATIENCE, Program, read_some


class Served:
    """A running server, by what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._left = b""

    def line(self) -> str:
        while b"\n" not in self._left:
            data = read_some(self.process.stdout)
            assert data, self.process.communicate(timeout=PATIENCE)
            self._left += data
        line, _, self._left = self._left.partition(b"\n")
        return line.decode()

    def link(self) -> str:
        """The URL in the next line."""
        return self.line().rpartition(" ")[2]

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; the exit status and standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.decode()


@contextmanager
def serving(program: Program, *arguments: str) -> Iterator[Served]:
    with program.start("serve", *arguments, stdin=subprocess.DEVNULL) as process:
        try:
            yield Served(process)
        finally:
            if process.poll() is None:
                process.terminate()  # ends what it started, too


def get(url: str, cookie: str = "") -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Cookie": cookie})
        return connection.getresponse()
    finally:
        connection.close()


def the_agent(pid: int) -> psutil.Process:
    """The demo agent's process, once it is there."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children(recursive=True):
            try:
                if "agentrt.demo" in child.cmdline():
                    return child
            except psutil.Error:
                continue
        time.sleep(0.02)
    raise AssertionError("no agent was started")


@pytest.mark.slow
def test_it_prints_a_link_and_another_one_when_that_was_used(program: Program) -> None:
    with serving(program) as served:
        first = served.line()
        assert re.fullmatch(r"agentrt: open http://127\.0\.0\.1:\d+/\?t=[\w-]+", first)
        link = first.rpartition(" ")[2]
        opened = get(link)
        assert opened.status == 303
        cookie = (opened.headers["Set-Cookie"] or "").partition(";")[0]
        assert get(link.partition("?")[0], cookie).status == 200
        assert get(link).headers["Set-Cookie"] is None
        second = served.line()
        assert second.startswith("agentrt: for another browser: http://")
        assert get(second.rpartition(" ")[2]).headers["Set-Cookie"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_its_agents(program: Program, number: int, status: int) -> None:
    with serving(program, "--agent", "demo") as served:
        link = served.link()
        parts = urlsplit(link)
        assert parts.port is not None
        # A client that does not even finish its handshake keeps nothing up.
        with socket.create_connection(("127.0.0.1", parts.port), timeout=PATIENCE) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\n")
            agent = the_agent(served.process.pid)
            assert served.end(number) == (status, "")
        assert not agent.is_running()


@pytest.mark.slow
def test_viewers_get_a_link_of_their_own(program: Program) -> None:
    with serving(program, "--viewer-token", "a-token-for-those-who-look-on") as served:
        served.link()
        line = served.line()
        assert line.startswith("agentrt: view only: http://")
        assert get(line.rpartition(" ")[2]).status == 303


@pytest.mark.slow
def test_agents_do_not_inherit_the_token(program: Program) -> None:
    program.env |= {
        "AGENTRT_SERVE_TOKEN": "the-token-that-is-kept-from-agents",
        "CREDENTIALS_DIRECTORY": "/run/credentials/it",
        "PGPASSFILE": "/run/credentials/it/pgpass",
        "HTTP_AUTHORIZATION": "x",
        "OTEL_EXPORTER_OTLP_HEADERS": "x",
    }
    with serving(program, "--agent", "demo") as served:
        served.link()
        assert "AGENTRT_SERVE_TOKEN" in psutil.Process(served.process.pid).environ()
        its = the_agent(served.process.pid).environ()
        assert its.keys() & {"AGENTRT_SERVE_TOKEN", "CREDENTIALS_DIRECTORY", "PGPASSFILE"} == set()
        assert its.keys() & {"HTTP_AUTHORIZATION", "OTEL_EXPORTER_OTLP_HEADERS"} == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--host", "0.0.0.0"], 2, "--allow-host"),
        (["--host", "0.0.0.0", "--token", "x" * 20], 2, "--allow-host"),
        (["--host", "0.0.0.0", "--allow-host", "agents.example"], 2, "--token"),
        (["--token", "short"], 2, "16 characters"),
        (["--allow-host", "http://x"], 2, "is not NAME or NAME:PORT"),
        (["--allow-origin", "pages.example"], 2, "is not a valid origin"),
        (["--root", "/no/such/folder"], 2, "/no/such/folder is not a folder"),
        (["--port", "70000"], 2, "serve"),
        (["--port", "x"], 2, "invalid int value"),
        (["--agent", "nobody"], 4, "nobody"),
        (["--host", "192.0.2.1", "--token", "x" * 20, "--allow-host", "a"], 1, "cannot serve on"),
        (["--command", "true"], 1, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_said(
    program: Program, arguments: list[str], status: int, words: str
) -> None:
    done = program.run("serve", *arguments, status=status)
    assert words in done.stderr
    assert done.stderr.startswith("agentrt: ")


@pytest.mark.slow
def test_a_second_server_on_the_same_store_is_refused_with_the_pid_of_the_first(
    program: Program,
) -> None:
    with serving(program) as served:
        served.link()
        done = program.run("serve", status=2)
        assert f"process {served.process.pid}" in done.stderr
        assert (program.home / ".local/state/agentrt/journal.db").is_file()


@pytest.mark.slow
def test_without_a_store_several_servers_run_beside_each_other(program: Program) -> None:
    with serving(program, "--store", "off") as first:
        first.link()
        with serving(program, "--store", "memory") as second:
            second.link()
    assert not list((program.home / ".local/state/agentrt").glob("*.db*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "status"), [(b"SQLite format 3\0" + b"x" * 5000, 3), (b"some text\n" * 100, 3)]
)
def test_a_damaged_store_is_said_and_left_alone(
    program: Program, content: bytes, status: int
) -> None:
    path = program.folder / "kept.db"
    path.write_bytes(content)
    done = program.run("serve", "--store", f"sqlite:{path}", status=status)
    assert str(path) in done.stderr
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = program.run("serve", "--port", str(port), status=1)
    assert f"cannot serve on 127.0.0.1 port {port}" in done.stderr


@pytest.mark.slow
def test_a_conversation_is_taken_up_again(program: Program) -> None:
    done = program.run(*FAST_DEMO, "-p", "read notes.txt", "--output-format", "json")
    session = json.loads(done.stdout)["session"]
    with serving(program, "--agent", "demo", "--resume", session) as served:
        served.link()
        agent = the_agent(served.process.pid)
        assert agent.is_running()
        assert served.end(signal.SIGTERM) == (143, "")
    moved = program.home / "moved"
    moved.mkdir()
    with serving(program, "--agent", "demo", "--resume", session, "--cwd", str(moved)) as served:
        served.link()
        assert the_agent(served.process.pid).cwd() == str(moved)
        assert served.end(signal.SIGTERM) == (143, "")
    with serving(program, "--agent", "demo", "--resume", "no-such-session") as served:
        _, err = served.process.communicate(timeout=PATIENCE)
        assert served.process.returncode == 4, err


@pytest.mark.parametrize(
    "said", [("-p", "x"), ("--json-schema", "{}"), ("--last-message", "x"), ("--system", "x")]
)
def test_what_is_for_a_conversation_of_ones_own_is_not_taken_in_silence(
    program: Program, said: tuple[str, str]
) -> None:
    for command in ("serve", "agents"):
        done = program.run(*said, command, status=2)
        assert f"{said[0]} does not apply to `agentrt {command}`" in done.stderr


@pytest.mark.slow
def test_a_token_that_others_can_read_is_warned_of(program: Program) -> None:
    config = program.home / "config.toml"
    config.write_text(f'[serve]\nmetrics_token = "{"x" * 20}"\n')
    config.chmod(0o644)
    program.env["AGENTRT_CONFIG"] = str(config)
    wrong = ("serve", "--role", "gateway", "--token", "y" * 20)  # ends at once
    told = program.run(*wrong, status=2).stderr
    assert "can read --token on the command line; set AGENTRT_SERVE_TOKEN" in told
    assert f"can read the tokens in {config}" in told
    config.chmod(0o640)
    told = program.run("serve", "--role", "gateway", status=2).stderr
    assert "can read" not in told
