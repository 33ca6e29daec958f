"""The protocol-specific setup of a session.

The agent's protocol decides how the process is started, which driver is used, and which services
the host provides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from msgspec import structs

from ..agents import Agent
from ..agents.agent import Replaceable
from ..limits import Limits
from ..model.driver import Opening
from ..model.events import Notice
from ..session.host import SessionHost
from .offer import Offer, ProtocolSetup, environment
from .project_start import ClosedGate

if TYPE_CHECKING:
    from ..session.session import Session


def set_up_protocol(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Return the setup of an agent's session.

    Raises `LocalProtocolError` or `ValueError` for options that the agent does not support.
    """
    return _with_doubts(SETUP.current(agent, opening, offer), offer)


def set_up_program(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Return the setup of a session that starts the agent's program or uses its connection."""
    setup = set_up_driver(agent, opening, offer)
    if offer.project is None or agent.connect is not None:
        return setup
    env = environment(agent, offer.env, project=offer.project)
    tools = bool(offer.tools or offer.servers or setup.opening.mcp_servers)
    gate = ClosedGate(offer.project, env, tools=tools, hides=offer.hides)
    if offer.project.listed or offer.project.mode != "no":
        from .trust_gate import TrustGate

        gate = TrustGate(offer.project, env, tools=tools, hides=offer.hides, tenant=opening.tenant)
    return structs.replace(setup, gate=gate)


SETUP: Final[Replaceable[Callable[[Agent, Opening, Offer], ProtocolSetup]]] = Replaceable(
    set_up_program
)
"""Makes the setup of each session."""


def _with_doubts(setup: ProtocolSetup, offer: Offer) -> ProtocolSetup:
    """Add notices about rules that may never apply to the start of the log."""
    doubts = offer.standing.doubts([tool.name for tool in offer.tools])
    if not doubts:
        return setup

    @asynccontextmanager
    async def around(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Add the notices, and set up the session as usual."""
        for rule, doubt in doubts.items():
            message = f"the permission rule {rule!r} may never apply: {doubt}"
            host.core.add_notice(Notice("warning", "rule_doubtful", message, {"rule": rule}))
        async with setup.around_session(host, session) as opening:
            yield opening

    return structs.replace(setup, around_session=around)


def set_up_driver(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Return the setup of a session for the agent's protocol, without a `TrustGate`."""
    if agent.protocol == "claude":  # a session needs the modules of one protocol only
        from .claude_setup import set_up_claude

        return set_up_claude(agent, opening, offer)
    if agent.protocol == "codex":
        from .codex_setup import set_up_codex

        return set_up_codex(agent, opening, offer)
    if agent.protocol == "own":
        from .own_setup import set_up_own

        return set_up_own(agent, opening, offer)
    from .acp_setup import set_up_acp

    return set_up_acp(agent, opening, offer)


_USUAL: Final = Limits()


def limits_for(agent: Agent, limits: Limits | None = None) -> Limits:
    """Return the limits for an agent.

    These are the given limits; those at their defaults are replaced by the agent's own values.
    """
    usual, quirks = _USUAL, agent.quirks
    limits = limits or usual
    wanted: dict[str, float | None] = {
        "startup_timeout_s": quirks.startup_timeout_s,
        "stdin_close_grace_s": quirks.stdin_close_grace_s,
        "cancel_grace_s": quirks.cancel_grace_s,
    }
    if not quirks.eof_exits:
        wanted["stdin_close_grace_s"] = 0.2  # for final messages only
    if quirks.resend_cancel:
        wanted["cancel_resend_s"] = 0.5
    changed = {
        name: value
        for name, value in wanted.items()
        if value is not None and getattr(limits, name) == getattr(usual, name)
    }
    return structs.replace(limits, **changed) if changed else limits
