"""Agents: the known ones, your own, remote ones, and the sessions that agents store themselves.

`open_session` takes the name of an agent, or an `Agent`. Known agents have a name, their program is
looked up on the `PATH`, and `find_agents` lists them all, installed or not. `acp`, `claude` and
`own` describe any other one: by its command line for ACP, with options for Claude Code, or with a
driver for a protocol that agentrt does not know.

An agent need not be a process of this machine: `connect` opens a session over any pair of streams,
and `websocket` makes such streams of a WebSocket.

Agents also store conversations themselves. `list_sessions` and `delete_session` work with these;
each `AgentSession.id` can be resumed with `open_session(resume=…)`. They are independent of the
sessions in an `agentrt.store`, which also have a log.

`Quirks` describe the differences of an agent that a session must know: the mode in which it asks,
the way it logs in, or a message that it sends at a wrong time. The known agents have them; for
others the defaults are those of the protocol.
"""

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
from ._core.model.providers import Provider, ProviderSetting
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
    # the services of an agent's model
    "Provider",
    "ProviderSetting",
]
