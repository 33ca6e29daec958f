"""A WebSocket on the server's own stream: trio-websocket, after a handshake that was already
read.
"""

from __future__ import annotations

import weakref

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Ping, Request

from .._public import Limits
from .connection import Gone, ViewerConnection
from .frames import Bucket, Meter, largest
from .hub import ServedDialect
from .refusal import ConnectionRefusal
from .security import Role
from .stream import Wire
from .viewer import Viewer


class Socket(WebSocketConnection):
    """trio-websocket's connection for a handshake that was already read.

    It corrects two faults: a broken frame is answered by a close, and a ping after the server's
    close by nothing.
    """

    def __init__(
        self, stream: trio.abc.Stream, handshake: list[tuple[bytes, bytes]], largest: int
    ) -> None:
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.initiate_upgrade_connection(handshake, "/")
        super().__init__(stream, protocol, max_message_size=largest)

    async def accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, with the subprotocol that it offers, then start reading in the
        nursery: wsproto would lose anything read earlier.
        """
        [request] = self._wsproto.events()
        assert isinstance(request, Request)
        protocols: list[str | None] = [*request.subprotocols, None]
        await self._accept(request, protocols[0], headers)
        nursery.start_soon(self._reader_task)

    async def _handle_close_connection_event(self, event: CloseConnection) -> None:
        """Answer a broken frame with a close frame.

        A client's own close frame, after which the state is not `OPEN` any more, is answered by the
        base class.
        """
        if self._wsproto.state is ConnectionState.OPEN:  # the client has not sent a close frame
            await self._send(CloseConnection(code=event.code))
        await super()._handle_close_connection_event(event)

    async def _handle_ping_event(self, event: Ping) -> None:
        """Answer a ping, unless the server has sent its close: nothing may follow that."""
        if self._wsproto.state is ConnectionState.OPEN:
            await super()._handle_ping_event(event)


class WebSocket(ViewerConnection):
    """A WebSocket on a stream. `rest`: bytes that the client has sent after its handshake."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        handshake: list[tuple[bytes, bytes]],
        rest: bytes,
        dialect: ServedDialect,
        limits: Limits,
        role: Role | None,
    ) -> None:
        size, rate = largest(limits, role), limits.ws_frames_per_s
        me: WebSocket = weakref.proxy(self)  # the wire must not keep it
        self._wire = Wire(
            stream,
            rest,
            meter=Meter(size, Bucket(rate, 2 * rate)),
            refused=lambda refusal: me.refuse(refusal),
            write_timeout_s=limits.ws_write_timeout_s,
        )
        self._socket = Socket(self._wire, handshake, size)
        super().__init__(self._wire, dialect, limits)

    async def _accept(self, nursery: trio.Nursery, headers: list[tuple[bytes, bytes]]) -> None:
        await self._socket.accept(nursery, headers)

    async def _message(self) -> str | bytes:
        """Return the client's next message. The meter below has limited its size and rate
        already.
        """
        try:
            return await self._socket.get_message()
        except ConnectionClosed as error:
            raise Gone from error

    async def _check_alive(self, viewer: Viewer) -> None:
        """Ping the client. The answer may wait behind the data that a slow line still carries: the
        client counts as gone if nothing has moved for a whole interval.
        """
        interval = self._limits.ping_interval_s
        while True:
            await trio.sleep(interval)
            moved = self._wire.moved_bytes
            with trio.move_on_after(interval) as patience:
                try:
                    await self._socket.ping()
                except ConnectionClosed as error:
                    raise Gone from error
            if patience.cancelled_caught and self._wire.moved_bytes == moved:
                raise trio.TooSlowError

    @property
    def _open(self) -> bool:
        return self._socket.closed is None

    async def _send_close(self, refusal: ConnectionRefusal) -> None:
        await self._socket.aclose(refusal.code, refusal.reason)
