"""The sessions that an agent itself stores: listing them page by page, and deleting them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ..errors import LocalProtocolError, RemoteProtocolError, RequestError
from ..wire.jsonrpc import METHOD_NOT_FOUND
from .calls import call
from .core import SessionCore

MAX_PAGES: Final = 100
"""The maximum number of pages of a list, so that an agent cannot keep agentrt asking forever."""


class AgentSession(Struct, kw_only=True):
    """A session that an agent stores. `id` is accepted by `resume` of `open_session`."""

    agent: str
    """The name of the agent."""
    id: str
    title: str = ""
    """The agent's title; empty if it has none."""
    cwd: str | None = None
    """The folder of the session, if the agent reports it."""
    updated: float | None = None
    """Seconds since the Unix epoch."""


class AgentSessions(Protocol):
    """The source of an agent's stored sessions."""

    async def list(self, cwd: str | None) -> list[AgentSession]:
        """Return the sessions of a folder (None: of all folders), the newest first."""
        ...

    async def delete(self, session: str) -> None:
        """Delete a session. Raises `SessionNotFound`."""
        ...


class _SessionFields(Struct, rename="camel"):
    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None


class _SessionPage(Struct, rename="camel"):
    sessions: list[_SessionFields]
    next_cursor: str | None = None


class AskedSessions:
    """Asks a running agent for its sessions. Implements `AgentSessions`."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    async def list(self, cwd: str | None) -> list[AgentSession]:
        """Return the sessions, the newest first.

        They are in the agent's order if it does not report the times.
        """
        name = self._offering("list_sessions", "keeps no list of its sessions")
        wanted = _real(cwd)
        found: dict[str, AgentSession] = {}
        cursors: set[str | None] = set()
        cursor: str | None = None
        while cursor not in cursors and len(cursors) < MAX_PAGES:
            cursors.add(cursor)
            params = {"cwd": wanted, "cursor": cursor}
            answer = await call(self._core, "list_sessions", params)
            try:
                page = msgspec.convert(answer, _SessionPage)
            except msgspec.ValidationError as error:
                raise RemoteProtocolError(f"{name}'s list makes no sense: {error}") from error
            for each in page.sessions:
                if wanted is None or _real(each.cwd) in (None, wanted):
                    found[each.session_id] = AgentSession(
                        agent=name,
                        id=each.session_id,
                        title=each.title or "",
                        cwd=each.cwd,
                        updated=_seconds(each.updated_at),
                    )
            cursor = page.next_cursor
        return sorted(found.values(), key=lambda each: each.updated or 0, reverse=True)

    async def delete(self, session: str) -> None:
        """Have the agent delete a session."""
        self._offering("delete_session", "cannot delete a session")
        await call(self._core, "delete_session", {"session": session})

    def _offering(self, capability: str, otherwise: str) -> str:
        """Return the agent's name if it has the capability, else raise `RequestError`."""
        name = self._core.conversation.agent.name
        if not self._core.capabilities.get(capability):
            raise RequestError(METHOD_NOT_FOUND, f"{name} {otherwise}")
        return name


def checked_folder(cwd: str | os.PathLike[str] | None) -> str | None:
    """Return the folder as a string. Raises `LocalProtocolError` if it is not a path."""
    folder = os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd
    if not isinstance(folder, str | None):
        raise LocalProtocolError(f"cwd: a folder is a string or a path, not {cwd!r:.60}")
    return folder


def check_id(session: str) -> None:
    """Raise `LocalProtocolError` if the session id is not a string."""
    if not isinstance(session, str):
        raise LocalProtocolError(f"session must be given as text, not {session!r}")


def check_other(session: str, own: str | None) -> None:
    """Raise `LocalProtocolError` if the session is the open one."""
    if session == own:
        raise LocalProtocolError("that session is open here: close it before it is deleted")


def _real(folder: str | None) -> str | None:
    return None if folder is None else os.path.realpath(folder)


def _seconds(text: str | None) -> float | None:
    """Parse an ISO 8601 time."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
