"""`agentrt serve`: a server with sessions for browsers, which prints links to its page."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from ..._base.nesting import bare_errors
from ..._public import Limits, Runtime, open_runtime
from ..._serve.security import Security
from ..._serve.server import serve
from ..._serve.site import Site
from ..._serve.waiting import not_ready
from ...config import Config, ServeSettings
from ...errors import AgentrtError, StoreError
from ...hosting import runtime_host
from ...lowlevel import StoreMembership, StoreServer
from ...store import Store, open_store
from ...telemetry import Metrics, OpenTelemetry, Telemetry
from ..auditing import audit_log
from ..collections import short_collections, thaw_when_idle
from ..exit_status import UsageError, exit_code
from ..options import Work, make_setup, server_store
from ..serve_settings import make_security, pages_config
from ..servers import announced
from ..setup import Setup, agents_environment
from ..text import plain
from ..tracing import command_trace
from ..webhook import Webhook

RETRY_S: Final = 1.0
"""Seconds between two attempts to reach the database."""


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    server_store(config.serve.store)  # report wrong usage before anything starts
    start = options.agent is not None or options.command is not None
    _check_node(config.serve, opens=start or options.resume is not None)
    setup = make_setup(options, config, demo=True)
    return partial(serve_pages, setup, make_security(setup), start=start)


def _check_node(settings: ServeSettings, *, opens: bool) -> None:
    """Check the settings of a server that shares its store.

    `opens`: a session is opened at startup. Raises `UsageError`.
    """
    alone = settings.node is None
    if settings.home is not None and alone:
        raise UsageError("--home is for servers that share a store; use it with --node NAME")
    if settings.role != "both" and alone:
        raise UsageError("--role is for servers that share a store; use it with --node NAME")
    if not alone and isinstance(server_store(settings.store), Path | None):
        raise UsageError(
            "--node is for servers that share a store in PostgreSQL; use it with --store"
            " postgresql://…"
        )
    if opens and settings.role == "gateway":
        raise UsageError(
            "a gateway runs no sessions; leave out --agent, --command and --resume, which open one"
        )


async def serve_pages(setup: Setup, security: Security, *, start: bool) -> int:
    """Serve until cancelled, and print a new link whenever one was used; returns the exit status.

    `start`: open a session with the agent immediately.
    """
    settings, mode = setup.config.serve, setup.config.permissions.mode or "ask"
    config = pages_config(setup)
    policy = setup.policy(mode, attended=True)
    metrics = None if settings.metrics_token is None else Metrics(agents=config.agents)
    try:
        webhook = None if settings.webhook is None else Webhook(settings.webhook)
        async with (
            bare_errors(),
            _open_store(config, security) as store,
            command_trace(config) as trace,
            _open_tracing(config) as tracing,
            open_runtime(
                config=config,
                permissions=policy,
                budget=setup.budget,
                wait=setup.wait,
                env=agents_environment(config, server=True),
                store=store,
                telemetry=_given(tracing, metrics, audit_log(config), webhook),
                trace=trace,
            ) as runtime,
            AsyncExitStack() as stack,  # left after the nursery, so valid while it serves
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(
                partial(
                    serve,
                    runtime,
                    settings.host,
                    settings.port,
                    agent=setup.agent.name,
                    cwd=None if setup.cwd == "." else setup.cwd,
                    roots=settings.root,
                    security=security,
                    metrics=metrics,
                )
            )
            if webhook is not None:
                nursery.start_soon(webhook.send_all, settings.url or site.direct_url)
            membership = runtime_host(runtime).membership
            if membership is not None:
                nursery.start_soon(drain, runtime, membership, nursery.cancel_scope)
            if start or setup.resume is not None:
                # Before the first client connects: it must find this session instead of opening
                # another.
                await _open_first_session(runtime, setup)
            stack.enter_context(short_collections())
            nursery.start_soon(thaw_when_idle, lambda: _is_idle(runtime))
            if _prints_links(site, settings):
                stack.enter_context(announced(site.direct_url, security.token))
                viewers, life_s = settings.viewer_token is not None, runtime.limits.link_lifetime_s
                nursery.start_soon(_print_links, site, viewers, life_s)
    except AgentrtError as error:
        return _failed(str(error), exit_code(error))
    except ValueError as error:  # not an address to listen on, or of a webhook
        return _failed(str(error), 2)
    except OSError as error:
        return _failed(f"cannot serve on {settings.host} port {settings.port}: {error}", 1)
    return 0


def _is_idle(runtime: Runtime) -> bool:
    """Return True if no session is at work."""
    return all(info.phase in ("idle", "closed", "dead") for info in runtime.list_open())


def _given(*parts: Telemetry | None) -> list[Telemetry] | None:
    """Return the parts that are set, or None."""
    return [each for each in parts if each is not None] or None


def _prints_links(site: Site, settings: ServeSettings) -> bool:
    """Return True if the server prints links to its page; otherwise print its role."""
    if not site.serves_clients:
        print(f"agentrt: a worker for gateways; {site.direct_url}readyz", flush=True)
        return False
    if settings.node is not None and settings.url is not None:
        # A balancer may send a link to another gateway, which does not know its ticket.
        print(f"agentrt: a gateway of {site.url}; sign in with its token", flush=True)
        return False
    return True


async def _open_first_session(runtime: Runtime, setup: Setup) -> None:
    """Open the session of the command line, or resume the one of `--resume`."""
    agent, cwd, model, mode = setup.agent, setup.cwd, setup.model, setup.mode
    if setup.resume is None:
        await runtime.create(agent, cwd=cwd, model=model, mode=mode)
    elif runtime.stored(setup.resume) is not None:
        await runtime.reopen(setup.resume, cwd=None if cwd == "." else cwd)
    else:
        await runtime.load(agent, setup.resume, cwd=cwd, model=model, mode=mode)


@asynccontextmanager
async def _open_store(config: Config, security: Security) -> AsyncIterator[Store | None]:
    """Open the store of the settings; yields None without one.

    If the database cannot be reached, it waits up to `limits.store_start_timeout_s`. Raises
    `StoreError`.
    """
    path = server_store(config.serve.store)
    if path is None:
        yield None
        return
    settings, limits = config.serve, config.bound(Limits())
    deadline = trio.current_time() + limits.store_start_timeout_s
    async with AsyncExitStack() as stack:
        while True:
            opening = open_store(
                path, limits=limits, node=settings.node, home=settings.home, role=settings.role
            )
            try:
                store = await stack.enter_async_context(opening)
                break
            except StoreError as error:
                if isinstance(path, Path) or not path.is_away(error):
                    raise
                print(f"agentrt: {plain(str(error))}", file=sys.stderr)
            await _wait_for(path, config, security, deadline)
        yield store


async def _wait_for(
    server: StoreServer, config: Config, security: Security, deadline: float
) -> None:
    """Wait until a database can be reached, and answer requests that the server is not ready.

    Raises the last `StoreError` at the deadline.
    """
    settings, limits = config.serve, config.bound(Limits())
    left = max(0.0, deadline - trio.current_time())
    words = f"agentrt: waiting up to {left:.0f} s for the database (limits.store_start_timeout_s)"
    print(words, file=sys.stderr, flush=True)
    async with AsyncExitStack() as stack:
        if settings.port:  # otherwise the port is not known yet
            why = "waiting for the database"
            waits = not_ready(settings.host, settings.port, security, limits, why)
            await stack.enter_async_context(waits)
        while True:
            await trio.sleep(RETRY_S)
            try:
                await trio.to_thread.run_sync(server.reach)
                break
            except StoreError as error:
                if not server.is_away(error) or trio.current_time() >= deadline:
                    raise
    print("agentrt: connected to the database", file=sys.stderr, flush=True)


async def drain(runtime: Runtime, membership: StoreMembership, scope: trio.CancelScope) -> None:
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
                "agentrt: taking no new sessions; exiting when the running turns have ended",
                flush=True,
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
    from .serve import open_tracing

    async with open_tracing() as tracing:
        yield tracing


async def _print_links(site: Site, viewers: bool, life_s: float | None) -> None:
    """Print a link, and a new one when it was used or has expired. `life_s`: its life in seconds;
    None: no limit.
    """
    words = "agentrt: open"
    while True:
        print(f"{words} {site.link()}", flush=True)
        if viewers:
            print(f"agentrt: view only: {site.link('viewer')}", flush=True)
        # Without a terminal, an expired link is not replaced: the log would fill up.
        wait_s = life_s if life_s is not None and sys.stdout.isatty() else math.inf
        with trio.move_on_after(wait_s) as expired:
            await site.link_used()
        words = "agentrt: for another browser:"
        if expired.cancelled_caught:
            words = "agentrt: that link has expired; new link:"


def _failed(message: str, status: int) -> int:
    print(f"agentrt: {plain(message)}", file=sys.stderr)
    return status


CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own variable for recording contents."""

_LAST_SPANS_S: Final = 5.0
"""Seconds for sending the last spans."""


@asynccontextmanager
async def open_tracing() -> AsyncIterator[OpenTelemetry]:
    """Open the tracing of a server.

    Spans go to the SDK that the process was started with (`opentelemetry-instrument`) or, without
    one, over OTLP. Leaving the block sends the remaining spans, in bounded time.

    Raises `UsageError` if a package is not installed.
    """
    settings = os.environ.get(CONTENT, "").lower()
    content = settings in ("true", "span_only", "span_and_event")
    spans = OpenTelemetry(content=content)
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield spans
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--otel needs {error.name} to send spans:"
            " pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http,"
            " or start the server with opentelemetry-instrument"
        ) from error
    named = Resource({SERVICE_NAME: "agentrt"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield OpenTelemetry(tracer_provider=provider, content=content)
    finally:
        with trio.move_on_after(_LAST_SPANS_S, shield=True):
            await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)
