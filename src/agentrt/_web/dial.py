"""Connecting to a server's WebSockets."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import trio
from trio_websocket import (
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from .._errors import AgentrtError
from .._limits import Limits
from .._nesting import bare_errors
from .address import Address


class Unreachable(AgentrtError):
    """There is no server there, or it does not let us in; the message says why."""


@asynccontextmanager
async def dial(
    server: Address, path: str, token: str, limits: Limits
) -> AsyncIterator[WebSocketConnection]:
    """A connection to what the server has at this path. Raises `Unreachable`; what the server says
    of the token comes later, as the reason of the connection's end."""
    # trio-websocket's own opener leaves the socket open if the server does not close it.
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] | None = None
    try:
        async with bare_errors(), trio.open_nursery() as nursery:
            try:
                with trio.fail_after(limits.ws_handshake):
                    stream = await _connect(server)
                    socket = await wrap_client_stream(
                        nursery,
                        stream,
                        server.place,
                        path,
                        extra_headers=[(b"authorization", b"Bearer " + token.encode())],
                        max_message_size=limits.line,
                        receive_buffer_size=64 * 1024,
                    )
            except trio.TooSlowError as error:
                raise Unreachable(f"{server} does not answer") from error
            except ConnectionRejected as error:
                raise Unreachable(
                    f"what is at {server} is no agentrt server ({error.status_code})"
                ) from error
            except (HandshakeError, OSError, trio.BrokenResourceError) as error:
                why = error.strerror or str(error) if isinstance(error, OSError) else "no WebSocket"
                raise Unreachable(f"no server can be reached at {server}: {why}") from error
            yield socket
            with trio.move_on_after(limits.ws_close):  # it need not answer our close
                await socket.aclose()
            nursery.cancel_scope.cancel(reason="the connection is over")
    finally:
        if stream is not None:
            await trio.aclose_forcefully(stream)  # noqa: ASYNC102 - it does not wait


async def _connect(server: Address) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
    """Raises `OSError`."""
    parts = urlsplit(str(server))
    assert parts.hostname is not None
    port = parts.port or (443 if server.secure else 80)
    stream = await trio.open_tcp_stream(parts.hostname, port)
    if not server.secure:
        return stream
    context = ssl.create_default_context()
    return trio.SSLStream(stream, context, server_hostname=parts.hostname, https_compatible=True)
