"""Serving a runtime's sessions to browsers: the port, and the order of its closing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio
from msgspec import structs

from .._nesting import bare_errors, check_trio, open_service_nursery
from .security import Security
from .site import Site

if TYPE_CHECKING:
    import ssl

    from .._limits import Limits
    from .._runtime.runtime import Runtime
    from .._telemetry.metrics import Metrics
    from .hub import Hub

BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""


async def serve(
    runtime: Runtime,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    agent: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    roots: Iterable[str | os.PathLike[str]] = (),
    security: Security | None = None,
    ssl_context: ssl.SSLContext | None = None,
    metrics: Metrics | None = None,
    task_status: trio.TaskStatus[Site] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the page at `/`, the protocol `agentrt.v1` at `/ws`, clients of the AI SDK at `/ai` and
    of ACP at `/acp`, until cancelled.

    To be started with `site = await nursery.start(serve, runtime)`: then it listens, and
    `site.link()` is the URL for a browser. `port` 0 takes a free one. With `ssl_context` it speaks
    TLS only. Without `security` there is one random token, for control. `agent`: the agent of
    sessions that a client opens without naming one; by default the first that is installed.
    `metrics`: served at `/metrics` to who shows the `metrics_token` of `security`.
    A worker (`open_store(…, role="worker")`) serves no clients: only `/healthz`, `/readyz` and
    `/metrics`.
    `cwd`: the folder of sessions whose client names none; by default the first of `roots`, or this
    process's own. `roots`: where, and below which, clients may open sessions; by default anywhere.

    Raises `ValueError` if there are metrics without a token for them, if other machines could reach
    it and `security` has no token of yours or no name for it, or if a root is no folder; `OSError`
    if the port cannot be had.

    Cancelling it notifies every client, closes all connections in bounded time, and leaves the
    runtime as it is.
    """
    check_trio("serve")
    # h11 and trio-websocket cost as much to import as all the rest.
    from .folders import Folders
    from .forwarded import serve_forwarded
    from .hub import Hub

    security = Security() if security is None else security
    if metrics is not None and not security.measured:
        raise ValueError("metrics need a token of their own: Security(metrics_token=…)")
    hub = Hub(runtime, agent, Folders(roots, cwd))
    serve_forwarded(hub)
    try:
        async with open_site(hub, runtime.limits, host, port, security, ssl_context) as site:
            site.hindrance = runtime.hindrance
            site.shows = runtime.role != "worker"
            with ExitStack() as stack:
                if metrics is not None:
                    site.measure(metrics.render)
                    stack.callback(metrics.serves(site, lambda: structs.asdict(site.statistics())))
                task_status.started(site)
                await trio.sleep_forever()
    finally:
        hub.close()


@asynccontextmanager
async def open_site(
    hub: Hub,
    limits: Limits,
    host: str,
    port: int,
    security: Security,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Site]:
    """What `serve` does, for viewers from anywhere and as long as its block lasts."""
    from .connections import Connections
    from .handler import ConnectionHandler

    sockets = await open_listeners(host, port, security)
    taken = sockets[0].socket.getsockname()[1]
    site = Site(security, host, taken, limits, tls=ssl_context is not None)
    everybody = Connections(site, hub, limits)
    handler = ConnectionHandler(everybody)
    listeners: list[trio.SocketListener | trio.SSLListener[trio.SocketStream]] = [
        trio.SSLListener(each, ssl_context, https_compatible=True) if ssl_context else each
        for each in sockets
    ]
    async with open_service_nursery() as connections:
        # `serve_listeners` asks nothing but `start_soon` of it.
        handlers = cast("trio.Nursery", connections)
        listen = partial(trio.serve_listeners, handler.handle, listeners, handler_nursery=handlers)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                await nursery.start(listen)
                yield site
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):  # bounded by itself
                await everybody.close()


async def open_listeners(host: str, port: int, security: Security) -> list[trio.SocketListener]:
    """Listen, if that is allowed. A free port is taken for one address only: a second one would get
    another port."""
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    for spare in listeners[1:] if port == 0 else ():
        spare.socket.close()
    listeners = listeners[:1] if port == 0 else listeners
    try:
        security.check_addresses(each.socket.getsockname()[0] for each in listeners)
    except ValueError:
        for each in listeners:
            each.socket.close()
        raise
    return listeners
