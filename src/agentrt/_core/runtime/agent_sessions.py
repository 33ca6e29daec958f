"""The sessions that an agent itself stores, for programs without an open session with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from ..agents import Agent, resolve_agent
from ..errors import RequestError, SessionNotFound
from ..limits import Limits
from ..permissions.policies import deny_all
from ..session.interfaces import AgentSession, AgentSessions
from ..session.settings import check_id, checked_folder
from ..trio_task import check_trio
from ..wire.jsonrpc import METHOD_NOT_FOUND
from .open import open_session
from .options import check_env

if TYPE_CHECKING:
    from ..session.session import Session
    from ..trace.trace import Trace


async def list_sessions(
    agent: str | Agent,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> list[AgentSession]:
    """List the sessions that an agent itself stores, newest first::

        for each in await agentrt.agents.list_sessions("gemini", cwd="."):
            print(each.id, each.title)

    `cwd` restricts the list to a folder; None lists all. The sessions of Claude Code are read from
    its files (`ClaudeSessions` offers more). Any other agent is started without a session and
    asked; `env`, `limits` and `trace` are as in `open_session`. In an open session, use
    `Session.list_sessions`.

    Raises `RequestError` if the agent has no list or refuses it, `RemoteProtocolError` if its
    answer is invalid, and, as `open_session`, `AgentNotFound` or `AgentStartError`.
    """
    check_trio("list_sessions")
    found = resolve_agent(agent)
    where = checked_folder(cwd)
    check_env(env)
    if found.protocol == "claude":
        return await _kept_by_claude(found, env).list(where)
    async with _bare(found, env, limits, trace) as session:
        sessions = await session.list_sessions(where)
        await session.aclose()
    return sessions


async def delete_session(
    agent: str | Agent,
    session: str,
    *,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> None:
    """Make an agent delete one of its sessions, by the agent's own id of it.

    The session should not be open anywhere. Raises the errors of `list_sessions`, and
    `SessionNotFound` if the agent lists its sessions and this one is not among them.
    """
    check_trio("delete_session")
    check_id(session)
    check_env(env)
    found = resolve_agent(agent)
    if found.protocol == "claude":
        await _kept_by_claude(found, env).delete(session)
        return
    async with _bare(found, env, limits, trace) as asked:
        if asked.capabilities.get("delete_session") and asked.capabilities.get("list_sessions"):
            # The protocol does not treat deleting an unknown session as an error.
            if session not in {each.id for each in await asked.list_sessions()}:
                raise SessionNotFound(f"{found.name} lists no session {session!r}")
        await asked.delete_session(session)
        await asked.aclose()


def _kept_by_claude(agent: Agent, env: Mapping[str, str] | None) -> AgentSessions:
    """Return the stored sessions of Claude Code. Raises `RequestError` if it runs on another
    machine.
    """
    from .claude_sessions import KeptByClaude

    if agent.connect is not None:
        why = f"{agent.name} keeps its sessions in files where it is, which are not read from here"
        raise RequestError(METHOD_NOT_FOUND, why)
    return KeptByClaude(agent, os.environ if env is None else env)


def _bare(
    agent: Agent,
    env: Mapping[str, str] | None,
    limits: Limits | None,
    trace: Trace | str | os.PathLike[str] | None,
) -> AbstractAsyncContextManager[Session]:
    """Open the agent without a session, to ask it about others."""
    without = {"session": False}
    return open_session(
        agent, permissions=deny_all, env=env, limits=limits, options=without, trace=trace
    )
