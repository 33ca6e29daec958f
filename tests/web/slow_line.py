"""A WebSocket client on a line that carries few bytes, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from web.sockets import Client, handshake, offer

PIECE_BYTES = 2048
"""Bytes that the client takes at a time."""

WINDOW_BYTES = 8192
"""Bytes that the client's kernel takes before the client reads them."""


class SlowStream:
    """A TCP stream that is read in small pieces and counts what arrives.

    `bytes_per_s`: wait for as long as a line of this rate needs; 0 for no wait.
    """

    def __init__(self, stream: trio.SocketStream, bytes_per_s: float = 0) -> None:
        self._stream = stream
        self._bytes_per_s = bytes_per_s
        self.received_bytes = 0

    async def receive_some(self, most_bytes: int | None = None) -> bytes:
        data = bytes(await self._stream.receive_some(PIECE_BYTES))
        self.received_bytes += len(data)
        if self._bytes_per_s:
            await trio.sleep(len(data) / self._bytes_per_s)
        return data

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)


@asynccontextmanager
async def slow_line(
    port: int, *, bytes_per_s: float = 0
) -> AsyncIterator[tuple[Client, SlowStream]]:
    """A connection whose handshake was answered. It is reset at the end."""
    end = trio.socket.socket()
    end.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, WINDOW_BYTES)
    try:
        await end.connect(("127.0.0.1", port))
        stream = SlowStream(trio.SocketStream(end), bytes_per_s)
        client = Client(stream)  # type: ignore[arg-type]
        await client.send(handshake(port, sec_websocket_protocol=offer()))
        assert await client.read_head() == 101, client.head
        yield client, stream
    finally:
        end.close()
