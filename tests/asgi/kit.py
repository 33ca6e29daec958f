"""Real ASGI servers on loopback, and clients of what they serve."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

TOKEN = "the-token-of-the-controllers"
METRICS = "the-token-of-the-metrics"
PATIENCE = 20
TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "docs" / "examples"

SERVERS = {
    "hypercorn": [
        "hypercorn",
        "-k",
        "trio",
        "-w",
        "0",
        "--graceful-timeout",
        "1",
        "--bind",
        "fd://{fd}",
    ],
    "uvicorn": ["uvicorn", "--log-level", "warning", "--fd", "{fd}"],
}


class Served:
    """A server that runs; `errors` is what it wrote, once it has ended."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.errors = ""
        self.status: int | None = None


@contextmanager
def served(
    server: str, app: str, folder: Path, *, end: signal.Signals = signal.SIGTERM, **env: str
) -> Iterator[Served]:
    """An application under a server of its own process, which afterwards has ended by itself."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = Served(listener.getsockname()[1])
    command = [part.format(fd=listener.fileno()) for part in SERVERS[server]]
    program = subprocess.Popen(
        [sys.executable, "-m", *command, app],
        cwd=folder,
        pass_fds=[listener.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{EXAMPLES}:{TESTS}",
            "PYTHONWARNINGS": "ignore",
            "AGENTRT_TOKEN": TOKEN,
            "AGENTRT_URL": f"http://127.0.0.1:{running.port}/",
            **env,
        },
    )
    try:
        with listener:
            yield running
    except BaseException:
        program.kill()
        raise
    else:
        program.send_signal(end)
    finally:
        _, running.errors = program.communicate(timeout=PATIENCE)
        running.status = program.returncode
        print(running.errors)


def ask(
    port: int, path: str, method: str = "GET", form: dict[str, str] | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """An answer of the server, with its body."""
    body = None
    if form is not None:
        method, body = "POST", urlencode(form)
        headers["content-type"] = "application/x-www-form-urlencoded"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def offers(token: str = TOKEN, protocol: str = "agentrt.v1") -> list[str]:
    coded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return [protocol, f"agentrt.token.{coded}"]


class Wire:
    """A client that says what it is told to, and keeps what it hears."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket
        self._numbers = 0
        self._frames: list[dict[str, Any]] = []
        self._answers: dict[str, dict[str, Any]] = {}

    async def _hear(self) -> None:
        heard = json.loads(await self.socket.get_message())
        for frame in heard if isinstance(heard, list) else [heard]:
            if frame["type"] == "ack":
                self._answers[frame["id"]] = frame
            else:
                self._frames.append(frame)

    async def next(self) -> dict[str, Any]:
        """The next frame that is no answer."""
        while not self._frames:
            await self._hear()
        return self._frames.pop(0)

    async def until(self, **wanted: object) -> dict[str, Any]:
        """The first frame, or event in one, that has these fields."""
        while True:
            frame = await self.next()
            for thing in (frame, frame.get("event", {})):
                if wanted.items() <= thing.items():
                    return thing

    async def prompt(self, session: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        await self.command("prompt", session=session, content=content)

    async def say(self, type: str, **fields: object) -> str:
        self._numbers += 1
        id = f"c{self._numbers}"
        await self.socket.send_message(json.dumps({"type": type, "id": id, **fields}))
        return id

    async def command(self, type: str, **fields: object) -> dict[str, Any]:
        id = await self.say(type, **fields)
        while id not in self._answers:
            await self._hear()
        answer = self._answers.pop(id)
        assert answer["ok"], answer
        return answer


@asynccontextmanager
async def web_socket(port: int, path: str, **options: Any) -> AsyncIterator[WebSocketConnection]:
    """As trio-websocket opens one; but the stream is closed also where the server closes first."""
    with trio.fail_after(PATIENCE):
        async with (
            await trio.open_tcp_stream("127.0.0.1", port) as stream,
            trio.open_nursery() as n,
        ):
            host = f"127.0.0.1:{port}"
            options = {"max_message_size": 1 << 26, **options}
            socket = await wrap_client_stream(n, stream, host, path, **options)
            async with socket:
                yield socket
            n.cancel_scope.cancel()


@asynccontextmanager
async def native(
    port: int, path: str = "/ws", *, token: str = TOKEN, origin: str | None = None
) -> AsyncIterator[Wire]:
    headers = [] if origin is None else [(b"Origin", origin.encode())]
    options = {"subprotocols": offers(token), "extra_headers": headers}
    async with web_socket(port, path, **options) as socket:
        yield Wire(socket)


@asynccontextmanager
async def greeted(port: int, path: str = "/ws") -> AsyncIterator[Wire]:
    async with native(port, path) as wire:
        await wire.say("hello", client="somebody", sessions=[])
        await wire.until(type="ready")
        yield wire
