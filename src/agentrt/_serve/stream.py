"""The stream that trio-websocket uses as its socket; sending on it never waits.

trio-websocket answers pings in the task that reads, while holding a lock that a blocked send also
holds: a client that stops reading and then pings would never have its next message read. And a send
that is cancelled midway leaves an open frame that swallows the following ones. Here every send only
queues a whole frame, and one task writes the data for which there was no room.

Text frames bypass trio-websocket: data for all viewers is framed by a few bytes in front of it
(`put`), for a quarter of the CPU time (`benchmarks/README.md`).
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from .frames import CLOSE_OPCODE, FIN_BIT, Meter, head
from .refusal import ConnectionRefusal

CHUNK_BYTES: Final = 64 * 1024
"""Maximum bytes of one read."""

WRITE_BYTES: Final = 16 * 1024
"""Maximum bytes that a client must take within the write deadline."""


class Wire(trio.abc.Stream):
    """The stream between trio-websocket and the network.

    - `rest`: bytes that the client has already sent after its handshake.
    - `meter`: sees the client's data first. If it raises `ConnectionRefusal`, `refused` is
      called and trio-websocket gets no more data. The rest is read and discarded, so that it does
      not reset the connection and destroy the last messages.
    - `write_timeout_s`: seconds within which the client must take each chunk.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        rest: bytes = b"",
        *,
        meter: Meter,
        refused: Callable[[ConnectionRefusal], None],
        write_timeout_s: float,
    ) -> None:
        self._stream = stream
        self._rest = rest
        self._meter = meter
        self._refused = refused
        self._write_timeout_s = write_timeout_s
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._poll: select.poll | None = None
        if isinstance(stream, trio.SSLStream) and (transport := _transport(stream)) is not None:
            self._poll = select.poll()
            self._poll.register(transport.socket.fileno(), select.POLLOUT)
        self._closed = False
        self._waiting: deque[memoryview] = deque()
        self._writing = False
        self._more = trio.Event()
        self._empty = trio.Event()
        self.moved_bytes = 0
        """Bytes that were received, and bytes that waited until the network took them.

        As long as this grows, the client is there, even if it has not answered a ping yet. Bytes
        for which the kernel had room do not count: it takes them for a client that is gone, too.
        """

    # --- sending

    def put(self, text: bytes) -> None:
        """Queue a text to be written as one frame."""
        self.write(head(len(text)), text)

    def write(self, *parts: bytes) -> None:
        """Queue whole frames, given in any number of parts.

        Nothing is written after a close frame. Waiting parts are kept without copying them, because
        many connections may wait for the same bytes.
        """
        if self._closed:
            return
        self._closed = parts[0][0] == FIN_BIT | CLOSE_OPCODE
        out = 0
        if self._socket is not None and not self._waiting and not self._writing:
            # There is nearly always room, and waking the pump costs ten times as much.
            try:
                out = os.writev(self._socket.fileno(), parts)
            except OSError:
                pass  # full, or gone: the pump notices it
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
        """True if the network has taken everything."""
        return not self._waiting and not self._writing

    async def drained(self) -> None:
        """Wait until the network has taken everything. Cancelling it changes nothing."""
        while not self.written:
            await self._empty.wait()

    async def pump(self) -> None:
        """Write until cancelled. After that, part of a frame may be written, and the connection
        must end.

        Raises `trio.TooSlowError` if the client does not read, `trio.BrokenResourceError` if it is
        gone.
        """
        while True:
            await self._more.wait()
            self._more = trio.Event()
            self._writing = True
            has_waited = self._is_full()
            while self._waiting:
                chunk = self._chunk()
                with trio.fail_after(self._write_timeout_s):
                    await self._stream.send_all(chunk)
                if has_waited:
                    self.moved_bytes += len(chunk)
                has_waited = has_waited or self._is_full()
            self._writing = False
            self._empty.set()
            self._empty = trio.Event()

    def _is_full(self) -> bool:
        """True if the kernel has no room for the bytes that wait.

        Over TLS all bytes come to the pump, so the kernel is asked. Otherwise only those come that
        it has not taken.
        """
        return self._poll is None or not self._poll.poll(0)

    def _chunk(self) -> bytes | memoryview:
        """Return the next waiting bytes: a piece of a long part, or many short parts together."""
        first = self._waiting.popleft()
        if len(first) > WRITE_BYTES:
            self._waiting.appendleft(first[WRITE_BYTES:])
            return first[:WRITE_BYTES]
        parts, size = [first], len(first)
        while self._waiting and size + len(self._waiting[0]) <= WRITE_BYTES:
            parts.append(self._waiting.popleft())
            size += len(parts[-1])
        return first if len(parts) == 1 else b"".join(parts)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Queue a whole frame. Never waits for the network."""
        await trio.lowlevel.checkpoint()
        self.write(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Return immediately, because sending never blocks."""
        await trio.lowlevel.checkpoint()

    # --- receiving

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive data that the meter accepts. After a refusal, discard data until the end."""
        refused = False
        while data := await self._receive():
            self.moved_bytes += len(data)
            try:
                self._meter.feed(data, trio.current_time())
            except ConnectionRefusal as refusal:
                refused = True
                self._refused(refusal)
            if not refused:
                return data
        return b""

    async def _receive(self) -> bytes:
        """Return the bytes that came with the handshake first, then those of the stream."""
        if self._rest:
            await trio.lowlevel.checkpoint()
            data, self._rest = self._rest, b""
            return data
        return bytes(await self._stream.receive_some(CHUNK_BYTES))

    async def aclose(self) -> None:
        """Do nothing: the socket's owner closes it, once the last messages are written."""
        await trio.lowlevel.checkpoint()


async def abort(stream: trio.abc.Stream) -> None:
    """Reset a connection, discarding everything that the kernel still holds for it."""
    if (transport := _transport(stream)) is not None:
        try:
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, trio.ClosedResourceError):
            pass  # closed in the meantime
    await trio.aclose_forcefully(stream)


def _transport(stream: trio.abc.Stream) -> trio.SocketStream | None:
    """Return the stream on a socket that this stream is, or that its TLS runs on."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    return transport if isinstance(transport, trio.SocketStream) else None
