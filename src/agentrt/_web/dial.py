"""Connecting to a server's WebSockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionRejected, HandshakeError, WebSocketConnection

from .._errors import AgentrtError
from .._limits import Limits
from .._process.websocket import open_websocket
from .address import Address


class Unreachable(AgentrtError):
    """There is no server there, or it does not let us in; the message says why."""


@asynccontextmanager
async def dial(
    server: Address, path: str, token: str, limits: Limits
) -> AsyncIterator[WebSocketConnection]:
    """A connection to what the server has at this path. Raises `Unreachable`; what the server says
    of the token comes later, as the reason of the connection's end."""
    headers = {"authorization": f"Bearer {token}"}
    opening = open_websocket(urlsplit(server.at(path)), headers, limits)
    async with AsyncExitStack() as stack:
        try:
            socket = await stack.enter_async_context(opening)
        except trio.TooSlowError as error:
            raise Unreachable(f"{server} does not answer") from error
        except ConnectionRejected as error:
            raise Unreachable(
                f"what is at {server} is no agentrt server ({error.status_code})"
            ) from error
        except (HandshakeError, OSError, trio.BrokenResourceError) as error:
            if isinstance(error, OSError):
                why = error.strerror or str(error)
            else:  # of TLS it is known what was wrong
                why = str(error.__cause__ or "no WebSocket")
            raise Unreachable(f"no server can be reached at {server}: {why}") from error
        yield socket
