"""Connecting to a server's WebSockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trio_websocket import (
    ConnectionRejected,
    ConnectionTimeout,
    HandshakeError,
    WebSocketConnection,
    open_websocket_url,
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
    connected = False
    try:
        async with (
            bare_errors(),
            open_websocket_url(
                server.at(path),
                extra_headers=[(b"authorization", b"Bearer " + token.encode())],
                max_message_size=limits.line,
                receive_buffer_size=64 * 1024,
                connect_timeout=limits.ws_handshake,
                disconnect_timeout=limits.ws_close,
            ) as socket,
        ):
            connected = True
            yield socket
    except ConnectionRejected as error:
        raise Unreachable(
            f"what is at {server} is no agentrt server ({error.status_code})"
        ) from error
    except ConnectionTimeout as error:
        raise Unreachable(f"{server} does not answer") from error
    except HandshakeError as error:
        if connected:
            return  # it did not answer our close: nobody needs that
        why = error.__cause__
        reason = (why.strerror or str(why)) if isinstance(why, OSError) else "no WebSocket"
        raise Unreachable(f"no server can be reached at {server}: {reason}") from error
