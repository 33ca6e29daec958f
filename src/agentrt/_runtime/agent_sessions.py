"""The sessions that an agent itself keeps, for programs that have none open with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from .._agents import Agent, resolve_agent
from .._errors import RequestError, SessionNotFound
from .._limits import Limits
from .._nesting import check_trio
from .._permissions.policies import deny_all
from .._session.agent_sessions import AgentSession, AgentSessions, check_id, checked_folder
from .._wire.jsonrpc import METHOD_NOT_FOUND
from .arguments import check_env
from .open import open_session

if TYPE_CHECKING:
    from .._session.session import Session
    from .._trace.trace import Trace


async def list_sessions(
    agent: str | Agent,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> list[AgentSession]:
    """The sessions that an agent keeps itself, of a folder (None: of all), the newest first::

        for each in await agentrt.list_sessions("gemini", cwd="."):
            print(each.id, each.title)

    Claude Code's are read from its files (see `ClaudeSessions` for more of them). Any other agent
    is started for it, without a session, and asked; `env`, `limits` and `trace` are as in
    `open_session`. A session that is open asks its own agent by `Session.list_sessions`.

    Raises `RequestError` if the agent keeps no list or does not give it, `RemoteProtocolError` if
    its answer is none, and as `open_session` `AgentNotFound` or `AgentStartError`.
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
    """Have an agent forget one of its sessions, by its own id of it. One that is open somewhere
    should not be.

    As `list_sessions`; also raises `SessionNotFound` if it has no such session, as far as it says.
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
            # To delete what does not exist is no error of the protocol's.
            if session not in {each.id for each in await asked.list_sessions()}:
                raise SessionNotFound(f"{found.name} lists no session {session!r}")
        await asked.delete_session(session)
        await asked.aclose()


def _kept_by_claude(agent: Agent, env: Mapping[str, str] | None) -> AgentSessions:
    """Raises `RequestError` for one that is elsewhere."""
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
    """The agent without a session, to be asked about others."""
    without = {"session": False}
    return open_session(
        agent, permissions=deny_all, env=env, limits=limits, options=without, trace=trace
    )
