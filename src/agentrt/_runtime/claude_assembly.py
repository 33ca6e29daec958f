"""Claude Code's part of a session: its tools and hooks are asked for over the agent's own pipes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from .._agents import Agent
from .._claude.command import build_command
from .._claude.legacy import driver_for
from .._claude.options import ClaudeOptions, check_values, effective, with_session_id
from .._model.driver import Driver, Opening, Requested
from .._process.pipes import Transport
from .._process.process import open_process
from .._process.streams import OpenStreams, open_streams
from .._session.host import SessionHost
from .._session.turn import Turn
from .._tools.hooks import HookTable
from .claude_sessions import stored_history
from .offer import NOTHING_TO_FORK, Assembly, Offer, environment, keys, tool_server

if TYPE_CHECKING:
    from .._session.session import Session
    from .._tools.server import ToolConnection


def assemble_claude(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    hooks = HookTable(offer.hooks)
    servers: tuple[str, ...] = ()
    if offer.tools:
        from .._tools.server import NAME

        servers = (NAME,)
    options = structs.replace(
        agent.claude or ClaudeOptions(),
        hooks=hooks.matchers,
        sdk_servers=servers,
    )
    # Raises what is wrong with it before anything is started.
    wanted = effective(options, opening)
    check_values(wanted)
    if opening.fork and opening.resume is None and not wanted.continue_last:
        raise ValueError(NOTHING_TO_FORK)
    new_key = keys(offer.first_key)

    def make_driver() -> Driver:
        return driver_for(
            options, new_key=new_key, new_uuid=offer.new_uuid, line_limit=offer.limits.line
        )

    taken: set[str | None] = {None}

    def connect(opening: Opening) -> AbstractAsyncContextManager[Transport]:
        if agent.connect is not None:  # it was started, with its options, by somebody else
            return open_streams(cast("OpenStreams", agent.connect))
        given = effective(options, opening)
        if given.legacy:  # such a program does not take the id of an earlier process
            if given.session_id in taken:
                given = structs.replace(given, session_id=offer.new_uuid())
            taken.add(given.session_id)
        command = build_command(agent.command, opening, given)
        env = {
            **environment(agent, offer.env, command.env_unset),
            **offer.variables(),
            **command.env_set,
        }
        offer.tap.env = env
        return open_process(
            command.argv,
            cwd=opening.cwd,
            env=env,
            limits=offer.limits,
            on_stderr=offer.on_stderr,
            watcher=offer.tap.process,
        )

    @asynccontextmanager
    async def attach(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        if offer.tools:
            server = tool_server(host, session, offer)
            connection = server.connect(partial(_notify, host, server.name))
            host.services["mcp"] = partial(_serve_mcp, host, connection)
        if offer.hooks:
            host.hooks = lambda asked, turn: hooks.serve(
                asked, Turn.of(host, turn), host.wait_until_stored
            )
        given = effective(options, opening)
        env = {**environment(agent, offer.env, frozenset()), **given.env}
        for effect in await stored_history(opening, given, env):
            host.core.conversation.handled[type(effect)](effect)
        yield with_session_id(opening, options, offer.new_uuid)

    return Assembly(opening, make_driver, offer.connect or connect, attach, offer.tap)


async def _serve_mcp(host: SessionHost, connection: ToolConnection, request: Requested) -> Any:
    """One message of Claude's to the tool server. A call is run here, in its own handler."""
    calls: list[Callable[[], Awaitable[None]]] = []
    answers: list[Any] = []

    def begin(call: Callable[..., Awaitable[None]], *args: object) -> None:
        if not request.background:
            host.begin_tool()
        calls.append(partial(call, *args))

    message, background = request.params["message"], request.background
    connection.handle(message, begin, answers.append, background=background)
    for call in calls:
        await call()
    return answers[0]


def _notify(host: SessionHost, server: str, message: Any) -> None:
    """Send a notification of the tool server; nobody waits for its acknowledgement."""
    if host.core.ready:
        params = {"server": server, "message": message}
        host.core.requests.call("mcp_notify", params, lambda returned: None)
