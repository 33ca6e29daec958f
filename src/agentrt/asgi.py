"""`agentrt.web.serve` as an ASGI application, for use in an existing server.

The page, the WebSockets of all dialects, `/metrics` and `/healthz` are the same as with `serve`:
the same code with a different transport. Under a Trio server (Hypercorn's worker) it runs directly;
under an asyncio server (uvicorn) it runs as a guest of its loop, like all of `agentrt.aio`.

An application has two parts with different lives. While it *runs*, a runtime is open, with its
sessions; the server's lifespan protocol starts and ends it, or `Application.running` does where the
application is mounted into another one. Requests are handled by `__call__` while it runs. Sessions
do not depend on requests: a session continues when the connection that opened it has ended.

::

    app = Application(
        partial(agentrt.open_runtime, store=…),
        security=Security(token=os.environ["TOKEN"]),
        url="https://example.org/agents/",
    )

The server owns the sockets, so it also owns TLS, the access log and the listening address.
Everything else is checked here as in `serve`: host names, origins, tokens, sizes and rates.

Under asyncio, Trio runs as a guest of the server's loop. Each request is then a call into Trio, and
the server's `receive` and `send` are called back in its own loop; the sessions do not notice the
difference.

If the runtime cannot be opened, the lifespan protocol reports the error to the server, which then
does not start. An error of the runtime while it runs is reported at the shutdown.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import trio
from msgspec import structs

from ._serve.asgi import AsgiHandler
from ._serve.connections import Connections
from ._serve.dialects import dialects_of_site
from ._serve.folders import Folders
from ._serve.forwarded import serve_forwarded
from ._serve.hub import Hub
from ._serve.security import Security
from ._serve.site import Site, SiteServer
from .errors import LocalProtocolError

if TYPE_CHECKING:
    from ._public import Runtime
    from .lowlevel import Dialect
    from .telemetry import Metrics

_logger = logging.getLogger("agentrt.server")

NOT_RUNNING = (
    "the agentrt application is not running: enable the server's lifespan protocol, or, if it is"
    " mounted into another application, enter `async with app.running(): …` in that application's"
    " lifespan"
)


class Application:
    """The sessions of a runtime as an ASGI application: `hypercorn -k trio module:app`.

    - `open_runtime`: function that returns the runtime's context manager, such as
      `partial(agentrt.open_runtime, …)`. Under asyncio it may be one of `agentrt.aio`, whose
      handlers are asyncio coroutines.
    - `security`: must have an explicit token. The server chooses its own address; access is
      controlled by the token and the host names.
    - `url`: the public URL. Its host and the `allow_hosts` of `security` are the accepted host
      names; its path is the mount point.
    - `agent`, `cwd`, `roots`, `metrics`, `dialects`: as in `agentrt.web.serve`.

    Raises `ValueError` for a value that `serve` would refuse, `TypeError` for a wrong type.
    """

    def __init__(
        self,
        open_runtime: Callable[[], AbstractAsyncContextManager[Runtime]],
        *,
        security: Security,
        url: str = "http://127.0.0.1:8000/",
        agent: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        roots: Iterable[str | os.PathLike[str]] = (),
        metrics: Metrics | None = None,
        dialects: Iterable[Dialect] = (),
    ) -> None:
        if not callable(open_runtime) or inspect.iscoroutinefunction(open_runtime):
            raise TypeError(
                "open_runtime must be a function that returns a runtime's context manager, such as"
                f" agentrt.open_runtime itself, not {open_runtime!r:.100}"
            )
        if not isinstance(security, Security):
            raise TypeError(f"security must be Security(token=…), not {type(security).__name__}")
        if not isinstance(url, str):
            raise TypeError(f"url must be a string, not {type(url).__name__}")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ValueError(f"{url!r} is not a site URL such as https://example.org/agents/")
        if security.root not in ("/", f"{parts.path.rstrip('/')}/"):
            raise ValueError(f"{url!r} and the URL of `security` have different paths")
        if not security.chosen:
            raise ValueError("an ASGI application needs an explicit token: Security(token=…)")
        if metrics is not None and not security.measured:
            raise ValueError("metrics need a separate token: Security(metrics_token=…)")
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._tls else 80)
        self._root = quote(parts.path.rstrip("/"), safe="/%") + "/"
        self._open_runtime = open_runtime
        self._security = security
        self._agent = agent
        self._folders = Folders(roots, cwd)
        self._metrics = metrics
        self._dialects = dialects_of_site(dialects)
        self._site: Site | None = None
        self._handler: AsgiHandler | None = None

    @property
    def site(self) -> Site:
        """The site, for links and statistics while it runs. Raises `LocalProtocolError`."""
        if self._site is None:
            raise LocalProtocolError(NOT_RUNNING)
        return self._site

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Handle a request of the server.

        Raises `LocalProtocolError` for a request while the application is not running.
        """
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._handler is None:
            raise LocalProtocolError(NOT_RUNNING)
        if trio.lowlevel.in_trio_task():
            await self._handler.handle(scope, receive, send)
        else:
            from .aio.guest import the_guest

            guest = the_guest()
            ours = partial(guest.call_back, receive), partial(guest.call_back, send)
            await guest.call(self._handler.handle, scope, *ours)

    async def _live(
        self,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve the lifespan protocol: open everything at the start and close it at the end."""
        await receive()
        started = False
        try:
            async with self.running():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            _logger.exception("the application of agentrt %s", "broke" if started else "cannot run")
            step = "shutdown" if started else "startup"
            await send({"type": f"lifespan.{step}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Site]:
        """Open the runtime and accept clients while the block runs.

        The lifespan protocol does this; use it directly in an application that mounts this one.
        Leaving the block notifies every client and ends every session, in bounded time. Raises the
        errors of opening the runtime, and `LocalProtocolError` if it is already running.
        """
        if self._site is not None:
            raise LocalProtocolError("the application of agentrt is running already")
        if trio.lowlevel.in_trio_task():
            async with self._open_runtime() as runtime, self._serving(runtime) as site:
                yield site
        else:
            from .aio.block import TrioBlock

            opened = self._open_runtime()
            if not isinstance(opened, TrioBlock):
                opened = TrioBlock(self._open_runtime, (), {})
            async with opened as runtime, TrioBlock(self._serving, (runtime,), {}) as site:
                yield site

    @asynccontextmanager
    async def _serving(self, runtime: Runtime) -> AsyncIterator[Site]:
        """Serve the runtime's sessions while the block runs.

        Only inside it does the application have a handler for requests. Leaving
        closes all connections, in bounded time and also if the block is cancelled.
        """
        hub = Hub(runtime, self._agent, self._folders)
        serve_forwarded(hub)
        metrics = self._metrics
        site = SiteServer(
            self._security,
            self._host,
            self._port,
            runtime.limits,
            tls=self._tls,
            root=self._root,
            metrics=None if metrics is None else metrics.render,
        )
        connections = Connections(site, hub, runtime.limits, self._dialects)
        try:
            with ExitStack() as stack:
                if metrics is not None:
                    stack.callback(metrics.serves(site, lambda: structs.asdict(site.statistics())))
                self._site, self._handler = site, AsgiHandler(connections, self._root)
                yield site
        finally:
            self._site = self._handler = None
            with trio.CancelScope(shield=True):  # closing is bounded
                await connections.close()
            hub.close()


__all__ = ["Application"]
