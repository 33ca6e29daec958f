"""Answers on the port of a server that has not begun to serve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from .._base.nesting import bare_errors
from .._base.pending import PendingConnections
from .._public import Limits
from .http import BadRequest, HttpResponse, read_request, response, send_response
from .security import Security
from .server import open_listeners


@asynccontextmanager
async def not_ready(
    host: str, port: int, security: Security, limits: Limits, why: str
) -> AsyncIterator[None]:
    """Answer requests while the block runs: `/healthz` with `ok`, everything else with 503 and
    `why`. Raises the errors of listening.
    """
    pending = PendingConnections(limits.ws_unauthenticated)

    async def serve(stream: trio.SocketStream) -> None:
        try:
            with pending.place():
                with trio.fail_after(limits.ws_handshake_timeout_s):
                    answer = await _answer(stream, why)
                await send_response(stream, answer, limits)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the client is gone, or neither sends nor reads
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await open_listeners(host, port, security)
    async with bare_errors(), trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, serve, listeners))
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def _answer(stream: trio.SocketStream, why: str) -> HttpResponse:
    """Answer a request while the server is not ready: alive, but unavailable for now."""
    try:
        request = await read_request(stream)
    except BadRequest as error:
        return response(error.status, f"{error}\n")
    if request is not None and request.path == "/healthz":
        return response(200, "ok\n", head_only=request.method == "HEAD")
    return response(503, f"{why}\n", headers=(("Retry-After", "1"),))
