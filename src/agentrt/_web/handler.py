"""Handling of each connection, from its first byte to its last."""

from __future__ import annotations

from functools import partial

import trio

from .._logging import get_logger
from .connections import Connections
from .http import BadRequest, Response, read_request, response
from .stream import abort
from .websocket import WebSocket

logger = get_logger("server")


class ConnectionHandler:
    """Admits connections and serves them."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._limits = connections.limits
        self._count = connections.count

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection. An error in it does not affect other connections."""
        try:
            await self._handle(stream)
            with trio.move_on_after(self._limits.ws_close):
                await stream.aclose()  # TLS sends a closing message
        except* trio.TooSlowError:
            self._count.dropped += 1
            await abort(stream)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            await abort(stream)
        except* Exception:
            self._count.broken += 1
            logger.exception("a connection broke")
        finally:
            await trio.aclose_forcefully(stream)

    async def _handle(self, stream: trio.abc.Stream) -> None:
        admitted = None
        with self._connections.site.pending.place() as pending:
            try:
                request = await read_request(stream)
                if request is None:
                    return
                if not request.is_upgrade:
                    await self._answer(stream, self._connections.site.page(request), pending)
                    return
                dialect = self._connections.dialect(request.path)
                handshake = request.handshake(dialect.protocol)
            except BadRequest as error:
                self._connections.refused(error)
                if error.status == 401:
                    await self._connections.slow_down(pending)
                await self._answer(stream, response(error.status, f"{error}\n"), pending)
                return
            connect = partial(WebSocket, stream, handshake, request.rest, dialect, self._limits)
            admitted = await self._connections.let_in(request, connect, pending)
        if admitted is not None:
            await self._connections.serve(*admitted, dialect)

    async def _answer(
        self, stream: trio.abc.Stream, answer: Response, pending: trio.CancelScope
    ) -> None:
        """Send a response, and read until the client has closed: unread data would reset the
        connection, and the response could be lost.
        """
        pending.deadline = trio.current_time() + self._limits.ws_write
        await stream.send_all(answer.encode())
        if isinstance(stream, trio.SocketStream):
            await stream.send_eof()
            pending.deadline = trio.current_time() + self._limits.ws_close
            while await stream.receive_some():
                pass
