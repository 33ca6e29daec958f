"""What trio-websocket is given for a socket: a stream whose sending never waits.

trio-websocket answers pings in the task that reads, behind the lock that a blocked send holds: a
client that stops reading and then pings would never have its next message read. And a send that is
cancelled half-way leaves a frame open that swallows the ones behind it. Here every send only puts a
whole frame behind the others, and one task writes out what there is no room for at once.

Text frames do not come through trio-websocket at all: what all viewers share is framed by a few
bytes ahead of it (`put`), for a quarter of the CPU (`benchmarks/README.md`).
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from .frames import CLOSE, FIN, Meter, head
from .refusal import Refusal

CHUNK: Final = 64 * 1024
"""Bytes that are read at once; and that a client must take within the write deadline."""


class Wire(trio.abc.Stream):
    """The stream between trio-websocket and the network.

    - `rest`: what the client has sent already, behind its handshake.
    - `meter`: sees what the client sends before anything else does. When it refuses, `refused` is
      called, and trio-websocket hears no more: the rest is read, so that it does not reset the
      connection and destroy our last words, and forgotten.
    - `patience`: seconds in which the client must take each chunk.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        rest: bytes = b"",
        *,
        meter: Meter,
        refused: Callable[[Refusal], None],
        patience: float,
    ) -> None:
        self._stream = stream
        self._rest = rest
        self._meter = meter
        self._refused = refused
        self._patience = patience
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._closed = False
        self._waiting: deque[memoryview] = deque()
        self._writing = False
        self._more = trio.Event()
        self._empty = trio.Event()

    # --- out

    def put(self, text: bytes) -> None:
        """Have a text written as one frame behind all others."""
        self.write(head(len(text)), text)

    def write(self, *parts: bytes) -> None:
        """Have whole frames, in as many parts as they came in, written behind all others; behind a
        close frame there is nothing. What has to wait is kept as it is, and not copied: many may
        wait for the same bytes."""
        if self._closed:
            return
        self._closed = parts[0][0] == FIN | CLOSE
        out = 0
        if self._socket is not None and self.written:
            # Nearly always there is room, and waking the pump costs ten times as much.
            try:
                out = os.writev(self._socket.fileno(), parts)
            except OSError:
                pass  # full, or gone: the pump will see
            if out == sum(map(len, parts)):
                return
        for part in parts:
            if out < len(part):
                self._waiting.append(memoryview(part)[out:])
            out = max(0, out - len(part))
        if self._waiting:
            self._more.set()

    @property
    def written(self) -> bool:
        """Whether the network has taken everything."""
        return not self._waiting and not self._writing

    async def drained(self) -> None:
        """Wait until it has. Cancelling it changes nothing."""
        while not self.written:
            await self._empty.wait()

    async def pump(self) -> None:
        """Write, until cancelled: then half a frame may be out, and the connection must end.

        Raises `trio.TooSlowError` if the client does not read, `trio.BrokenResourceError` if it is
        gone.
        """
        while True:
            await self._more.wait()
            self._more = trio.Event()
            self._writing = True
            while self._waiting:
                with trio.fail_after(self._patience):
                    await self._stream.send_all(self._chunk())
            self._writing = False
            self._empty.set()
            self._empty = trio.Event()

    def _chunk(self) -> bytes | memoryview:
        """The next bytes that wait: a piece of a long part, or many short ones together."""
        first = self._waiting.popleft()
        if len(first) > CHUNK:
            self._waiting.appendleft(first[CHUNK:])
            return first[:CHUNK]
        parts, size = [first], len(first)
        while self._waiting and size + len(self._waiting[0]) <= CHUNK:
            parts.append(self._waiting.popleft())
            size += len(parts[-1])
        return first if len(parts) == 1 else b"".join(parts)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.write(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    # --- in

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        refused = False
        while data := await self._receive():
            try:
                self._meter.feed(data, trio.current_time())
            except Refusal as refusal:
                refused = True
                self._refused(refusal)
            if not refused:
                return data
        return b""

    async def _receive(self) -> bytes:
        if self._rest:
            await trio.lowlevel.checkpoint()
            data, self._rest = self._rest, b""
            return data
        return bytes(await self._stream.receive_some(CHUNK))

    async def aclose(self) -> None:
        """Nothing: the socket is closed by who opened it, once the last words are written."""
        await trio.lowlevel.checkpoint()


async def abort(stream: trio.abc.Stream) -> None:
    """Drop a connection with all that the kernel still holds for it."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if isinstance(transport, trio.SocketStream):
        try:
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, trio.ClosedResourceError):
            pass  # closed meanwhile
    await trio.aclose_forcefully(stream)
