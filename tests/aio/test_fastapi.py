"""The example of the documentation, under a real uvicorn and over real sockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from trio_websocket import open_websocket_url

from aio.kit import PATIENCE, PROGRAMS, processes

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of the application; afterwards it has ended by itself, in peace."""
    listener = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-m", "uvicorn", "--fd", str(listener.fileno())]
    program = subprocess.Popen(
        [*command, "--log-level", "warning", "--app-dir", str(EXAMPLES), "fastapi_app:app"],
        cwd=folder,
        pass_fds=[listener.fileno()],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    try:
        with listener:
            yield listener.getsockname()[1]
    except BaseException:
        program.kill()
        raise
    else:
        program.send_signal(signal.SIGINT)
    finally:
        _, errors = program.communicate(timeout=3 * PATIENCE)
    assert "Traceback" not in errors, errors
    assert "never" not in errors, errors


@contextmanager
def asked(port: int, method: str, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3 * PATIENCE)
    with closing(connection):
        connection.request(method, path)
        with connection.getresponse() as answer:
            yield answer


def new_session(port: int) -> str:
    with asked(port, "POST", "/sessions") as answer:
        return str(json.loads(answer.read())["session"])


@contextmanager
def turn(port: int, session: str, prompt: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a turn; leaving the block goes away."""
    with asked(port, "GET", f"/sessions/{session}/ask?prompt={quote(prompt)}") as answer:
        lines = iter(answer.readline, b"")
        yield (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))


def test_events_are_streamed_and_who_goes_away_has_cancelled_the_turn(tmp_path: Path) -> None:
    with served(tmp_path) as port:
        session = new_session(port)
        with turn(port, session, "/slow 60") as events:
            assert next(events)["kind"] == "turn.started"
        with turn(port, session, "list the files") as events:
            assert [*events][-1]["outcome"] == "completed"
        new_session(port)  # and the server ends with sessions open


async def test_a_message_cancels_the_task_that_is_in_a_turn(tmp_path: Path) -> None:
    with served(tmp_path) as port, trio.fail_after(3 * PATIENCE):
        session = await trio.to_thread.run_sync(new_session, port)
        url = f"ws://127.0.0.1:{port}/sessions/{session}/ws"
        async with open_websocket_url(url) as client:
            await client.send_message(json.dumps({"prompt": "/slow 60"}))
            assert json.loads(await client.get_message())["kind"] == "turn.started"
            await client.send_message(json.dumps({"stop": True}))
            await client.send_message(json.dumps({"prompt": "list the files"}))
            outcome = None
            while outcome is None:
                outcome = json.loads(await client.get_message()).get("outcome")
            assert outcome == "completed"


async def test_applications_cancel_a_turn_from_their_own_task_one_after_the_other(
    tmp_path: Path,
) -> None:
    """Each waits for its cancelled task before it ends."""
    for _ in range(PROGRAMS):
        with served(tmp_path) as port, trio.fail_after(3 * PATIENCE):
            session = await trio.to_thread.run_sync(new_session, port)
            url = f"ws://127.0.0.1:{port}/sessions/{session}/ws"
            async with open_websocket_url(url) as client:
                await client.send_message(json.dumps({"prompt": "/slow 60"}))
                assert json.loads(await client.get_message())["kind"] == "turn.started"
                await client.send_message(json.dumps({"stop": True}))
        assert processes() == []
