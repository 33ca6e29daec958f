"""One WebSocket: a task that reads, one that writes, one that asks whether the client lives.

Reading never waits for writing, and every wait has an end: a client that does not read, does not
answer a ping, sends too much or too fast, or is not welcome any more loses its connection and
nothing else. What a session does is none of the connection's business.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio
from msgspec import json
from trio_websocket import ConnectionClosed, WebSocketConnection
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Ping, Request

from .._limits import Limits
from .._logging import get_logger
from .._nesting import bare_errors
from .frames import Bucket, Meter, largest
from .hub import Dialect
from .refusal import Code, Refusal
from .security import Role
from .stream import Wire
from .viewer import Viewer

logger = get_logger("server")


class Socket(WebSocketConnection):
    """trio-websocket's connection for a handshake that somebody has read already, and without two
    of its faults: a broken frame is answered by a close, and a ping behind our close by nothing."""

    def __init__(
        self, stream: trio.abc.Stream, handshake: list[tuple[bytes, bytes]], largest: int
    ) -> None:
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.initiate_upgrade_connection(handshake, "/")
        super().__init__(stream, protocol, max_message_size=largest)

    async def accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, with the subprotocol that it wants, and read in the nursery from
        then on: what is read before wsproto would lose."""
        [request] = self._wsproto.events()
        assert isinstance(request, Request)
        protocols: list[str | None] = [*request.subprotocols, None]
        await self._accept(request, protocols[0], headers)
        nursery.start_soon(self._reader_task)

    async def _handle_close_connection_event(self, event: CloseConnection) -> None:
        if self._wsproto.state is ConnectionState.OPEN:  # the client has sent none
            await self._send(CloseConnection(code=event.code))
        await super()._handle_close_connection_event(event)

    async def _handle_ping_event(self, event: Ping) -> None:
        if self._wsproto.state is ConnectionState.OPEN:
            await super()._handle_ping_event(event)


class Connection:
    """A WebSocket from its handshake to its end. `rest`: what the client has sent behind that."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        handshake: list[tuple[bytes, bytes]],
        rest: bytes,
        dialect: Dialect,
        limits: Limits,
        role: Role | None,
    ) -> None:
        self.over = trio.Event()
        """Set at the end of `run`."""
        self._limits = limits
        self._dialect = dialect
        self._closing = trio.Event()
        self.refusal: Refusal | None = None
        """Why the server ends it; None if the client does."""
        size, rate = largest(limits, role), limits.ws_frames
        self._wire = Wire(
            stream,
            rest,
            meter=Meter(size, Bucket(rate, 2 * rate)),
            refused=self.refuse,
            patience=limits.ws_write,
        )
        self._socket = Socket(self._wire, handshake, size)

    def refuse(self, refusal: Refusal) -> None:
        """Say to the client why, and close the connection. The first reason counts."""
        if self.refusal is None:
            self.refusal = refusal
        self._closing.set()

    async def run(self, attach: Callable[[], Viewer] | None = None) -> None:
        """Accept the handshake, and serve until either side ends it: in bounded time once `refuse`
        was called, which may be before this; without `attach` it must have been.

        Raises what says that the client is gone (`trio.BrokenResourceError`) or does not read
        (`trio.TooSlowError`), in a group. Cancelling it ends the connection without a word.
        """
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(self._wire.pump)
                await self._socket.accept(nursery, self._headers())
                if attach is not None and not self._closing.is_set():
                    await self._serve(attach)
                await self._close()
                nursery.cancel_scope.cancel()
        finally:
            self.over.set()

    def _headers(self) -> list[tuple[bytes, bytes]]:
        name = self._dialect.names_connection
        return [] if name is None else [(name.encode(), secrets.token_hex(16).encode())]

    async def _serve(self, attach: Callable[[], Viewer]) -> None:
        viewer = None
        with self._guard():
            viewer = attach()
        if viewer is None:
            return
        viewer.connect(self._wire)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                for job in (self._read, self._write, self._ping):
                    nursery.start_soon(self._guarded, job, viewer)
                await self._closing.wait()
                nursery.cancel_scope.cancel()
        finally:
            viewer.close()

    async def _guarded(self, job: Callable[[Viewer], Awaitable[None]], viewer: Viewer) -> None:
        with self._guard():
            await job(viewer)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """A mistake in what serves this client ends its connection, and no other."""
        try:
            yield
        except ConnectionClosed:
            self._closing.set()
        except trio.TooSlowError:
            raise
        except Exception:
            logger.exception("a viewer's connection broke")
            self.refuse(Refusal(Code.BROKEN, "a mistake of the server"))

    async def _read(self, viewer: Viewer) -> None:
        while True:
            message = await self._socket.get_message()
            if isinstance(message, bytes):
                self.refuse(Refusal(Code.UNSUPPORTED, "messages are text, not binary"))
                return
            viewer.receive(message)
            await viewer.caught_up()

    async def _write(self, viewer: Viewer) -> None:
        """Take the next frame only when the last one is out, so that what waits for a slow client
        waits where it can still be merged."""
        while True:
            try:
                message = await viewer.next_frame()
            except Refusal as refusal:
                self.refuse(refusal)
                return
            self._wire.put(message)
            if not self._wire.written:
                await self._wire.drained()

    async def _ping(self, _: Viewer) -> None:
        while True:
            await trio.sleep(self._limits.ping)
            with trio.fail_after(self._limits.ping):
                await self._socket.ping()

    async def _close(self) -> None:
        """Say why, close, and see that it gets out, each in bounded time."""
        if self.refusal is not None:
            if self._dialect.says_closing and self._socket.closed is None:
                self._wire.put(json.encode({"type": "closing", "reason": self.refusal.reason}))
            with trio.move_on_after(self._limits.ws_close):
                await self._socket.aclose(self.refusal.code, self.refusal.reason)
        with trio.fail_after(self._limits.ws_close):  # else what the kernel holds goes as well
            await self._wire.drained()
