"""Handling of each connection, from its first byte to its last."""

from __future__ import annotations

import logging
from functools import partial

import trio

from .connections import Connections
from .http import BadRequest, read_request, response, send_response
from .stream import abort
from .websocket import WebSocket

logger = logging.getLogger("agentrt.server")


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
            with trio.move_on_after(self._limits.ws_close_timeout_s):
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
        """Serve one connection: a WebSocket, a page, or a refusal.

        Until the request is read, the connection counts as pending, for as long as a handshake may
        take. A signed-in download no longer counts as pending, so that slow clients without a token
        cannot keep others out. A wrong token slows down the next attempts.
        """
        site = self._connections.site
        request = admitted = dialect = download = None
        with site.pending.place():
            try:
                # Only reading is limited here. If the server was busy for so long that the limit is
                # over when the request is there, the request must still be answered.
                with trio.move_on_after(self._limits.ws_handshake_timeout_s):
                    request = await read_request(stream)
                if request is None:
                    return
                request = site.local(request)
                if request.is_upgrade:
                    dialect = self._connections.dialect(request.path)
                    handshake = request.handshake(dialect.protocol)
                    connect = partial(
                        WebSocket, stream, handshake, request.rest, dialect, self._limits
                    )
                    admitted = await self._connections.let_in(request, connect)
                else:
                    answer = site.page(request)
                    if site.is_signed_in(request):
                        download = answer
                    else:
                        await send_response(stream, answer, self._limits)
            except BadRequest as error:
                self._connections.refused(error)
                if error.status == 401:
                    await self._connections.slow_down()
                refusal = response(error.status, f"{error}\n")
                await send_response(stream, refusal, self._limits)
        if admitted is not None and dialect is not None:
            await self._connections.serve(*admitted, dialect)
        elif download is not None:
            with site.downloads.place():
                await send_response(stream, download, self._limits)
