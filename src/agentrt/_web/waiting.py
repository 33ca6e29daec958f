"""Answers on the port of a server that has not begun to serve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from .._limits import Limits
from .._nesting import bare_errors
from .._tools.pending import PendingConnections
from .http import BadRequest, Response, read_request, response
from .security import Security
from .server import open_listeners


@asynccontextmanager
async def not_ready(
    host: str, port: int, security: Security, limits: Limits, why: str
) -> AsyncIterator[None]:
    """Answer requests while the block runs: `/healthz` with `ok`, everything else with 503 and
    `why`. Raises the errors of listening.
    """
    pending = PendingConnections(limits.ws_pending, limits.ws_handshake)

    async def answer(stream: trio.SocketStream) -> None:
        try:
            with pending.place():
                await stream.send_all((await _answer(stream, why)).encode())
                await stream.send_eof()
                while await stream.receive_some():
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await open_listeners(host, port, security)
    async with bare_errors(), trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, answer, listeners))
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def _answer(stream: trio.SocketStream, why: str) -> Response:
    try:
        request = await read_request(stream)
    except BadRequest as error:
        return response(error.status, f"{error}\n")
    if request is not None and request.path == "/healthz":
        return response(200, "ok\n", head_only=request.method == "HEAD")
    return response(503, f"{why}\n", headers=(("Retry-After", "1"),))
