"""An ACP agent's part of a session: its files and terminals are served from here, its tools by an
MCP server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec import structs

from .._acp.driver import AcpDriver
from .._acp.host import Host as Files
from .._acp.messages import Implementation, client_capabilities
from .._acp.roots import Roots
from .._acp.terminals import Terminals, open_terminals
from .._agents import Agent
from .._errors import LocalProtocolError
from .._model.content import JsonObject
from .._model.driver import Driver, Opening, Requested
from .._model.events import Notice
from .._process.descendants import MARKER
from .._process.guard import guard
from .._process.pipes import Transport
from .._process.process import open_process
from .._process.streams import OpenStreams, open_streams
from .._session.host import SessionHost
from .._version import __version__
from .editors import Editors
from .offer import NOTHING_TO_FORK, Assembly, Offer, environment, keys, tool_server

if TYPE_CHECKING:
    from .._session.session import Session

OPTIONS = ("config", "meta", "replay", "session")


def assemble_acp(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    if offer.hooks:
        raise LocalProtocolError(f"{agent.name} speaks ACP, which has no hooks")
    if unknown := [name for name in opening.options if name not in OPTIONS]:
        raise ValueError(
            f"{agent.name} has no option {unknown[0]!r}: agents that speak ACP get"
            ' options={"config": {…}} (of their own `modes.options`) or {"meta": {…}}'
        )
    if opening.fork and opening.resume is None:
        raise ValueError(NOTHING_TO_FORK)
    if opening.mode is None and agent.quirks.mode is not None:
        opening = structs.replace(opening, mode=agent.quirks.mode)
    variables = environment(agent, offer.env, frozenset())
    new_key = keys(offer.first_key)

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
            late_history=agent.quirks.late_history,
            line_limit=offer.limits.line,
        )

    def connect(opening: Opening) -> AbstractAsyncContextManager[Transport]:
        offer.tap.env = variables
        if agent.connect is not None:
            return open_streams(cast("OpenStreams", agent.connect))
        return open_process(
            agent.command,
            cwd=opening.cwd,
            env=variables,
            limits=offer.limits,
            on_stderr=offer.on_stderr,
            watcher=offer.tap.process,
        )

    @asynccontextmanager
    async def attach(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        async with AsyncExitStack() as stack:
            roots = Roots((opening.cwd, *opening.roots))
            editors = Editors(
                *(host, roots), cwd=opening.cwd, env=variables, variables=agent.terminal_env
            )
            if offer.files:
                files = Files(roots, limits=offer.limits, ready=host.wait_read)
                own = partial(_serve_file, files)
                host.services["fs"] = partial(editors.serve, own)
            run = ""
            if offer.connect is None and (offer.terminals or offer.tools):
                # Should this process be killed, its guard finds the programs by the marker.
                run = await stack.enter_async_context(guard())
            if offer.terminals:
                marked = variables
                if run:
                    outer = variables.get(MARKER)
                    marked = {**variables, MARKER: f"{outer},{run}" if outer else run}
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
                serve_own = partial(_serve_terminal, host, terminals)
                host.services["terminal"] = partial(editors.serve, serve_own)
            servers: tuple[JsonObject, ...] = ()
            if offer.tools:
                # HTTP costs as much to import as everything else here.
                from .._tools.bridge import serve_tools

                server = tool_server(host, session, offer)
                endpoint = await stack.enter_async_context(
                    serve_tools(server, host.spawn_tool, limits=offer.limits, run=run)
                )
                # Alternatives: the driver takes the first that the agent knows.
                servers = (await endpoint.http_server(), endpoint.stdio_server())
            yield structs.replace(opening, mcp_servers=opening.mcp_servers + servers)

    return Assembly(opening, make_driver, offer.connect or connect, attach, offer.tap)


async def _serve_file(files: Files, asked: Requested) -> JsonObject:
    return await files.handle(asked.method, asked.params)


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
