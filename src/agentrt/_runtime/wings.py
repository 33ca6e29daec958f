"""What differs between the protocols when a session is opened: how the process is started, which
driver speaks to it, and which services the host offers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from .. import __version__
from .._acp.driver import AcpDriver
from .._acp.messages import (
    ClientCapabilities,
    Implementation,
)
from .._agents import Agent
from .._limits import Limits
from .._model.driver import Driver, Opening
from .link import Connect
from .process import open_process
from .tool_bridge import serve_tools
from .tool_server import ToolServer
from .tools import Tool

if TYPE_CHECKING:
    from .engine import Engine, Service
    from .session import Session

Attach = Callable[["Engine", "Session"], AbstractAsyncContextManager[Opening]]


@dataclass
class Wing:
    """The protocol's part of a session."""

    opening: Opening
    make_driver: Callable[[], Driver]
    connect: Connect
    attach: Attach
    """Opened around the session: gives the opening with what only a running session can add."""
    services: dict[str, Service] = field(default_factory=dict)


@asynccontextmanager
async def open_wing(
    agent: Agent,
    opening: Opening,
    *,
    tools: tuple[Tool, ...],
    env: Mapping[str, str],
    limits: Limits,
    on_stderr: Callable[[bytes], None] | None,
) -> AsyncIterator[Wing]:
    environment = {k: v for k, v in env.items() if k not in agent.unset_env} | dict(agent.env)

    def connect():
        return open_process(
            agent.command, cwd=opening.cwd, env=environment, limits=limits, on_stderr=on_stderr
        )

    yield acp_wing(agent, opening, tools, limits, connect)


def acp_wing(
    agent: Agent, opening: Opening, tools: tuple[Tool, ...], limits: Limits, connect: Connect
) -> Wing:
    keys = count(1)

    def make_driver() -> Driver:
        return AcpDriver(
            lambda: f"r{next(keys)}",
            capabilities=ClientCapabilities(),
            client=Implementation("agentrt", __version__),
            auth_method=agent.quirks.auth_method,
            line_limit=limits.line,
        )

    @asynccontextmanager
    async def attach(engine: Engine, session: Session) -> AsyncIterator[Opening]:
        if not tools:
            yield opening
            return
        server = ToolServer(tools, session=session, turn=lambda: engine.turn, timeout=limits.tool)
        async with serve_tools(server, engine.spawn_tool, limits=limits) as endpoint:
            servers = (await endpoint.http_server(), endpoint.stdio_server())
            yield structs.replace(opening, mcp_servers=opening.mcp_servers + servers)

    return Wing(opening, make_driver, connect, attach)
