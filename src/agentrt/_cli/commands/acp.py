"""`agentrt acp`: an ACP agent for editors, backed by any agent or by a server."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Literal

import trio
from msgspec import structs

from ..._base.nesting import bare_errors
from ..._public import Limits, Runtime, SessionInfo, open_runtime
from ..._serve.acpmessages import Meta
from ..._serve.address import ServerAddress
from ..._serve.dial import Unreachable, dial
from ..._serve.hub import Hub
from ..._serve.relay import AcpRelay
from ..._serve.remote.line import ServerLine
from ..._serve.stdio import OwnSessions, StdioPeer, serve_streams
from ...config import Config
from ...errors import AgentrtError, SessionNotFound
from ...hosting import runtime_host
from ...lowlevel import CommandFields
from ...storage import StoreAddress
from ..auditing import audit_log
from ..exit_status import UsageError
from ..options import Work, make_setup, refuse_server_options, session_of_server
from ..printing import print_error
from ..serve_settings import pages_config
from ..servers import find_server, find_session
from ..setup import Setup, agents_environment
from ..signals import BROKEN_PIPE
from ..stores import OwnStore, StoredRef, find, listed, open_own_store, store_files
from ..tracing import command_trace


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError`, `ServerNotFound` or
    `AgentNotFound`.
    """
    if options.resume is not None:
        raise UsageError("--resume does not apply to `agentrt acp`; editors load sessions")
    attach: str | Literal[True] | None = getattr(options, "attach", None)
    if attach is None:
        if getattr(options, "session", None) is not None:
            raise UsageError("--session requires --attach; without it, editors load sessions")
        return partial(serve_editor, make_setup(options, config))
    refuse_server_options(options)
    session = session_of_server(options)
    server, token = find_server(None if attach is True else attach, insecure=options.insecure)
    defaults = Meta(agent=options.agent, model=options.model, mode=options.mode, session=session)
    return partial(attach_editor, server, token, defaults)


async def serve_editor(setup: Setup) -> int:
    """Act as an agent on the standard streams until standard input ends; returns the exit
    status.
    """
    config = pages_config(setup)
    policy = setup.policy(setup.config.permissions.mode or "ask", attended=True)
    defaults = Meta(agent=setup.agent.name, model=setup.model, mode=setup.mode)
    try:
        async with (
            bare_errors(),
            _streams() as (source, sink),
            open_own_store(setup.config.terminal.store) as own,
            command_trace(config) as trace,
            open_runtime(
                config=config,
                permissions=policy,
                budget=setup.budget,
                wait=setup.wait,
                env=agents_environment(setup.config),
                telemetry=audit_log(config),
                trace=trace,
                store=own.store if own is not None else None,
            ) as runtime,
        ):
            others = None if own is None else TerminalStores(runtime, own, setup)
            hub = Hub(runtime, setup.agent.name, other_stores=others)
            try:
                return await _talk(OwnSessions(hub, defaults), source, sink, runtime.limits)
            finally:
                hub.close()
    except AgentrtError as error:
        return print_error(error)


async def attach_editor(server: ServerAddress, token: str, defaults: Meta) -> int:
    """Act as an agent with a server's sessions, which continue without the editor.

    Returns the exit status.
    """
    limits = Limits()
    try:
        if defaults.session is not None:
            session = await _session_named(server, token, defaults.session, limits)
            defaults = structs.replace(defaults, session=session)
        async with (
            bare_errors(),
            _streams() as (source, sink),
            dial(server, "/acp", token, limits) as socket,
        ):
            return await _talk(AcpRelay(socket, defaults, limits), source, sink, limits)
    except AgentrtError as error:
        return print_error(error)


async def _session_named(server: ServerAddress, token: str, prefix: str, limits: Limits) -> str:
    """Return the session id with this prefix, or the prefix itself if the server lists none.

    The prefix may be the id of a session on another server of the same database. Raises
    `Unreachable` if no answer arrives in time: the line alone would wait for the server's next
    start.
    """
    session = prefix
    with trio.move_on_after(limits.ws_handshake_timeout_s + limits.ws_write_timeout_s) as waiting:
        async with bare_errors(), trio.open_nursery() as nursery:
            line = ServerLine(lambda: (server, token), limits)
            await nursery.start(line.run)
            with suppress(SessionNotFound):
                session = (await find_session(line, prefix)).session
            nursery.cancel_scope.cancel(reason="the session is found")
    if waiting.cancelled_caught:
        raise Unreachable(f"{server} does not answer")
    return session


async def _talk(
    peer: StdioPeer, source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, limits: Limits
) -> int:
    """Serve the editor, and return the exit status for the way in which that ended."""
    try:
        why = await serve_streams(peer, source, sink, limits=limits)
    except trio.BrokenResourceError:
        return BROKEN_PIPE
    return print_error(AgentrtError(why)) if why else 0


@asynccontextmanager
async def _streams() -> AsyncIterator[tuple[trio.abc.ReceiveStream, trio.abc.SendStream]]:
    """Open standard input and output as streams; further output is redirected to standard error."""
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(trio.lowlevel.FdStream(os.dup(0)))
        sink = await stack.enter_async_context(trio.lowlevel.FdStream(os.dup(1)))
        os.dup2(2, 1)
        yield source, sink


class TerminalStores:
    """Sessions of terminals, earlier editors and stopped servers, as `OtherStores` for the hub."""

    def __init__(self, runtime: Runtime, own: OwnStore, setup: Setup) -> None:
        self._runtime = runtime
        self._own = own
        self._setup = setup

    def _files(self) -> list[StoreAddress]:
        """Return the stores to search: the one that `--store` names, or all that exist."""
        return store_files(self._setup.store, self._setup.config)

    async def sessions(self, cwd: str | None) -> CommandFields:
        """List the stored sessions of all files, the newest last. The files are read in a
        thread.
        """

        def read() -> list[StoredRef]:
            """Read the entries of the files."""
            return listed(self._files(), cwd=cwd, limit=None)[0]

        refs = await trio.to_thread.run_sync(read)
        return {
            "sessions": [
                SessionInfo(
                    session=each.entry.session,
                    agent=each.entry.agent,
                    cwd=each.entry.cwd,
                    title=each.entry.title,
                    phase="stored",
                    created=each.entry.created,
                    prompt=each.entry.prompt,
                    updated=each.entry.updated,
                )
                for each in reversed(refs)
            ]
        }

    async def fetch(self, session: str) -> CommandFields:
        """Move a session into this process's store, if its id is exactly this one."""

        def read() -> StoredRef:
            return find(self._files(), session)

        try:
            ref = await trio.to_thread.run_sync(read)
        except SessionNotFound:
            return {}  # the caller reports it
        if ref.entry.session == session:
            await self._own.fetch(ref)
            runtime_host(self._runtime).add_stored(ref.entry)
        return {}
