"""Session setup for Codex, which calls the program's tools over its own pipes.

It accesses files and runs commands by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ..._base.nesting import ExitStack
from ..._version import __version__
from ..agents import Agent
from ..codex.driver import CodexDriver
from ..codex.messages import CodexClientInfo
from ..codex.options import CodexOptions, tool_response
from ..errors import LocalProtocolError
from ..model.driver import Driver, Opening, ServiceRequested
from ..model.events import Notice
from ..process.guard import guard
from ..session.host import SessionHost
from .offer import (
    Offer,
    ProtocolSetup,
    RequestKeys,
    check_dicts,
    check_fork,
    check_no_services,
    connection,
    environment,
    relays,
    serve_extensions,
    tool_server,
)

if TYPE_CHECKING:
    from ..session.session import Session
    from ..tools.server import InProcessServer, ToolServer

OPTIONS = frozenset(CodexOptions.__annotations__)


def set_up_codex(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Set up a session for Codex.

    Raises `LocalProtocolError`, `TypeError` or `ValueError` for options that it does not support.
    """
    check_no_services(agent, offer)
    if offer.hooks:
        raise LocalProtocolError(f"{agent.name} does not support hooks of a program")
    if unknown := [name for name in opening.options if name not in OPTIONS]:
        raise ValueError(
            f"{agent.name} has no option {unknown[0]!r}: it gets"
            ' options={"config": {"effort": …}}, {"json_schema": {…}}, or {"codex": {…}} for what'
            " its configuration file may say"
        )
    check_dicts(agent, opening, "codex", "config", "json_schema")
    check_fork(opening)
    if opening.mode is None and agent.quirks.mode is not None:
        opening = structs.replace(opening, mode=agent.quirks.mode)
    parts = _CodexSetup(agent, opening, offer)
    if offer.extensions:
        parts.make_driver()  # reports errors in the extensions before anything is started
    connect = connection(agent, offer, parts.program)
    return ProtocolSetup(opening, parts.make_driver, connect, parts.around_session, offer)


class _CodexSetup:
    """The parts of a session's setup that are used at each start, and around the session."""

    __slots__ = ("_agent", "_bridged", "_new_key", "_offer", "_opening")

    def __init__(self, agent: Agent, opening: Opening, offer: Offer) -> None:
        self._agent = agent
        self._opening = opening
        self._offer = offer
        self._new_key = RequestKeys(offer.first_key)
        # A thread keeps the tools that it was started with. A resumed one, started by another
        # process, gets its tools from an MCP server.
        self._bridged = opening.resume is not None

    def make_driver(self) -> Driver:
        """Return the driver for the next process. A driver is never used for a second process."""
        offer = self._offer
        return CodexDriver(
            self._new_key,
            client=CodexClientInfo(name="agentrt", title="agentrt", version=__version__),
            tools=[] if self._bridged else [tool.info for tool in offer.tools],
            extensions=offer.extension_methods,
            config=offer.project.thread_config if offer.project is not None else None,
            line_limit=offer.limits.message_bytes,
        )

    def program(self, opening: Opening) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command and the environment for the next process."""
        agent, offer = self._agent, self._offer
        variables, further = environment(agent, offer.env, project=offer.project), offer.variables()
        return agent.command, {**variables, **further} if further else variables

    @asynccontextmanager
    async def around_session(self, host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Serve the tools: over Codex's own pipes, or in a resumed thread by an MCP server."""
        offer, bridged = self._offer, self._bridged
        async with ExitStack() as stack:
            serve_extensions(host, session, offer)
            servers = list(self._opening.mcp_servers)
            tool_servers: list[InProcessServer] = [*await relays(host, offer, stack)]
            if offer.tools:
                tools = tool_server(host, session, offer, sent=not bridged)
                host.provide("tool", partial(_serve_tool, host, tools))
                if bridged:
                    tool_servers.append(tools)
                else:
                    host.provide_tools(partial(_set_tools, host, tools))
            for server in tool_servers:
                # The HTTP modules take as long to import as everything else here.
                from ..tools.bridge import serve_tools

                run = await stack.enter_async_context(guard()) if not offer.connect else ""
                endpoint = await stack.enter_async_context(
                    serve_tools(
                        server, host.spawn_tool, limits=offer.limits, run=run, inside=offer.wall
                    )
                )
                servers.append(endpoint.stdio_server())
            meant = self._opening
            if tool_servers:
                meant = structs.replace(meant, mcp_servers=tuple(servers))
            yield meant


async def _serve_tool(host: SessionHost, server: ToolServer, request: ServiceRequested) -> Any:
    """Run a call of one of the program's tools, in its own handler."""
    host.begin_tool()
    given = request.params
    arguments = given["arguments"]
    outcome = await server.call(
        given["tool"], arguments if isinstance(arguments, dict) else {}, tool_call=given["call"]
    )
    return tool_response(outcome)


def _set_tools(host: SessionHost, server: ToolServer, tools: Iterable[object]) -> None:
    """Set the tools of a running thread.

    Tools can be removed or replaced; a notice reports new ones, which this thread cannot call.
    """
    known = {tool.name for tool in server.tools}
    server.set_tools(tools)
    new = sorted({tool.name for tool in server.tools} - known)
    if new:
        message = f"codex gets new tools only with its next session: {', '.join(new)}"
        host.core.add_notice(Notice("warning", "tools_fixed", message, {"tools": new}))
