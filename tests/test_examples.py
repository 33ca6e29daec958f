"""Each program in `examples/` does what its docstring says, on the demo agent."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio_websocket import open_websocket_url

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


@contextlib.contextmanager
def serving(folder: Path, *command: object, port: int, **env: str) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**environment(folder), "PYTHONWARNINGS": "ignore", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        try:
            while f":{port}" not in (line := server.stderr.readline()):
                assert line, server.poll()
            yield
        finally:
            server.terminate()
            server.communicate(timeout=TIMEOUT_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def get(address: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection(address, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_everybody_in_a_chat_room_sees_the_same_session(folder: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"

    async def chat(origin: str) -> list[dict[str, Any]]:
        headers = [(b"Origin", origin.encode())]
        events = []
        async with (
            open_websocket_url(f"ws://{address}/chat", extra_headers=headers) as ann,
            open_websocket_url(f"ws://{address}/chat", extra_headers=headers) as bob,
        ):
            await ann.send_message(json.dumps({"prompt": "create note.txt with hello"}))
            while not events or events[-1]["kind"] != "turn.ended":
                events.append(json.loads(await bob.get_message()))
                if events[-1]["kind"] == "permission.opened":
                    said = {"answer": events[-1]["request"], "allow": True}
                    await bob.send_message(json.dumps(said))
        return events

    with serving(folder, EXAMPLES / "chat_server.py", port, port=port):
        assert trio.run(chat, f"http://{address}")[-1]["outcome"] == "completed"
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Origin": "https://other.example",
        }
        assert get(address, "/chat", upgrade)[0] == 403
        status, page = get(address, "/", {})
    assert (folder / "note.txt").read_text() == "hello\n"
    assert (status, page) == (200, (EXAMPLES / "chat_page.html").read_text())


def test_a_user_reaches_only_sessions_of_their_own(folder: Path) -> None:
    port = free_port()
    users = json.dumps({"token-of-ann": "ann", "token-of-bob": "bob"})

    def ask(token: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    command = ("-m", "uvicorn", "--port", port, "--app-dir", EXAMPLES, "fastapi_login:app")
    with serving(folder, *command, port=port, APP_USERS=users):
        assert ask("another", "POST", "/sessions")[0] == 401
        _, created = ask("token-of-ann", "POST", "/sessions")
        prompts = f"/sessions/{created['session']}/prompts"
        text = {"text": "read README.md"}
        assert ask("token-of-bob", "POST", prompts, text)[0] == 404
        assert ask("token-of-bob", "GET", "/sessions") == (200, [])
        assert ask("token-of-ann", "GET", "/sessions") == (200, [created["session"]])
        status, result = ask("token-of-ann", "POST", prompts, text)
        assert (status, result["outcome"]) == (200, "completed")
        requests = prompts.replace("/prompts", "/requests")
        assert ask("token-of-ann", "GET", requests) == (200, {})


def test_every_example_is_in_the_list() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"({path.name})" not in text] == []
