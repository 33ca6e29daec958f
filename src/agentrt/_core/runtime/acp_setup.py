"""Session setup for ACP agents: serves files and terminals, and provides tools by an MCP server.

In version 1 of ACP an agent may ask its client to read and write files (`fs/…`) and to run programs
(`terminal/…`). The capabilities that are sent in `initialize` decide which of these it may request.
`AcpServices` serves them.

ACP has no messages for the tools of a client. The program's tools are therefore served as MCP
servers, which are named to the agent when its session is opened.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ..._base.nesting import ExitStack
from ..._version import __version__
from ..acp.driver import AcpDriver
from ..acp.messages import Implementation, client_capabilities
from ..agents import Agent
from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import Driver, Opening, ServiceRequested
from ..permissions.standing import as_claude_rules
from ..process.guard import guard
from ..session.host import SessionHost
from .offer import (
    Offer,
    ProtocolSetup,
    RequestKeys,
    check_dicts,
    check_fork,
    connection,
    environment,
    relays,
    serve_extensions,
    tool_server,
)

if TYPE_CHECKING:
    from ..session.session import Session
    from ..tools.server import InProcessServer
    from .acp_services import AcpServices

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
    # The agent's files are in these folders, also if the paths later lead to other ones.
    targets = tuple(os.path.realpath(each) for each in (opening.cwd, *opening.roots))
    parts = _AcpSetup(agent, opening, offer, targets, variables)
    if offer.extensions:
        parts.make_driver()  # reports errors in the extensions before anything is started
    connect = connection(agent, offer, parts.program)
    return ProtocolSetup(opening, parts.make_driver, connect, parts.around_session, offer)


class _AcpSetup:
    """The parts of an ACP session's setup that are used at each start, and around the session."""

    __slots__ = ("_agent", "_env", "_new_key", "_offer", "_opening", "_targets")

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        offer: Offer,
        targets: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        """`targets` and `env`: as for `AcpServices`."""
        self._agent = agent
        self._opening = opening
        self._offer = offer
        self._targets = targets
        self._env = env
        self._new_key = RequestKeys(offer.first_key)

    def make_driver(self) -> Driver:
        """Return the driver for the next process. A driver is never used for a second process."""
        agent, opening, offer = self._agent, self._opening, self._offer
        return AcpDriver(
            self._new_key,
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

    @asynccontextmanager
    async def around_session(self, host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Provide the services for the agent's requests, and add the tools to the MCP servers.

        The services live as long as the session, thus longer than each of its processes.
        """
        opening, offer = self._opening, self._offer
        async with (
            _LazyServices(self._agent, opening, offer, host, self._targets, self._env),
            ExitStack() as stack,
        ):
            serve_extensions(host, session, offer)
            run = ""
            if offer.connect is None and (offer.tools or offer.servers):
                # If this process is killed, its guard finds the programs by the marker.
                run = await stack.enter_async_context(guard())
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
            meant = opening
            if tool_servers:
                meant = structs.replace(opening, mcp_servers=tuple(servers))
            yield meant

    def program(self, opening: Opening) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command and the environment for the next process."""
        agent, offer = self._agent, self._offer
        return agent.command, environment(agent, offer.env, project=offer.project)


class _LazyServices:
    """Serve the agent's requests about files and terminals in the block.

    The services are made at the first request, because many agents never send one.
    """

    __slots__ = (
        "_agent",
        "_env",
        "_guards",
        "_host",
        "_offer",
        "_opening",
        "_services",
        "_targets",
    )

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        offer: Offer,
        host: SessionHost,
        targets: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        """`targets` and `env`: as for `AcpServices`."""
        self._agent = agent
        self._opening = opening
        self._offer = offer
        self._host = host
        self._targets = targets
        self._env = env
        self._guards = ExitStack()
        self._services: AcpServices | None = None

    async def __aenter__(self) -> None:
        """Register the services."""
        host, offer = self._host, self._offer
        host.exit_callbacks += (self._agent_gone,)
        if offer.files:
            host.provide("fs", self._serve_file)
        if offer.terminals:
            host.provide("terminal", self._serve_terminal)

    async def __aexit__(self, *raised: Any) -> None:
        """End the programs of the terminals."""
        async with self._guards:  # noqa: ASYNC102 - a guard ends at once
            if self._services is not None:
                await self._services.close()  # noqa: ASYNC102 - shields itself, with a deadline

    async def _made(self) -> AcpServices:
        """Return the services."""
        offer, run = self._offer, ""
        if self._services is None and offer.terminals is True and offer.connect is None:
            # If this process is killed, its guard finds the programs by the marker.
            run = await self._guards.enter_async_context(guard())
        if self._services is None:  # another request may have made them in the meantime
            from .acp_services import AcpServices

            self._services = AcpServices(
                self._agent,
                self._opening,
                offer,
                self._host,
                targets=self._targets,
                env=self._env,
                run=run,
            )
        return self._services

    async def _serve_file(self, asked: ServiceRequested) -> JsonObject:
        return await (await self._made()).serve_file(asked)

    async def _serve_terminal(self, asked: ServiceRequested) -> JsonObject:
        return await (await self._made()).serve_terminal(asked)

    def _agent_gone(self) -> None:
        """Release all that an agent used whose process has ended."""
        for client in self._host.clients:
            client.release(self._host.log.session)
        if self._services is not None:
            self._services.agent_gone()


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
