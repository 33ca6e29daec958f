"""Connecting to a server's WebSockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionRejected, HandshakeError, WebSocketConnection

from .._base.websocket import open_websocket
from .._public import Limits
from ..errors import AgentrtError
from .address import ServerAddress


class Unreachable(AgentrtError):
    """No server listens at the address, or it refuses the connection; the message gives the
    reason.
    """


@asynccontextmanager
async def dial(
    server: ServerAddress, path: str, token: str, limits: Limits
) -> AsyncIterator[WebSocketConnection]:
    """Connect to this path of a server.

    Raises `Unreachable`. A refused token is reported later, as the reason for the end of the
    connection.
    """
    headers = {"authorization": f"Bearer {token}"}
    opening = open_websocket(
        urlsplit(server.at(path)),
        headers,
        handshake_timeout_s=limits.ws_handshake_timeout_s,
        close_timeout_s=limits.ws_close_timeout_s,
        message_bytes=limits.message_bytes,
    )
    async with AsyncExitStack() as stack:
        try:
            socket = await stack.enter_async_context(opening)
        except trio.TooSlowError as error:
            raise Unreachable(f"{server} does not answer") from error
        except ConnectionRejected as error:
            raise Unreachable(
                f"{server} is not an agentrt server (HTTP status {error.status_code})"
            ) from error
        except (HandshakeError, OSError, trio.BrokenResourceError) as error:
            if isinstance(error, OSError):
                why = error.strerror or str(error)
            else:  # for TLS the cause is known
                why = str(error.__cause__ or "no WebSocket")
            raise Unreachable(f"no server can be reached at {server}: {why}") from error
        yield socket
