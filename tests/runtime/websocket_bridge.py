"""A program that speaks lines, behind a WebSocket: what somebody at the other end would run."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    WebSocketRequest,
    serve_websocket,
)


class Bridge:
    """Starts the program anew for each connection."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.command = command
        self.env = env
        self.url = ""
        self.connections: list[WebSocketConnection] = []
        self.headers: list[dict[str, str]] = []
        self.ended = 0
        """Programs that are over."""

    async def serve(self, request: WebSocketRequest) -> None:
        headers = {name.decode(): value.decode() for name, value in request.headers}
        self.headers.append(headers)
        if headers.get("authorization") == "Bearer wrong":
            await request.reject(401)
            return
        socket = await request.accept()
        self.connections.append(socket)
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=self.env,
                    check=False,
                )
            )
            nursery.start_soon(_out, process, socket)
            assert process.stdin is not None
            try:
                while True:
                    message = await socket.get_message()
                    assert isinstance(message, str)
                    await process.stdin.send_all(message.encode() + b"\n")
            except ConnectionClosed:
                await process.stdin.aclose()
        self.ended += 1


async def _out(process: trio.Process, socket: WebSocketConnection) -> None:
    assert process.stdout is not None
    rest = b""
    async for data in process.stdout:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            try:
                await socket.send_message(line.decode())
            except ConnectionClosed:
                rest = b""
    await socket.aclose()


@asynccontextmanager
async def bridge(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[Bridge]:
    """A program at `url`, while the block runs; `context`: behind TLS."""
    served = Bridge(command, env)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(serve_websocket, served.serve, "127.0.0.1", 0, ssl_context=context)
        )
        scheme = "ws" if context is None else "wss"
        served.url = f"{scheme}://127.0.0.1:{server.port}/agent"
        yield served
        nursery.cancel_scope.cancel()
