"""`agentrt serve`: sessions for browsers, and links to them on standard output."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
import trio
from msgspec import structs

from .._config import Config
from .._errors import AgentrtError
from .._journal.address import Address
from .._journal.membership import Membership
from .._journal.store import Store, open_address, process_of
from .._limits import Limits
from .._nesting import bare_errors
from .._runtime.runtime import Runtime, open_runtime
from .._telemetry.metrics import Metrics
from .._telemetry.otel import OpenTelemetry
from .._web.security import Security
from .._web.server import serve
from .._web.site import Site
from .servers import announced
from .setup import Setup, UsageError, agents_environment, exit_code
from .stores import named_store
from .text import plain
from .tracing import command_trace


def make_security(setup: Setup) -> Security:
    """The rules that the settings ask for. Raises `UsageError`."""
    said = setup.config.serve
    try:
        return Security(
            token=said.token,
            viewer_token=said.viewer_token,
            metrics_token=said.metrics_token,
            allow_hosts=said.allow_host,
            allow_origins=said.allow_origin,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def pages_config(setup: Setup) -> Config:
    """The settings of what pages open. An agent that was given by its command is one that they can
    open sessions with."""
    agents = {**setup.config.agents, setup.agent.name: setup.agent}
    return structs.replace(setup.attended.config, agents=agents)


async def serve_pages(setup: Setup, security: Security, *, start: bool) -> int:
    """Serve until cancelled, and print a new link whenever one was used. `start`: open a session
    with the agent at once."""
    said, mode = setup.config.serve, setup.config.permissions.mode or "ask"
    config = pages_config(setup)
    policy = setup.policy(mode, attended=True)
    metrics = None if said.metrics_token is None else Metrics(agents=config.agents)
    try:
        async with (
            bare_errors(),
            _open_store(config) as store,
            command_trace(config) as trace,
            _open_tracing(config) as tracing,
            open_runtime(
                config=config,
                permissions=policy,
                env=agents_environment(config),
                store=store,
                telemetry=[each for each in (tracing, metrics) if each is not None] or None,
                trace=trace,
            ) as runtime,
            AsyncExitStack() as stack,  # left behind the nursery: as long as it serves
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
            stack.enter_context(announced(site.url, security.token))
            if store is not None and store.membership is not None:
                nursery.start_soon(drain, runtime, store.membership, nursery.cancel_scope)
            nursery.start_soon(_print_links, site, said.viewer_token is not None)
            agent, cwd, model = setup.agent, setup.cwd, setup.model
            if setup.resume is not None and runtime.stored(setup.resume) is not None:
                await runtime.reopen(setup.resume)
            elif setup.resume is not None:
                await runtime.load(agent, setup.resume, cwd=cwd, model=model, mode=setup.mode)
            elif start:
                await runtime.create(agent, cwd=cwd, model=model, mode=setup.mode)
    except AgentrtError as error:
        return _failed(str(error), exit_code(error))
    except ValueError as error:  # an address that may not be listened on
        return _failed(str(error), 2)
    except OSError as error:
        return _failed(f"cannot serve on {said.host} port {said.port}: {error}", 1)
    return 0


@asynccontextmanager
async def _open_store(config: Config) -> AsyncIterator[Store | None]:
    """The store that the settings ask for. Raises `StoreError`."""
    path = store_path(config.serve.store)
    if path is None:
        yield None
        return
    said = config.serve
    process = None if said.node is None else process_of(said.node, said.home)
    async with open_address(path, limits=config.bound(Limits()), process=process) as store:
        yield store


async def drain(runtime: Runtime, membership: Membership, scope: trio.CancelScope) -> None:
    """When a SIGTERM comes, or somebody says so by the store, take no more sessions, and end when
    what was begun is over. A second SIGTERM ends it now."""

    async def obey(signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            if membership.draining:
                scope.cancel(reason="a second SIGTERM")
            membership.drain()

    def load() -> bytes:
        open = runtime.list_open()
        turns = sum(each.phase not in ("idle", "dead", "closed") for each in open)
        return msgspec.json.encode({"sessions": len(open), "turns": turns})

    membership.load = load
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
    """What the settings ask for. Raises `AgentrtError` if it is not installed."""
    if not config.serve.otel:
        yield None
        return
    from .telemetry import open_tracing

    async with open_tracing() as tracing:
        yield tracing


def store_path(said: str | None) -> Address | None:
    """Where a server keeps its sessions, if it does. Raises `UsageError`."""
    return named_store(said or "sqlite")


async def _print_links(site: Site, viewers: bool) -> None:
    words = "agentrt: open"
    while True:
        print(f"{words} {site.link()}", flush=True)
        if viewers:
            print(f"agentrt: to look on only: {site.link('viewer')}", flush=True)
        await site.link_used()
        words = "agentrt: for another browser:"


def _failed(message: str, status: int) -> int:
    print(f"agentrt: {plain(message)}", file=sys.stderr)
    return status
