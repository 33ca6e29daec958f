"""What differs between the protocols when a session is opened: how the process is started, which
driver speaks to it, and which services the host offers.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import structs

from .._acp.driver import AcpDriver
from .._acp.host import Host as Files
from .._acp.messages import Implementation, client_capabilities
from .._acp.roots import Roots
from .._acp.terminals import Terminals, open_terminals
from .._agents import Agent
from .._claude.command import build_command
from .._claude.legacy import driver_for
from .._claude.options import ClaudeOptions, check_values, effective, with_session_id
from .._errors import LocalProtocolError
from .._limits import Limits
from .._model.content import JsonObject
from .._model.driver import Driver, Opening, Requested, ToolCalled
from .._model.events import Notice
from .._process.descendants import MARKER
from .._process.guard import guard
from .._process.pipes import Transport
from .._process.process import open_process
from .._session.host import SessionHost
from .._session.link import Connect
from .._session.turn import Turn
from .._tools.bridge import serve_tools
from .._tools.hooks import Hook, HookTable
from .._tools.server import ToolConnection, ToolServer
from .._tools.tools import Tool
from .._version import __version__
from .claude_sessions import stored_history

if TYPE_CHECKING:
    from .._session.session import Session

ACP_OPTIONS = ("config", "meta", "replay", "session")
NOTHING_TO_FORK = "fork=True copies an earlier session: give its id as `resume`, too"
Attach = Callable[[SessionHost, "Session"], AbstractAsyncContextManager[Opening]]


def _new_uuid() -> str:
    """A random UUID. What `uuid4` makes on the way to its text costs five times as much."""
    digits = secrets.token_hex(16)
    variant = "89ab"[int(digits[16], 16) & 3]
    head, middle, tail = digits[:8], digits[8:12], digits[20:]
    return f"{head}-{middle}-4{digits[13:16]}-{variant}{digits[17:20]}-{tail}"


@dataclass(frozen=True)
class Offer:
    """What a session offers to its agent, and where the agent's process is to live."""

    tools: tuple[Tool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    on_stderr: Callable[[bytes], None] | None = None
    files: bool = True
    terminals: bool = True
    connect: Connect | None = None
    """How to reach the agent instead of starting its program."""
    new_uuid: Callable[[], str] = _new_uuid
    """Names Claude's sessions and prompts."""


@dataclass(frozen=True)
class Assembly:
    """The protocol's part of a session."""

    opening: Opening
    make_driver: Callable[[], Driver]
    connect: Connect
    attach: Attach
    """Opened around the session: brings in what needs a running one, and gives the opening."""


def assemble(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    """What an agent's session is made of. Raises `LocalProtocolError` or ValueError for what the
    agent cannot do."""
    return (_claude if agent.protocol == "claude" else _acp)(agent, opening, offer)


def limits_for(agent: Agent, limits: Limits | None = None) -> Limits:
    """The bounds for an agent: those given; where they are the usual ones, with the agent's
    peculiarities."""
    usual, quirks = Limits(), agent.quirks
    limits = limits or usual
    wanted: dict[str, float | None] = {
        "handshake": quirks.handshake,
        "stdin_close": quirks.stdin_close,
        "cancel_grace": quirks.cancel_grace,
    }
    if not quirks.eof_exits:
        wanted["stdin_close"] = 0.2  # for its last words, no more
    if quirks.resend_cancel:
        wanted["cancel_resend"] = 0.5
    return structs.replace(
        limits,
        **{
            name: value
            for name, value in wanted.items()
            if value is not None and getattr(limits, name) == getattr(usual, name)
        },
    )


def _environment(agent: Agent, base: Mapping[str, str], unset: frozenset[str]) -> dict[str, str]:
    dropped = unset.union(agent.unset_env)
    return {k: v for k, v in base.items() if k not in dropped} | agent.env


def _keys() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"r{next(numbers)}"


# --- ACP


def _acp(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    if offer.hooks:
        raise LocalProtocolError(f"{agent.name} speaks ACP, which has no hooks")
    if unknown := [name for name in opening.options if name not in ACP_OPTIONS]:
        raise ValueError(
            f"{agent.name} has no option {unknown[0]!r}: agents that speak ACP are told"
            ' options={"config": {…}} (of their own `modes.options`) or {"meta": {…}}'
        )
    if opening.fork and opening.resume is None:
        raise ValueError(NOTHING_TO_FORK)
    if opening.mode is None and agent.quirks.mode is not None:
        opening = structs.replace(opening, mode=agent.quirks.mode)
    environment = _environment(agent, offer.env, frozenset())
    new_key = _keys()

    def make_driver() -> Driver:
        return AcpDriver(
            new_key,
            capabilities=client_capabilities(
                read_files=offer.files,
                write_files=offer.files,
                terminals=offer.terminals,
                elicitation=True,
            ),
            client=Implementation("agentrt", __version__),
            auth_method=agent.quirks.auth_method,
            line_limit=offer.limits.line,
        )

    def connect(opening: Opening) -> AbstractAsyncContextManager[Transport]:
        return open_process(
            agent.command,
            cwd=opening.cwd,
            env=environment,
            limits=offer.limits,
            on_stderr=offer.on_stderr,
        )

    @asynccontextmanager
    async def attach(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        async with AsyncExitStack() as stack:
            roots = Roots((opening.cwd, *opening.roots))
            if offer.files:
                files = Files(roots, limits=offer.limits, ready=host.wait_read)
                host.services["fs"] = lambda asked: files.handle(asked.method, asked.params)
            run = ""
            if offer.connect is None and (offer.terminals or offer.tools):
                # Should this process be killed, its guard finds the programs by the marker.
                run = await stack.enter_async_context(guard())
            if offer.terminals:
                marked = environment
                if run:
                    outer = environment.get(MARKER)
                    marked = {**environment, MARKER: f"{outer},{run}" if outer else run}
                terminals = await stack.enter_async_context(
                    open_terminals(
                        roots,
                        cwd=opening.cwd,
                        env=marked,
                        limits=offer.limits,
                        on_output=host.terminal_output,
                        variables=agent.terminal_env,
                        on_left_out=partial(_left_out, host),
                        on_exit=host.program_ended,
                    )
                )
                host.when_gone.append(terminals.release_all)
                host.programs = lambda: terminals.running
                host.services["terminal"] = partial(_serve_terminal, host, terminals)
            servers: tuple[JsonObject, ...] = ()
            if offer.tools:
                server = _tool_server(host, session, offer)
                endpoint = await stack.enter_async_context(
                    serve_tools(server, host.spawn_tool, limits=offer.limits, run=run)
                )
                # Alternatives: the driver takes the first that the agent knows.
                servers = (await endpoint.http_server(), endpoint.stdio_server())
            yield structs.replace(opening, mcp_servers=opening.mcp_servers + servers)

    return Assembly(opening, make_driver, offer.connect or connect, attach)


async def _serve_terminal(host: SessionHost, terminals: Terminals, asked: Requested) -> JsonObject:
    if asked.method == "terminal/output":
        await host.wait_read()
    return await terminals.handle(asked.method, asked.params)


def _left_out(host: SessionHost, variable: str) -> None:
    message = (
        f"a command runs without {variable!r:.100}, which the agent may not set: it could make the"
        " command something else (see `terminal_env` of the agent)"
    )
    host.core.say(Notice("info", "variable_left_out", message, {"variable": variable[:100]}))


def _show_progress(
    host: SessionHost,
    tool: Tool,
    call: str | None,
    progress: float,
    total: float | None,
    message: str | None,
) -> None:
    """In the item of the call, where the agent says which one it is; else as a notice."""
    of = f" of {total:g}" if total is not None else ""
    words = f"{message} ({progress:g}{of})" if message else f"{progress:g}{of}"
    core = host.core
    with core:
        items = core.conversation.items
        if call is not None and items.open_call(call) is not None:
            items.tool_called(ToolCalled(id=call, append=f"{words}\n"))
        else:
            data = {"tool": tool.name, "progress": progress, "total": total, "message": message}
            core.log.append(Notice("info", "tool_progress", f"{tool.name}: {words}", data))


def _tool_server(host: SessionHost, session: Session, offer: Offer) -> ToolServer:
    server = ToolServer(
        offer.tools,
        session=session,
        turn=lambda: Turn.of(host, host.core.turn),
        timeout=offer.limits.tool,
        on_error=lambda tool, error: host.handler_failed(f"the tool {tool.name}", error),
        on_progress=partial(_show_progress, host),
    )
    session.offer_tools(server.set_tools)
    return server


# --- Claude Code


def _claude(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    hooks = HookTable(offer.hooks)
    server_name = ToolServer().name
    options = structs.replace(
        agent.claude or ClaudeOptions(),
        hooks=hooks.matchers,
        sdk_servers=(server_name,) if offer.tools else (),
    )
    # Raises what is wrong with it before anything is started.
    wanted = effective(options, opening)
    check_values(wanted)
    if opening.fork and opening.resume is None and not wanted.continue_last:
        raise ValueError(NOTHING_TO_FORK)
    new_key = _keys()

    def make_driver() -> Driver:
        return driver_for(
            options, new_key=new_key, new_uuid=offer.new_uuid, line_limit=offer.limits.line
        )

    taken: set[str | None] = {None}

    def connect(opening: Opening) -> AbstractAsyncContextManager[Transport]:
        given = effective(options, opening)
        if given.legacy:  # such a program does not take the id of an earlier process
            if given.session_id in taken:
                given = structs.replace(given, session_id=offer.new_uuid())
            taken.add(given.session_id)
        command = build_command(agent.command, opening, given)
        return open_process(
            command.argv,
            cwd=opening.cwd,
            env=_environment(agent, offer.env, command.env_unset) | command.env_set,
            limits=offer.limits,
            on_stderr=offer.on_stderr,
        )

    @asynccontextmanager
    async def attach(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        if offer.tools:
            server = _tool_server(host, session, offer)
            connection = server.connect(partial(_notify, host, server.name))
            host.services["mcp"] = partial(_serve_mcp, host, connection)
        if offer.hooks:
            host.hooks = lambda asked, turn: hooks.serve(asked, Turn.of(host, turn))
        given = effective(options, opening)
        env = {**_environment(agent, offer.env, frozenset()), **given.env}
        for effect in await stored_history(opening, given, env):
            host.core.conversation.handled[type(effect)](effect)
        yield with_session_id(opening, options, offer.new_uuid)

    return Assembly(opening, make_driver, offer.connect or connect, attach)


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
        host.core.call("mcp_notify", params, lambda returned: None)
