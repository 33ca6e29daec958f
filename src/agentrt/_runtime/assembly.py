"""The protocol-specific setup of a session.

The agent's protocol decides how the process is started, which driver is used, and which services
the host provides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from .._agents import Agent
from .._limits import Limits
from .._model.driver import Opening
from .._session.host import SessionHost
from .._session.link import Connect
from .offer import Assembly, Attach, Offer, environment

if TYPE_CHECKING:
    from .._session.session import Session

StandIn: TypeAlias = Callable[[Agent, Opening], tuple[Connect, Callable[[Attach], Attach]]]
"""Returns the connection to a replacement for an agent's program, and a wrapper around the
session.
"""

stand_in: StandIn | None = None
"""Set by a test while it runs."""


def assemble(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    """Return the setup of an agent's session.

    Raises `LocalProtocolError` or `ValueError` for options that the agent does not support.
    """
    if stand_in is None or offer.connect is not None:
        return _with_notices(agent, _assembled(agent, opening, offer), offer)
    connect, around = stand_in(agent, opening)
    assembly = _assembled(agent, opening, structs.replace(offer, connect=connect))
    return structs.replace(assembly, attach=around(assembly.attach))


def _with_notices(agent: Agent, assembly: Assembly, offer: Offer) -> Assembly:
    """Add notices about the folder's own files to the start of the log."""
    project = offer.project
    if project is None or project.trusted or agent.connect is not None:
        return assembly

    @asynccontextmanager
    async def attach(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        env = environment(agent, offer.env, project=offer.project)
        tools = bool(offer.tools or offer.servers or assembly.opening.mcp_servers)
        for notice in await project.notices(env, tools=tools):
            host.core.add_notice(notice)
        async with assembly.attach(host, session) as opening:
            yield opening

    return structs.replace(assembly, attach=attach)


def _assembled(agent: Agent, opening: Opening, offer: Offer) -> Assembly:
    if agent.protocol == "claude":  # a session needs the modules of one protocol only
        from .claude_assembly import assemble_claude

        return assemble_claude(agent, opening, offer)
    if agent.protocol == "codex":
        from .codex_assembly import assemble_codex

        return assemble_codex(agent, opening, offer)
    from .acp_assembly import assemble_acp

    return assemble_acp(agent, opening, offer)


def limits_for(agent: Agent, limits: Limits | None = None) -> Limits:
    """Return the limits for an agent.

    These are the given limits; those at their defaults are replaced by the agent's own values.
    """
    usual, quirks = Limits(), agent.quirks
    limits = limits or usual
    wanted: dict[str, float | None] = {
        "handshake": quirks.handshake,
        "stdin_close": quirks.stdin_close,
        "cancel_grace": quirks.cancel_grace,
    }
    if not quirks.eof_exits:
        wanted["stdin_close"] = 0.2  # for final messages only
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
