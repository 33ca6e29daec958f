"""Agents: the known ones, your own, remote ones, and the sessions that agents store themselves."""

from ._core.agents import (
    BUILT_IN,
    Agent,
    AgentInfo,
    FoundAgent,
    ProtocolName,
    Quirks,
    acp,
    agent_version,
    claude,
    find_agents,
    own,
    resolve_agent,
    resolve_stored_agent,
)
from ._core.agents.find import OwnAgents, is_known
from ._core.process.pipes import Transport
from ._core.process.streams import OpenStreams
from ._core.runtime.agent_sessions import delete_session, list_sessions
from ._core.runtime.connect import connect, websocket
from ._core.session.interfaces import AgentSession

__all__ = [
    # describing an agent
    "Agent",
    "Quirks",
    "ProtocolName",
    "acp",
    "claude",
    "own",
    # finding agents on this machine
    "find_agents",
    "FoundAgent",
    "agent_version",
    "resolve_agent",
    "resolve_stored_agent",
    "is_known",
    "BUILT_IN",
    "OwnAgents",
    "AgentInfo",
    # reaching a remote agent
    "connect",
    "websocket",
    "OpenStreams",
    "Transport",
    # sessions that agents store themselves
    "list_sessions",
    "delete_session",
    "AgentSession",
]
