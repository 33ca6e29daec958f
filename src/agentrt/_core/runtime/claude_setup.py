"""Session setup for Claude Code, which requests tools and hooks over its own pipes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec import structs

from ..._base.nesting import ExitStack
from ..agents import Agent
from ..claude.checks import with_checks
from ..claude.command import build_command
from ..claude.driver import ClaudeDriver
from ..claude.options import ClaudeOptions, check_values, effective, with_session_id
from ..errors import LocalProtocolError, RequestError
from ..model.driver import Driver, Effect, Opening, ServiceRequested
from ..permissions.policies import OWN_NAME
from ..permissions.standing import as_claude_rules
from ..session.host import SessionHost
from ..session.turn import turn_of
from ..wire.jsonrpc import METHOD_NOT_FOUND
from .offer import (
    Offer,
    ProtocolSetup,
    RequestKeys,
    check_fork,
    check_no_services,
    connection,
    environment,
    random_uuids,
    relays,
    serve_extensions,
    tool_server,
)

if TYPE_CHECKING:
    from ..session.interfaces import AgentSessions
    from ..session.session import Session
    from ..tools.extensions import HookTable
    from ..tools.server import InProcessConnection, InProcessServer


_USUAL: Final = ClaudeOptions()


def set_up_claude(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Set up a session for Claude Code.

    Raises `LocalProtocolError`, `TypeError` or `ValueError` for options that it does not support.
    """
    check_no_services(agent, offer)
    hooks = _hook_table(offer)
    servers = [server.name for server in offer.servers]
    if offer.tools:
        servers.append(OWN_NAME)
    options = agent.claude or _USUAL
    if hooks is not None or servers or options.hooks or options.sdk_servers:
        matchers = {} if hooks is None else hooks.matchers
        options = structs.replace(options, hooks=matchers, sdk_servers=tuple(servers))
    # Reports invalid options before anything is started.
    wanted = effective(options, opening)
    if offer.standing.refuses and not wanted.legacy:
        options = structs.replace(options, hooks=with_checks(options.hooks))
    check_values(wanted)
    check_fork(opening, goes_on=wanted.continue_last)
    parts = _ClaudeSetup(agent, opening, offer, options, hooks)
    if offer.extensions:
        parts.make_driver()  # reports errors in the extensions before anything is started
    connect = connection(agent, offer, parts.program)
    return ProtocolSetup(opening, parts.make_driver, connect, parts.around_session, offer)


