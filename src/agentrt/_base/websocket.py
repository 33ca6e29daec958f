"""A WebSocket to a server, opened and closed in bounded time without leaving resources open."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import SplitResult

import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

from .nesting import bare_errors


@asynccontextmanager
async def open_websocket(
    url: SplitResult,
    headers: Mapping[str, str],
    *,
    handshake_timeout_s: float,
    close_timeout_s: float,
    message_bytes: int,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[WebSocketConnection]:
    """Connect to a server while the block runs.

    `message_bytes` limits a received message. `context`: for `wss` and `https`; by default the
    system's.

    Raises `trio.TooSlowError`, `OSError`, `trio.BrokenResourceError`, or trio-websocket's
    `ConnectionRejected` and `HandshakeError`.
    """
    # trio-websocket's own opener leaves the socket open if the server does not close it.
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] | None = None
    try:
        async with bare_errors(), trio.open_nursery() as nursery:
            with trio.fail_after(handshake_timeout_s):
                stream = await _connect(url, context)
                socket = await wrap_client_stream(
                    nursery,
                    stream,
                    url.netloc.rpartition("@")[2],
                    (url.path or "/") + (f"?{url.query}" if url.query else ""),
                    extra_headers=[(n.encode(), v.encode()) for n, v in headers.items()],
                    max_message_size=message_bytes,
                    receive_buffer_size=64 * 1024,
                )
            yield socket
            with trio.move_on_after(close_timeout_s):  # the server need not answer the close
                await socket.aclose()
            nursery.cancel_scope.cancel(reason="the connection is over")
    finally:
        if stream is not None:
            await trio.aclose_forcefully(stream)  # noqa: ASYNC102 - it does not wait


async def _connect(
    url: SplitResult, context: ssl.SSLContext | None
) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
    """Connect, with TLS if the URL requires it.

    The handshake is done here, so that a wrong certificate is reported as such.
    """
    secure = url.scheme in ("wss", "https")
    assert url.hostname is not None
    stream = await trio.open_tcp_stream(url.hostname, url.port or (443 if secure else 80))
    if not secure:
        return stream
    context = context or ssl.create_default_context()
    safe = trio.SSLStream(stream, context, server_hostname=url.hostname, https_compatible=True)
    try:
        await safe.do_handshake()  # raises errors about the server here
    except BaseException:
        await trio.aclose_forcefully(safe)  # noqa: ASYNC102 - it does not wait
        raise
    return safe
