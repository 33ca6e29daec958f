"""The sessions that Claude Code has stored: for programs that list, read and delete them, and for
a session that goes on with one of them and shows what was said.

What a transcript is, is `_claude/sessions.py`; here its blocking functions run in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from .._claude import sessions
from .._claude.options import ClaudeOptions
from .._claude.sessions import StoredSession
from .._errors import SessionNotFound
from .._model.content import JsonObject
from .._model.driver import Effect, Opening

Stored: TypeAlias = list[StoredSession]
Messages: TypeAlias = list[JsonObject]


class ClaudeSessions:
    """The sessions that Claude Code has stored on this machine::

        for session in await agentrt.ClaudeSessions().list(cwd="."):
            print(session.id, session.title)

    A session's `id` is what `resume` of `open_session` takes, and with `fork=True` a copy of it is
    gone on with. One that runs may be read; it should not be deleted.

    Claude Code's files are its own: nothing here changes one. A title is given by Claude itself
    (its request `rename_session`).

    Cancelling a method does not interrupt it in the middle: what it began with files is done.
    """

    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        """`config`: Claude Code's folder; default: `$CLAUDE_CONFIG_DIR`, or `~/.claude`."""
        self._config = sessions.config_folder() if config is None else Path(config)

    async def list(self, cwd: str | os.PathLike[str] | None = None) -> Stored:
        """The sessions of a folder (default: of all), the newest first."""
        project = None if cwd is None else os.fspath(cwd)
        return await trio.to_thread.run_sync(sessions.list_sessions, self._config, project)

    async def read(self, session: str) -> Messages:
        """The conversation from its beginning, or from where it was last compacted, in order: the
        transcript's entries of the types `user`, `assistant` and `system`, as Claude Code wrote
        them. Raises `SessionNotFound`, as all that follow."""
        return await trio.to_thread.run_sync(
            lambda: sessions.read_messages(self._transcript(session))
        )

    async def delete(self, session: str) -> None:
        """Remove a session, and what its sub-agents left, for ever."""
        await trio.to_thread.run_sync(lambda: sessions.delete_session(self._transcript(session)))

    def _transcript(self, session: str) -> Path:
        return sessions.find_session(self._config, session)


async def stored_history(
    opening: Opening, options: ClaudeOptions, env: Mapping[str, str]
) -> list[Effect]:
    """What was said in the session that is to be gone on with; nothing if it cannot be found,
    which Claude Code then says itself. It does not repeat any of it, as ACP agents do."""
    if (opening.resume is None and not options.continue_last) or not options.replay:
        return []
    return await trio.to_thread.run_sync(
        partial(_history, opening, options, sessions.config_folder(env))
    )


def _history(opening: Opening, options: ClaudeOptions, config: Path) -> list[Effect]:
    try:
        transcript = _transcript(config, opening.cwd, opening.resume)
        return [] if transcript is None else sessions.history(transcript, up_to=options.resume_at)
    except OSError:
        return []


def _transcript(config: Path, cwd: str, wanted: str | None) -> Path | None:
    """The session of that id or title; the newest one if none is wanted."""
    if wanted is not None:
        try:
            return sessions.find_session(config, wanted, cwd)
        except SessionNotFound:
            pass  # a title, then
    for stored in sessions.list_sessions(config, cwd):
        if wanted is None or stored.title == wanted:
            return Path(stored.path)
    return None
