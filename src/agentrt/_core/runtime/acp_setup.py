"""Session setup for ACP agents: serves files and terminals, and provides tools by an MCP server.

In version 1 of ACP an agent may ask its client to read and write files (`fs/…`) and to run programs
(`terminal/…`). The capabilities that are sent in `initialize` decide which of these it may request.
A request is served by the program's own objects, or a client of the session that offers it (an
editor), or else agentrt's own handlers; `Editors` makes the choice.

ACP has no messages for the tools of a client. The program's tools are therefore served as MCP
servers, which are named to the agent when its session is opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from ..._version import __version__
from ..acp.driver import AcpDriver
from ..acp.files import FileService as Files
from ..acp.files import Roots
from ..acp.messages import Implementation, client_capabilities
from ..acp.terminals import TerminalService, open_terminals
from ..agents import Agent
from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import Driver, Opening, ServiceRequested
from ..model.events import Notice
from ..permissions.standing import as_claude_rules
from ..process.guard import guard
from ..process.layer import MARKER
from ..session.host import SessionHost
from .client_services import Editors, OwnServices
from .offer import (
    Offer,
    ProtocolSetup,
    check_dicts,
    check_fork,
    connection,
    environment,
    keys,
    relays,
    serve_extensions,
    tool_server,
)

if TYPE_CHECKING:
    from ..session.session import Session
    from ..tools.server import InProcessServer

OPTIONS = (
    "append_system_prompt",
    "capabilities",
    "config",
    "meta",
    "replay",
    "session",
    "system_prompt",
)


def set_up_acp(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Set up a session for an ACP agent.

    Raises `LocalProtocolError`, `TypeError` or `ValueError` for options that it does not support.
    """
    if offer.hooks:
        raise LocalProtocolError(f"{agent.name} speaks ACP, which has no hooks")
    if unknown := [name for name in opening.options if name not in OPTIONS]:
        raise ValueError(
            f"{agent.name} has no option {unknown[0]!r}: agents that speak ACP get"
            ' options={"config": {…}} (of their own `modes.options`) or {"meta": {…}}'
        )
    check_dicts(agent, opening, "capabilities", "config", "meta")
    _check_prompts(agent, opening)
    check_fork(opening)
    own = not (isinstance(offer.files, bool) and isinstance(offer.terminals, bool))
    if own and agent.acp_version > 1:
        raise ValueError(
            "an agent with version 2 of ACP uses its own files and terminals; leave out files= and"
            " terminals=, or use version 1"
        )
    if opening.mode is None and agent.quirks.mode is not None:
        opening = structs.replace(opening, mode=agent.quirks.mode)
    if agent.quirks.claude_rules:
        opening = _with_claude_rules(opening, offer)
    variables = environment(agent, offer.env, project=offer.project)
    offer.tap.env = variables  # programs in its terminals get it, wherever the agent runs
    new_key = keys(offer.first_key)

    def make_driver() -> Driver:
        """Return the driver for the next process. A driver is never used for a second process."""
        return AcpDriver(
            new_key,
            capabilities=client_capabilities(
                read_files=bool(offer.files),
                write_files=bool(offer.files),
                terminals=bool(offer.terminals),
                elicitation=True,
                meta=opening.options.get("capabilities"),
            ),
            client=Implementation("agentrt", __version__),
            auth_method=agent.quirks.auth_method,
            late_history=agent.quirks.late_history,
            extensions=offer.extension_methods,
            fork_at=agent.quirks.fork_at,
            meta=offer.project.meta if offer.project is not None else None,
            refused_modes=offer.project.refused_modes if offer.project is not None else None,
            line_limit=offer.limits.message_bytes,
            version=agent.acp_version,
        )

    if offer.extensions:
        make_driver()  # reports errors in the extensions before anything is started

    @asynccontextmanager
    async def around_session(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Provide the services for the agent's requests, and add the tools to the MCP servers.

        The services live as long as the session, thus longer than each of its processes.
        """
        async with AsyncExitStack() as stack:
            serve_extensions(host, session, offer)
            roots = Roots((opening.cwd, *opening.roots), offer.wall)
            own = OwnServices(
                host,
                None if isinstance(offer.files, bool) else offer.files,
                None if isinstance(offer.terminals, bool) else offer.terminals,
                limits=offer.limits,
            )
            stack.push_async_callback(own.close)
            editors = Editors(
                host,
                roots,
                cwd=opening.cwd,
                env=variables,
                variables=agent.terminal_env,
                own=own,
            )
            if offer.files:
                files = Files(roots, limits=offer.limits, ready=host.wait_read)
                serve_own = partial(_serve_file, files)
                host.provide("fs", partial(editors.serve, serve_own))
            run = ""
            serves_programs = offer.terminals is True or offer.tools or offer.servers
            if offer.connect is None and serves_programs:
                # If this process is killed, its guard finds the programs by the marker.
                run = await stack.enter_async_context(guard())
            if own.serves("terminal/create", {}):
                host.provide("terminal", partial(editors.serve, None))
            elif offer.terminals:
                marked = variables
                if run:
                    outer = variables.get(MARKER)
                    marked = {**variables, MARKER: f"{outer},{run}" if outer else run}
                terminals = await stack.enter_async_context(
                    open_terminals(
                        roots,
                        cwd=opening.cwd,
                        env=offer.inside(marked),
                        limits=offer.limits,
                        on_output=host.terminal_output,
                        variables=agent.terminal_env,
                        on_left_out=partial(_left_out, host),
                        on_exit=host.program_ended,
                        join=offer.join,
                    )
                )
                host.exit_callbacks.append(terminals.release_all)
                host.program_counts.append(lambda: terminals.running)
                serve_terminal = partial(_serve_terminal, host, terminals)
                host.provide("terminal", partial(editors.serve, serve_terminal))
            servers = list(opening.mcp_servers)
            tool_servers: list[InProcessServer] = [*await relays(host, offer, stack)]
            if offer.tools:
                tool_servers.append(tool_server(host, session, offer))
            for server in tool_servers:
                # The HTTP modules take as long to import as everything else here.
                from ..tools.bridge import serve_tools

                endpoint = await stack.enter_async_context(
                    serve_tools(
                        server, host.spawn_tool, limits=offer.limits, run=run, inside=offer.wall
                    )
                )
                # Alternatives: the driver uses the first one that the agent supports.
                servers += (await endpoint.http_server(), endpoint.stdio_server())
            yield structs.replace(opening, mcp_servers=tuple(servers))

    def program(opening: Opening) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command and the environment for the next process."""
        return agent.command, environment(agent, offer.env, project=offer.project)

    connect = connection(agent, offer, program)
    return ProtocolSetup(opening, make_driver, connect, around_session, offer)


def _check_prompts(agent: Agent, opening: Opening) -> None:
    """Check the system prompts.

    Raises `TypeError` unless they are strings, and `ValueError` for two of them.
    """
    given = [name for name in ("system_prompt", "append_system_prompt") if name in opening.options]
    for name in given:
        value = opening.options[name]
        if not isinstance(value, str | None):
            kind = type(value).__name__
            raise TypeError(f"option {name!r} of {agent.name} must be a str, not {kind}")
    if len([name for name in given if opening.options[name] is not None]) > 1:
        raise ValueError("ACP has one system prompt: give system_prompt or append_system_prompt")


def _with_claude_rules(opening: Opening, offer: Offer) -> Opening:
    """Also pass the deny rules to an adapter of Claude Code."""
    rules = as_claude_rules(offer.standing.deny_rules, whole_tools=True)
    if not rules:
        return opening
    meta: JsonObject = dict(opening.options.get("meta") or {})
    claude: JsonObject = dict(meta.get("claudeCode") or {})
    options: JsonObject = dict(claude.get("options") or {})
    options["disallowedTools"] = [*options.get("disallowedTools", ()), *rules]
    meta["claudeCode"] = {**claude, "options": options}
    return structs.replace(opening, options={**opening.options, "meta": meta})


async def _serve_file(files: Files, asked: ServiceRequested) -> JsonObject:
    """Serve a request about a file with agentrt's own handler."""
    return await files.handle(asked.method, asked.params)


async def _serve_terminal(
    host: SessionHost, terminals: TerminalService, asked: ServiceRequested
) -> JsonObject:
    """Serve a request about a terminal with agentrt's own handler.

    Output may be large, so the answer waits until the agent reads (`SessionHost.wait_read`).
    """
    if asked.method == "terminal/output":
        await host.wait_read()
    return await terminals.handle(asked.method, asked.params)


def _left_out(host: SessionHost, variable: str) -> None:
    """Report a variable that the agent requests for a command and may not set."""
    message = (
        f"a command runs without {variable!r:.100}, which the agent may not set: it could make the"
        " command something else (see `terminal_env` of the agent)"
    )
    host.core.add_notice(Notice("info", "variable_left_out", message, {"variable": variable[:100]}))