class _ClaudeSetup:
    """The parts of a session's setup that are used at each start, and around the session."""

    __slots__ = (
        "_agent",
        "_hooks",
        "_new_key",
        "_new_uuid",
        "_offer",
        "_opening",
        "_options",
        "_taken",
    )

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        offer: Offer,
        options: ClaudeOptions,
        hooks: HookTable | None,
    ) -> None:
        """`options`: those of the agent, with the session's hooks and tool servers."""
        self._agent = agent
        self._opening = opening
        self._offer = offer
        self._options = options
        self._hooks = hooks
        self._new_key = RequestKeys(offer.first_key)
        self._new_uuid = offer.new_uuid or random_uuids()
        self._taken: tuple[str | None, ...] = (None,)
        """The ids of earlier processes of an old version."""

    def make_driver(self) -> Driver:
        """Return the driver for the next process: the usual one, or the one for old versions."""
        options, offer = self._options, self._offer
        limit = offer.limits.message_bytes
        if not options.legacy:
            return ClaudeDriver(
                options,
                new_key=self._new_key,
                new_uuid=self._new_uuid,
                extensions=offer.extension_methods,
                line_limit=limit,
                files=self._agent.connect is None,
            )
        if offer.extensions:
            raise LocalProtocolError("the older dialect has no requests that could be extended")
        from ..claude.legacy import LegacyDriver  # few programs are that old

        return LegacyDriver(options, new_key=self._new_key, line_limit=limit)

    def program(self, opening: Opening) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command and the environment for the next process.

        They depend on the present: the trust in the folder, the money that is left of the budgets,
        and for an old version the ids of earlier processes. Deny rules are added to the command,
        too, so that Claude Code enforces them itself.
        """
        agent, offer, options = self._agent, self._offer, self._options
        usual = options if offer.project is None else offer.project.claude_options(options)
        given = effective(usual, opening)
        if given.legacy:  # such a program does not accept the id of an earlier process
            if given.session_id in self._taken:
                given = structs.replace(given, session_id=self._new_uuid())
            self._taken += (given.session_id,)
        if not given.legacy:
            rules = as_claude_rules(offer.standing.deny_rules, whole_tools=False)
            denied = (*given.disallowed_tools, *rules)
            given = structs.replace(given, disallowed_tools=denied)
            if (left := offer.money_left()) is not None:  # it stops sooner than at a turn's end
                given = structs.replace(
                    given, max_budget_usd=min(left, given.max_budget_usd or left)
                )
        command = build_command(agent.command, opening, given)
        inherited = environment(agent, offer.env, command.env_unset, offer.project)
        return command.argv, {**inherited, **offer.variables(), **command.env_set}

    @asynccontextmanager
    async def around_session(self, host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Provide tools, hooks and stored sessions; resolve the end of a fork; show earlier turns.

        The earlier turns of a resumed session are read from its transcript, because Claude Code
        does not send them.
        """
        agent, offer, hooks = self._agent, self._offer, self._hooks
        async with ExitStack() as stack:
            tool_servers: list[InProcessServer] = [*await relays(host, offer, stack)]
            if offer.tools:
                tool_servers.append(tool_server(host, session, offer))
            if tool_servers:
                connections = await stack.enter_async_context(_connected(host, tool_servers))
                host.provide("mcp", partial(_serve_mcp, host, connections))
            if hooks is not None:
                serve_hook = hooks.serve
                host.turn_services["hook"] = lambda asked, turn: serve_hook(
                    asked, turn_of(host, turn), host.wait_until_stored
                )
            serve_extensions(host, session, offer)
            if agent.connect is None:  # otherwise its sessions are on the agent's machine
                host.provide_stored_sessions(partial(_kept_sessions, agent, offer.env))
            meant, history = await self._continued()
            for effect in history:
                host.core.conversation.take(effect)
            yield with_session_id(meant, self._options, self._new_uuid)

    async def _continued(self) -> tuple[Opening, list[Effect]]:
        """Resolve the end of a fork, and return the history of an earlier session.

        Without an earlier session, the modules that read transcripts are not needed. Raises
        `LocalProtocolError` as `with_entry` does.
        """
        opening, offer = self._opening, self._offer
        given = effective(self._options, opening)
        if opening.resume is None and opening.fork_at is None and not given.continue_last:
            return opening, []
        from .claude_sessions import stored_history, with_entry

        env = {**environment(self._agent, offer.env, project=offer.project), **given.env}
        meant = await with_entry(opening, env)
        return meant, await stored_history(meant, given, env)


def _kept_sessions(agent: Agent, env: Mapping[str, str]) -> AgentSessions:
    """Return the sessions that Claude Code has stored. Few programs ask a session for them."""
    from .claude_sessions import KeptByClaude

    return KeptByClaude(agent, env)


def _hook_table(offer: Offer) -> HookTable | None:
    """Return the program's hooks; None, without the module of hooks, if it has none."""
    if not offer.hooks:
        return None
    from ..tools.extensions import HookTable

    return HookTable(offer.hooks)


@asynccontextmanager
async def _connected(
    host: SessionHost, servers: Iterable[InProcessServer]
) -> AsyncIterator[dict[str, InProcessConnection]]:
    """Connect Claude to the servers, by their names, until the end of the block."""
    connections = {
        server.name: server.connect(partial(_notify, host, server.name)) for server in servers
    }
    try:
        yield connections
    finally:
        for connection in connections.values():
            connection.close()


async def _serve_mcp(
    host: SessionHost, connections: Mapping[str, InProcessConnection], request: ServiceRequested
) -> Any:
    """Pass one message of Claude's to a server. A tool call runs here, in its own handler."""
    calls: list[Callable[[], Awaitable[None]]] = []
    answers: list[Any] = []
    answered: trio.Event | None = None

    def reply(answer: Any) -> None:
        """Keep the server's answer for the return value."""
        answers.append(answer)
        if answered is not None:
            answered.set()

    def begin(call: Callable[..., Awaitable[None]], *args: object) -> None:
        """Collect a tool call, which is run after the message has been handled.

        A call in the background does not belong to the turn, so a cancelled turn does not refuse
        it.
        """
        if not request.background:
            host.begin_tool()
        calls.append(partial(call, *args))

    name, message = request.params["server"], request.params["message"]
    if name not in connections:
        raise RequestError(METHOD_NOT_FOUND, f"there is no server {name}")
    connections[name].handle(message, begin, reply, background=request.background)
    for call in calls:
        await call()
    if not answers:  # otherwise the wait would let all other tasks run first
        answered = trio.Event()
        await answered.wait()
    return answers[0]


def _notify(host: SessionHost, server: str, message: Any) -> None:
    """Send a notification of the tool server, without waiting for the acknowledgement."""
    if host.core.ready:
        params = {"server": server, "message": message}
        host.core.requests.call("mcp_notify", params, lambda returned: None)
