"""Serving a runtime's sessions to browsers: the port, and the order in which things close."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio
from msgspec import structs

from .._base.nesting import bare_errors, open_service_nursery
from ..hosting import check_trio, runtime_host
from .security import Security
from .site import Site, SiteServer

if TYPE_CHECKING:
    import ssl

    from .._public import Limits, Runtime
    from ..lowlevel import Dialect
    from ..telemetry import Metrics
    from .hub import Hub, ServedDialect

LISTEN_BACKLOG = 256
"""Connections that the kernel queues until they are accepted."""


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
    dialects: Iterable[Dialect] = (),
    task_status: trio.TaskStatus[Site] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the web frontend of a runtime until cancelled.

    The page is at `/`, the protocol `agentrt.v1` at `/ws`, AI SDK clients connect at `/ai` and ACP
    clients at `/acp`.

    Start it with `site = await nursery.start(serve, runtime)`. When that returns, the server is
    listening and `site.link()` is a URL for a browser.

    - `port`: 0 picks a free port.
    - `agent`: the agent of sessions that a client opens without naming one; by default the first
      installed one.
    - `cwd`: the folder of sessions whose client names none; by default the first of `roots`, or the
      current folder of this process.
    - `roots`: the folders in and below which clients may open sessions; by default anywhere.
    - `security`: tokens and names; by default one random token, for control.
    - `ssl_context`: if given, only TLS is served.
    - `metrics`: served at `/metrics` to clients that send the `metrics_token` of `security`.
    - `dialects`: further protocols for clients, each at its own path.

    A worker (`open_store(…, role="worker")`) serves no clients, only `/healthz`, `/readyz` and
    `/metrics`.

    Raises `ValueError` if there are metrics but no token for them, if other machines could reach
    the server and `security` has no token that you chose or no name for the server, if a root is
    not a folder, or if a dialect has an invalid path or the path of another one; `OSError` if the
    port cannot be opened.

    Cancelling it notifies every client, closes all connections in bounded time, and leaves the
    runtime as it is.
    """
    check_trio("serve")
    # h11 and trio-websocket take as long to import as everything else.
    from .dialects import dialects_of_site
    from .folders import Folders
    from .forwarded import serve_forwarded
    from .hub import Hub

    security = Security() if security is None else security
    if metrics is not None and not security.measured:
        raise ValueError("metrics need a separate token: Security(metrics_token=…)")
    served = dialects_of_site(dialects)
    hub = Hub(runtime, agent, Folders(roots, cwd))
    serve_forwarded(hub)
    try:
        async with open_site(
            hub,
            runtime.limits,
            host,
            port,
            security,
            ssl_context,
            serves_clients=runtime_host(runtime).role != "worker",
            not_ready_reason=runtime.not_ready_reason,
            metrics=None if metrics is None else metrics.render,
            dialects=served,
        ) as site:
            with ExitStack() as stack:
                if metrics is not None:
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
    *,
    serves_clients: bool = True,
    not_ready_reason: Callable[[], str | None] | None = None,
    metrics: Callable[[], bytes] | None = None,
    dialects: Mapping[str, ServedDialect] | None = None,
) -> AsyncIterator[SiteServer]:
    """Listen and serve as `serve` does, while the block runs, with viewers from any hub.

    `dialects`: by path; default: the built-in ones. The other keyword arguments are those of
    `Site`.
    """
    from .connections import Connections
    from .dialects import BUILT_IN
    from .handler import ConnectionHandler

    sockets = await open_listeners(host, port, security)
    taken = sockets[0].socket.getsockname()[1]
    site = SiteServer(
        security,
        host,
        taken,
        limits,
        tls=ssl_context is not None,
        serves_clients=serves_clients,
        not_ready_reason=not_ready_reason,
        metrics=metrics,
    )
    all_connections = Connections(site, hub, limits, BUILT_IN if dialects is None else dialects)
    handler = ConnectionHandler(all_connections)
    listeners: list[trio.SocketListener | trio.SSLListener[trio.SocketStream]] = [
        trio.SSLListener(each, ssl_context, https_compatible=True) if ssl_context else each
        for each in sockets
    ]
    async with open_service_nursery() as connections:
        # `serve_listeners` uses only `start_soon` of it.
        handlers = cast("trio.Nursery", connections)
        listen = partial(trio.serve_listeners, handler.handle, listeners, handler_nursery=handlers)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                await nursery.start(listen)
                yield site
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):  # bounded by itself
                await all_connections.close()


async def open_listeners(host: str, port: int, security: Security) -> list[trio.SocketListener]:
    """Open the listeners, if `security` allows their addresses.

    With port 0 only one address is used: a second one would get a different port. Raises
    `ValueError` if an address is not allowed, `OSError` if the port cannot be opened.
    """
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=LISTEN_BACKLOG)
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
