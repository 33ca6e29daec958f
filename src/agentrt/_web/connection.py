"""One WebSocket: a task that reads, one that writes, one that asks whether the client lives.

Reading never waits for writing, and every wait has an end: a client that does not read, does not
answer a ping, sends too much or too fast, or is not welcome any more loses its connection and
nothing else. What a session does is none of the connection's business.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio
from msgspec import json
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from .._limits import Limits
from .._nesting import bare_errors
from .frames import Bucket, Meter, close_frame, largest
from .http import Upgrade
from .refusal import Code, Refusal
from .security import Role
from .stream import Wire
from .viewer import Viewer

logger = logging.getLogger(__name__)

BROKE_THE_RULES: Final = (1002, 1007)
"""Closes for which trio-websocket drops the connection without a word."""


class Connection:
    """A WebSocket from its handshake to its end."""

    def __init__(
        self, stream: trio.abc.Stream, upgrade: Upgrade, limits: Limits, role: Role | None
    ) -> None:
        self.over = trio.Event()
        """Set at the end of `run`."""
        self._limits = limits
        self._protocol = upgrade.protocol
        self.dialect = upgrade.dialect
        self._closing = trio.Event()
        self.refusal: Refusal | None = None
        """Why the server ends it; None if the client does."""
        self._largest = largest(limits, role)
        rate = limits.ws_frames
        self._wire = Wire(
            stream,
            upgrade.head,
            upgrade.rest,
            meter=Meter(self._largest, Bucket(rate, 2 * rate)),
            refused=self.refuse,
            patience=limits.ws_write,
        )

    def refuse(self, refusal: Refusal) -> None:
        """Have the client told why, and the connection closed. The first reason counts."""
        if self.refusal is None:
            self.refusal = refusal
        self._closing.set()

    async def run(self, attach: Callable[[], Viewer]) -> None:
        """Accept the handshake, and serve until either side ends it: in bounded time once `refuse`
        was called, which may be before this.

        Raises what says that the client is gone (`trio.BrokenResourceError`) or does not read
        (`trio.TooSlowError`), in a group. Cancelling it ends the connection without a word.
        """
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(self._wire.pump)
                request = await wrap_server_stream(
                    nursery, self._wire, max_message_size=self._largest
                )
                socket = await request.accept(
                    subprotocol=self._protocol, extra_headers=self._headers()
                )
                self._wire.accepted.set()
                if not self._closing.is_set():
                    await self._serve(socket, attach)
                await self._close(socket)
                nursery.cancel_scope.cancel()
        finally:
            self.over.set()

    def _headers(self) -> list[tuple[bytes, bytes]]:
        name = self.dialect.names_connection
        return [] if name is None else [(name.encode(), secrets.token_hex(16).encode())]

    async def _serve(self, socket: WebSocketConnection, attach: Callable[[], Viewer]) -> None:
        viewer = None
        with self._guard():
            viewer = attach()
        if viewer is None:
            return
        viewer.connect(self._wire)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                for job in (self._read, self._write, self._ping):
                    nursery.start_soon(self._guarded, job, socket, viewer)
                await self._closing.wait()
                nursery.cancel_scope.cancel()
        finally:
            viewer.close()

    async def _guarded(
        self,
        job: Callable[[WebSocketConnection, Viewer], Awaitable[None]],
        socket: WebSocketConnection,
        viewer: Viewer,
    ) -> None:
        with self._guard():
            await job(socket, viewer)

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

    async def _read(self, socket: WebSocketConnection, viewer: Viewer) -> None:
        while True:
            message = await socket.get_message()
            if isinstance(message, bytes):
                self.refuse(Refusal(Code.UNSUPPORTED, "messages are text, not binary"))
                return
            viewer.receive(message)
            await viewer.caught_up()

    async def _write(self, _: WebSocketConnection, viewer: Viewer) -> None:
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

    async def _ping(self, socket: WebSocketConnection, _: Viewer) -> None:
        while True:
            await trio.sleep(self._limits.ping)
            with trio.fail_after(self._limits.ping):
                await socket.ping()

    async def _close(self, socket: WebSocketConnection) -> None:
        """Say why, close, and see that it gets out, each in bounded time.

        trio-websocket's own close breaks on a ping that comes behind it, and waits for ever.
        """
        if socket.closed is None and self.refusal is not None:
            code, reason = self.refusal.code, self.refusal.reason
            if self.dialect.says_closing:
                self._wire.put(json.encode({"type": "closing", "reason": reason}))
            self._wire.write(close_frame(code, reason))
            self._wire.discard_input()
            with trio.move_on_after(self._limits.ws_close):
                await self._wire.over.wait()
        elif socket.closed is not None and socket.closed.code in BROKE_THE_RULES:
            self._wire.write(close_frame(socket.closed.code))
        with trio.fail_after(self._limits.ws_close):  # else what the kernel holds goes as well
            await self._wire.drained()
