"""agentrt for asyncio programs: the same functions and objects, awaited by asyncio.

Names, arguments, results and errors are the same as in `agentrt`, where they are documented. While
a block is open, Trio runs in the same thread as asyncio, as a guest of its loop. In a Trio task
(anyio's other backend), everything behaves as in `agentrt`.

A block runs in a Trio task; asyncio's side enters and leaves it, and calls the methods of its
objects from there::

    async with agentrt.aio.open_session("claude", cwd=".") as session:
        result = await session.run("Fix the failing test.")

Cancelling the awaiting asyncio task cancels the Trio function and waits for its end. If a block
breaks from within, because its session failed, the task inside it is cancelled as by a `TaskGroup`,
and the block raises the reason. Policies, tools and hooks may be asyncio coroutines: they are
awaited in asyncio's loop.

Objects belong to the loop in which their block was opened. Awaiting a method of one in another loop
or thread, or after the block was left, raises `LocalProtocolError`.

Two kinds of functions exist. Those that open something (`open_session`, `open_runtime`,
`open_store`, `serve`, …) and `query` are blocks: enter them with `async with`. `agent_version`,
`list_sessions`, `delete_session`, `run_in_sandbox` and the methods of `ClaudeSessions` are awaited.
Objects that a block yields are views: methods that wait are awaited by asyncio, async iterators are
iterated by it, and everything that does not wait, such as `Session.cancel` or `Session.state`, is
used directly. `isinstance` holds for the classes of `agentrt`.

Several tasks may use one session at a time, each with turns of its own::

    async with agentrt.aio.open_session("claude", cwd=".") as session:
        async with asyncio.timeout(60):
            async with session.prompt("Explain the failing test.") as turn:
                async for event in turn:
                    print(event)

Here the timeout cancels the turn, and the block ends once the agent has stopped, or after
`Limits.cancel_grace_s` at the latest.

Under asyncio's `TaskGroup`, anyio, uvicorn and FastAPI nothing has to be set up: Trio starts with
the first block and ends with the last one. An application opens its runtime in its lifespan, so
that Trio does not start anew for each request.
"""

from __future__ import annotations

import builtins
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import trio

from .._base.nesting import bare_errors
from .._public import open_runtime as _open_runtime
from .._public import open_session as _open_session
from .._public import query as _query
from .._serve.server import serve as _serve
from ..agents import agent_version as _agent_version
from ..agents import connect as _connect
from ..agents import delete_session as _delete_session
from ..agents import list_sessions as _list_sessions
from ..claude import ClaudeSessions as _ClaudeSessions
from ..claude import StoredSession
from ..events import JsonObject
from ..sandbox import run_in_sandbox as _run_in_sandbox
from ..store import open_store as _open_store
from ..store import reopen_session as _reopen_session
from ..tracing import open_trace as _open_trace
from ..unattended import open_worktree as _open_worktree
from .block import TrioBlock
from .guest import guest
from .views import carried

if TYPE_CHECKING:
    import ssl

    from .._public import Runtime
    from .._serve.security import Security
    from .._serve.site import Site
    from ..lowlevel import Dialect
    from ..telemetry import Metrics

P = ParamSpec("P")
T = TypeVar("T")


def _block(
    function: Callable[P, AbstractAsyncContextManager[T]],
) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Make a block that asyncio can enter."""

    @functools.wraps(function)
    def open(*args: P.args, **named: P.kwargs) -> AbstractAsyncContextManager[T]:
        """Return the block, which opens nothing until it is entered."""
        return TrioBlock(function, args, named)

    return open


def _alone(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Make a function that belongs to no block callable from asyncio."""
    inner = carried(function)

    @functools.wraps(function)
    async def call(*args: P.args, **named: P.kwargs) -> T:
        """Call the function in Trio, which is started for it unless a block runs already."""
        if trio.lowlevel.in_trio_task():
            return await function(*args, **named)
        async with guest():
            return cast("T", await inner(*args, **named))

    return call


if TYPE_CHECKING:  # the same functions, also by their types
    from .._public import open_runtime as open_runtime
    from .._public import open_session as open_session
    from .._public import query as query
    from ..agents import agent_version as agent_version
    from ..agents import connect as connect
    from ..agents import delete_session as delete_session
    from ..agents import list_sessions as list_sessions
    from ..sandbox import run_in_sandbox as run_in_sandbox
    from ..store import open_store as open_store
    from ..store import reopen_session as reopen_session
    from ..tracing import open_trace as open_trace
    from ..unattended import open_worktree as open_worktree
else:
    open_session = _block(_open_session)
    connect = _block(_connect)
    reopen_session = _block(_reopen_session)
    query = _block(_query)
    open_runtime = _block(_open_runtime)
    open_store = _block(_open_store)
    open_trace = _block(_open_trace)
    open_worktree = _block(_open_worktree)
    agent_version = _alone(_agent_version)
    list_sessions = _alone(_list_sessions)
    delete_session = _alone(_delete_session)
    run_in_sandbox = _alone(_run_in_sandbox)


class ClaudeSessions(_ClaudeSessions):
    """Claude Code's stored sessions, for asyncio. See `agentrt.claude.ClaudeSessions`."""

    async def list(self, cwd: str | os.PathLike[str] | None = None) -> builtins.list[StoredSession]:
        """See `agentrt.claude.ClaudeSessions.list`."""
        return await _alone(_ClaudeSessions.list)(self, cwd)

    async def read(self, session: str) -> builtins.list[JsonObject]:
        """See `agentrt.claude.ClaudeSessions.read`."""
        return await _alone(_ClaudeSessions.read)(self, session)

    async def delete(self, session: str) -> None:
        """See `agentrt.claude.ClaudeSessions.delete`."""
        await _alone(_ClaudeSessions.delete)(self, session)


def serve(
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
) -> AbstractAsyncContextManager[Site]:
    """Serve a runtime while the block is open, as `agentrt.web.serve` does with the same arguments.

    A block takes the place of `nursery.start`, which asyncio does not have. It yields the `Site`
    once the port is open, and closes all connections when it is left::

        async with agentrt.aio.open_runtime() as runtime, agentrt.aio.serve(runtime) as site:
            print(site.url)
            await asyncio.Event().wait()

    The runtime must come from `agentrt.aio` in the same loop. `port` 0 lets the system choose one.
    Raises `OSError` if the port cannot be opened.
    """
    job = partial(
        _serve,
        runtime,
        host,
        port,
        agent=agent,
        cwd=cwd,
        roots=roots,
        security=security,
        ssl_context=ssl_context,
        metrics=metrics,
        dialects=dialects,
    )
    return TrioBlock(_serving, (job,), {})


@asynccontextmanager
async def _serving(job: Callable[..., Awaitable[None]]) -> AsyncIterator[Site]:
    """Run the server as long as the block."""
    async with bare_errors(), trio.open_nursery() as nursery:
        site: Site = await nursery.start(job)
        yield site
        nursery.cancel_scope.cancel()


__all__ = [
    "ClaudeSessions",
    "agent_version",
    "connect",
    "delete_session",
    "list_sessions",
    "open_runtime",
    "open_session",
    "open_store",
    "open_trace",
    "open_worktree",
    "query",
    "reopen_session",
    "run_in_sandbox",
    "serve",
]
