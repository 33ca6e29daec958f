"""The sessions of a server, and the search for one by its id."""

from __future__ import annotations

from typing import Final

from msgspec import convert

from .._errors import SessionNotFound
from .._remote.line import ServerLine
from .._runtime.register import SessionInfo
from .._web import commands as c
from .setup import UsageError
from .text import one_line

PAGE: Final = 1000
"""Stored sessions per request when all are searched."""


async def newest_sessions(line: ServerLine) -> list[SessionInfo]:
    """Return the sessions that the server lists by default.

    Open ones come first, each group newest first. Raises `AgentrtError`.
    """
    return (await _page(line, c.ListSessions(id="")))[0]


async def find_session(line: ServerLine, prefix: str) -> SessionInfo:
    """Return the one session with this id or id prefix.

    Raises `SessionNotFound`, `UsageError` if several sessions match, or the server's error.
    """
    sessions, more = await _page(line, c.ListSessions(id=""))
    matching = {each.session: each for each in sessions if each.session.startswith(prefix)}
    # The first list may have gaps among its old sessions: start after the newest stored one.
    before = next((each.session for each in sessions if each.phase == "stored"), None)
    while more and before is not None and prefix not in matching:
        sessions, more = await _page(line, c.ListSessions(id="", before=before, limit=PAGE))
        matching |= {each.session: each for each in sessions if each.session.startswith(prefix)}
        before = sessions[-1].session if sessions else None
    match [matching[prefix]] if prefix in matching else [*matching.values()]:
        case [one]:
            return one
        case []:
            raise SessionNotFound(f"the server has no session {one_line(prefix)!r}")
        case several:
            names = ", ".join(each.session for each in several[:5])
            raise UsageError(f"several sessions begin with {one_line(prefix)!r}: {names}")


async def _page(line: ServerLine, command: c.ListSessions) -> tuple[list[SessionInfo], bool]:
    """Return a page of sessions, newest first, and True if there are older ones."""
    answer = await line.ask(command)
    return convert(answer.get("sessions"), list[SessionInfo])[::-1], answer.get("more") is True
