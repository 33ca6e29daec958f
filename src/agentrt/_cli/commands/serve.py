"""`agentrt serve`: a server with sessions for browsers, which prints links to its page."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import trio
from msgspec import structs

from ..._config import Config
from ..._errors import AgentrtError, StoreError
from ..._journal.address import StoreAddress
from ..._journal.membership import Membership
from ..._journal.opening import is_away, reach
from ..._journal.store import Store, open_address, process_of
from ..._limits import Limits
from ..._nesting import bare_errors
from ..._runtime.runtime import Runtime, open_runtime
from ..._telemetry.metrics import Metrics
from ..._telemetry.otel import OpenTelemetry
from ..._web.security import Security
from ..._web.server import serve
from ..._web.site import Site
from ..._web.waiting import not_ready
from ..servers import announced
from ..setup import Setup, UsageError, agents_environment, exit_code
from ..stores import named_store
from ..text import plain
from .trace import command_trace

AGAIN: Final = 1.0
"""Seconds between two attempts to reach the database."""


def make_security(setup: Setup) -> Security:
    """Return the access rules of the settings.

    Raises `UsageError`.
    """
    said = setup.config.serve
    tables = [(each, each.tenant(name)) for name, each in said.tenants.items()]
    tenants = [(token, tenant) for each, tenant in tables for token in _each(each.token)]
    viewers = [(token, tenant) for each, tenant in tables for token in _each(each.viewer_token)]
    given = [token for token, _ in (*tenants, *viewers)]
    if len(set(given)) < len(given):
        raise UsageError("two tenants have the same token (serve.tenants)")
    try:
        return Security(
            token=said.token,
            viewer_token=said.viewer_token,
            metrics_token=said.metrics_token,
            tenants=dict(tenants),
            tenant_viewers=dict(viewers),
            url=said.url,
            allow_hosts=said.allow_host,
            allow_origins=said.allow_origin,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _each(tokens: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tokens,) if isinstance(tokens, str) else tokens


def pages_config(setup: Setup) -> Config:
    """Return the settings for sessions of pages.

    An agent that was given by its command is available to them.
    """
    agents = {**setup.config.agents, setup.agent.name: setup.agent}
    return structs.replace(setup.attended.config, agents=agents)


async def serve_pages(setup: Setup, security: Security, *, start: bool) -> int:
    """Serve until cancelled, and print a new link whenever one was used; returns the exit status.

    `start`: open a session with the agent immediately.
    """
    said, mode = setup.config.serve, setup.config.permissions.mode or "ask"
    config = pages_config(setup)
    policy = setup.policy(mode, attended=True)
    metrics = None if said.metrics_token is None else Metrics(agents=config.agents)
    try:
        async with (
            bare_errors(),
            _open_store(config, security) as store,
            command_trace(config) as trace,
            _open_tracing(config) as tracing,
            open_runtime(
                config=config,
                permissions=policy,
                env=agents_environment(config, server=True),
                store=store,
                telemetry=[each for each in (tracing, metrics) if each is not None] or None,
                trace=trace,
            ) as runtime,
            AsyncExitStack() as stack,  # left after the nursery, so valid while it serves
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(
                partial(
                    serve,
                    runtime,
                    said.host,
                    said.port,
                    agent=setup.agent.name,
                    cwd=None if setup.cwd == "." else setup.cwd,
                    roots=said.root,
                    security=security,
                    metrics=metrics,
                )
            )
            if store is not None and store.membership is not None:
                nursery.start_soon(drain, runtime, store.membership, nursery.cancel_scope)
            # Before the first client connects: it must find this session instead of opening
            # another.
            agent, cwd, model = setup.agent, setup.cwd, setup.model
            if setup.resume is not None and runtime.stored(setup.resume) is not None:
                await runtime.reopen(setup.resume, cwd=None if cwd == "." else cwd)
            elif setup.resume is not None:
                await runtime.load(agent, setup.resume, cwd=cwd, model=model, mode=setup.mode)
            elif start:
                await runtime.create(agent, cwd=cwd, model=model, mode=setup.mode)
            if site.serves_clients and said.node is not None and said.url is not None:
                # A balancer may send a link to another gateway, which does not know its ticket.
                print(f"agentrt: a gateway of {site.url}; sign in with its token", flush=True)
            elif site.serves_clients:
                stack.enter_context(announced(site.direct_url, security.token))
                viewers, life_s = said.viewer_token is not None, runtime.limits.link_lifetime_s
                nursery.start_soon(_print_links, site, viewers, life_s)
            else:
                print(f"agentrt: a worker for gateways; {site.direct_url}readyz", flush=True)
    except AgentrtError as error:
        return _failed(str(error), exit_code(error))
    except ValueError as error:  # not an address to listen on
        return _failed(str(error), 2)
    except OSError as error:
        return _failed(f"cannot serve on {said.host} port {said.port}: {error}", 1)
    return 0


@asynccontextmanager
async def _open_store(config: Config, security: Security) -> AsyncIterator[Store | None]:
    """Open the store of the settings; yields None without one.

    If the database cannot be reached, it waits up to `limits.store_start_timeout_s`. Raises
    `StoreError`.
    """
    path = store_path(config.serve.store)
    if path is None:
        yield None
        return
    said, limits = config.serve, config.bound(Limits())
    process = None if said.node is None else process_of(said.node, said.home, said.role)
    deadline = trio.current_time() + limits.store_start_timeout_s
    async with AsyncExitStack() as stack:
        while True:
            opening = open_address(path, limits=limits, process=process)
            try:
                store = await stack.enter_async_context(opening)
                break
            except StoreError as error:
                if not is_away(error):
                    raise
                print(f"agentrt: {plain(str(error))}", file=sys.stderr)
            await _wait_for(path, config, security, deadline)
        yield store


async def _wait_for(
    path: StoreAddress, config: Config, security: Security, deadline: float
) -> None:
    """Wait until a database can be reached, and answer requests that the server is not ready.

    Raises the last `StoreError` at the deadline.
    """
    said, limits = config.serve, config.bound(Limits())
    left = max(0.0, deadline - trio.current_time())
    words = (
        f"agentrt: waiting for the database, at most {left:.0f} s (limits.store_start_timeout_s)"
    )
    print(words, file=sys.stderr, flush=True)
    async with AsyncExitStack() as stack:
        if said.port:  # otherwise the port is not known yet
            why = "waiting for the database"
            waits = not_ready(said.host, said.port, security, limits, why)
            await stack.enter_async_context(waits)
        while True:
            await trio.sleep(AGAIN)
            try:
                await trio.to_thread.run_sync(reach, path)
                break
            except StoreError as error:
                if not is_away(error) or trio.current_time() >= deadline:
                    raise
    print("agentrt: the database is there", file=sys.stderr, flush=True)


async def drain(runtime: Runtime, membership: Membership, scope: trio.CancelScope) -> None:
    """Stop taking sessions after a SIGTERM or a request in the store, and exit when all work has
    ended.

    A second SIGTERM ends it immediately.
    """

    async def obey(signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            if membership.draining:
                scope.cancel(reason="a second SIGTERM")
            membership.drain()

    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals)
            await membership.drained.wait()
            print(
                "agentrt: taking no more sessions; leaving when what was begun is over", flush=True
            )
            await runtime.drain()
            scope.cancel(reason="drained")


@asynccontextmanager
async def _open_tracing(config: Config) -> AsyncIterator[OpenTelemetry | None]:
    """Open the tracing that the settings request; yields None without one.

    Raises `AgentrtError` if it is not installed.
    """
    if not config.serve.otel:
        yield None
        return
    from .telemetry import open_tracing

    async with open_tracing() as tracing:
        yield tracing


def store_path(said: str | None) -> StoreAddress | None:
    """Return the store of a server; None if it stores no sessions.

    Raises `UsageError`.
    """
    return named_store(said or "sqlite")


async def _print_links(site: Site, viewers: bool, life_s: float | None) -> None:
    words = "agentrt: open"
    while True:
        print(f"{words} {site.link()}", flush=True)
        if viewers:
            print(f"agentrt: to look on only: {site.link('viewer')}", flush=True)
        # Without a terminal, an expired link is not replaced: the log would fill up.
        wait_s = life_s if life_s is not None and sys.stdout.isatty() else math.inf
        with trio.move_on_after(wait_s) as expired:
            await site.link_used()
        words = "agentrt: for another browser:"
        if expired.cancelled_caught:
            words = "agentrt: that link has expired, here is a new one:"


def _failed(message: str, status: int) -> int:
    print(f"agentrt: {plain(message)}", file=sys.stderr)
    return status
