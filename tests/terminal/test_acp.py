"""`agentrt acp` as a program: its streams, its end, and what it refuses."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from program import FAST_DEMO, PATIENCE, Program, read_some
from test_serve import serving, the_agent

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}


class Editor:
    """What has started it, on pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._left = b""

    def send(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def message(self) -> Any:
        while b"\n" not in self._left:
            data = read_some(self.process.stdout)
            assert data, self.process.communicate(timeout=PATIENCE)
            self._left += data
        line, _, self._left = self._left.partition(b"\n")
        return json.loads(line)  # there is nothing else on standard output

    def answer(self, id: object) -> Any:
        """The answer to that request, behind whatever else is said."""
        while (message := self.message()).get("id", "none") != id or "method" in message:
            pass
        return message

    def new(self, program: Program) -> str:
        params = {"cwd": str(program.folder), "mcpServers": []}
        self.send(
            INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params}
        )
        self.answer(1)
        return str(self.answer(2)["result"]["sessionId"])

    def prompt(self, session: str, text: str) -> None:
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        self.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params})


@contextmanager
def editing(program: Program, *arguments: str) -> Iterator[Editor]:
    with program.start("acp", *arguments) as process:
        try:
            yield Editor(process)
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_it_and_its_agents(program: Program, number: int, status: int) -> None:
    program.fresh = True
    with editing(program, "--agent", "demo") as editor:
        editor.prompt(editor.new(program), "/slow")
        agent = the_agent(editor.process.pid)
        editor.process.send_signal(number)
        _, err = editor.process.communicate(timeout=PATIENCE)
        assert (editor.process.returncode, err) == (status, b"")
        assert not agent.is_running()


@pytest.mark.slow
def test_an_editor_that_is_gone_takes_its_agents_with_it(program: Program) -> None:
    program.fresh = True
    with editing(program, "--agent", "demo") as editor:
        assert editor.process.stdin is not None
        assert editor.process.stdout is not None
        editor.prompt(editor.new(program), "/slow")
        agent = the_agent(editor.process.pid)
        editor.process.stdin.close()
        editor.process.stdout.close()
        assert editor.process.wait(PATIENCE) in (0, 141)
        agent.wait(PATIENCE)


@pytest.mark.slow
def test_a_session_of_an_editor_is_one_of_the_terminal_s_and_back(program: Program) -> None:
    with editing(program, *FAST_DEMO) as editor:
        session = editor.new(program)
        editor.prompt(session, "/markdown")
        assert editor.answer(3)["result"]["stopReason"] == "end_turn"
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert editor.process.wait(PATIENCE) == 0
    assert session in program.run("sessions", "--json").stdout


@pytest.mark.slow
def test_a_running_server_is_found_with_its_token(program: Program) -> None:
    with serving(program, "--agent", "demo") as served:
        served.link()
        [file] = (program.home / ".local/state/agentrt/servers").glob("*.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        for _ in range(2):  # it is found as long as it serves
            with editing(program, "--attach") as editor:
                session = editor.new(program)
                editor.prompt(session, "/markdown")
                assert editor.answer(3)["result"]["stopReason"] == "end_turn"
        served.end(signal.SIGTERM)
        assert not file.exists()


@pytest.mark.slow
def test_a_session_of_the_server_is_named_by_the_beginning_of_its_id(program: Program) -> None:
    with serving(program, "--agent", "demo") as served:
        served.link()
        with editing(program, "--attach") as editor:
            session = editor.new(program)
            editor.prompt(session, "/markdown")
            editor.answer(3)
        with editing(program, "--attach", "--session", session[:8]) as editor:
            assert editor.new(program) == session
        with editing(program, "--attach", "--session", "nothing") as editor:
            params = {"cwd": str(program.folder), "mcpServers": []}
            request = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params}
            editor.send(INITIALIZE, request)
            assert "no session 'nothing'" in editor.answer(2)["error"]["message"]


@pytest.mark.slow
def test_a_server_that_stands_still_does_not_keep_the_editor_waiting(program: Program) -> None:
    with serving(program, "--agent", "demo") as served:
        served.link()
        served.process.send_signal(signal.SIGSTOP)
        try:
            done = program.run("acp", "--attach", "--session", "x", status=1)
        finally:
            served.process.send_signal(signal.SIGCONT)
        assert "does not answer" in done.stderr


@pytest.mark.slow
def test_a_server_that_was_killed_is_not_found(program: Program) -> None:
    with serving(program) as served:
        link = served.link()
        agents = psutil.Process(served.process.pid).children(recursive=True)
        served.process.kill()
        served.process.wait()
        for each in agents:
            each.wait(PATIENCE)
    url = link.partition("/?")[0]
    assert "you have no running server" in program.run("acp", "--attach", status=1).stderr
    told = program.run("acp", "--attach", url, status=1).stderr
    assert f"no known server at {url}" in told
    program.env["AGENTRT_SERVE_TOKEN"] = "a-token-that-somebody-has-said"
    assert "no server can be reached" in program.run("acp", "--attach", url, status=1).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--session", "x", "--agent", "demo"], "--session requires --attach"),
        (["--attach", "ftp://here"], "is not a server URL"),
        (["--attach", "127.0.0.1:99999"], "'127.0.0.1:99999' is not a server URL"),
        (["--attach", "--session", "x", "--agent", "demo"], "are for a new session"),
        (["--attach", "--session", ""], "--session requires an id"),
        (["--attach", ""], "the server's URL is empty"),
        (["--attach="], "the server's URL is empty"),
        (["--attach", "http://127.0.0.1:1", "--store", "off"], "--store is set on the server"),
        (["--attach", "http://127.0.0.1:1", "--allow", "Read"], "--allow is set on the server"),
        (["--agent", "nobody"], "nobody"),
    ],
)
def test_what_makes_no_sense_is_refused(program: Program, arguments: list[str], words: str) -> None:
    done = program.run("acp", *arguments, status=None)
    assert done.returncode == (4 if words == "nobody" else 2)
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("more", [(), ("--session", "x")])
def test_what_is_no_server_is_said_to_be_none(program: Program, more: tuple[str, ...]) -> None:
    program.env["AGENTRT_SERVE_TOKEN"] = "a-token-that-somebody-has-said"
    done = program.run("acp", "--attach", "http://127.0.0.1:1", *more, status=1)
    assert "no server can be reached at http://127.0.0.1:1" in done.stderr


def test_standard_output_is_the_protocol_s_alone(program: Program) -> None:
    """Warnings go to standard error."""
    (program.folder / ".agentrt.toml").write_text('agent = "claude"\n')
    with editing(program, "--agent", "demo", "--store", "off") as editor:
        editor.new(program)
        editor.process.send_signal(signal.SIGTERM)
        _, err = editor.process.communicate(timeout=PATIENCE)
    assert b"warning" in err


def test_a_closed_standard_input_is_an_ended_one(program: Program) -> None:
    with program.start("acp", "--agent", "demo", stdin=subprocess.DEVNULL) as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, b"", b"")
