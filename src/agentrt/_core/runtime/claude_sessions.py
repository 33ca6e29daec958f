"""Claude Code's stored sessions: list, read and delete them, and show the history of a resumed one.

`_core/claude/sessions.py` reads the transcripts; its blocking functions run in worker threads here.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio
from msgspec import structs

from ..agents import Agent
from ..claude import sessions
from ..claude.options import ClaudeOptions
from ..claude.sessions import StoredSession
from ..errors import LocalProtocolError, SessionNotFound
from ..model.content import JsonObject
from ..model.driver import Effect, ForkPoint, Opening
from ..session.interfaces import AgentSession
from ..session.settings import check_id, checked_folder
from ..trio_task import check_trio


class ClaudeSessions:
    """The sessions that Claude Code has stored on this machine::

        for session in await agentrt.claude.ClaudeSessions().list(cwd="."):
            print(session.id, session.title)

    Pass a session's `id` as `resume` to `open_session` to continue it, with `fork=True` to continue
    a copy. A running session may be read but should not be deleted.

    The files belong to Claude Code; only `delete` removes any, and none is edited. To change a
    title, ask Claude itself (its request `rename_session`).

    Cancelling a method does not interrupt a file operation that has started.
    """

    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        """`config`: Claude Code's folder; default: `$CLAUDE_CONFIG_DIR`, or `~/.claude`."""
        self._config = sessions.config_folder() if config is None else Path(config)

    async def list(self, cwd: str | os.PathLike[str] | None = None) -> builtins.list[StoredSession]:
        """List the sessions of a folder (default: all), newest first."""
        check_trio("ClaudeSessions")
        project = checked_folder(cwd)
        return await trio.to_thread.run_sync(sessions.list_sessions, self._config, project)

    async def read(self, session: str) -> builtins.list[JsonObject]:
        """Return the conversation in order, from its start or from the last compaction.

        These are the transcript's entries of the types `user`, `assistant` and `system`, as written
        by Claude Code. Raises `SessionNotFound`.
        """
        check_trio("ClaudeSessions")
        return await trio.to_thread.run_sync(
            lambda: sessions.read_messages(self._transcript(session))
        )

    async def delete(self, session: str) -> None:
        """Delete a session and the files of its sub-agents. This cannot be undone.

        Raises `SessionNotFound`.
        """
        check_trio("ClaudeSessions")
        await trio.to_thread.run_sync(lambda: sessions.delete_session(self._transcript(session)))

    def _transcript(self, session: str) -> Path:
        """Return the path of a session's transcript. Blocks. Raises `SessionNotFound`."""
        check_id(session)
        return sessions.find_session(self._config, session)


class KeptByClaude:
    """Claude Code's stored sessions as the sessions of an agent. Implements `AgentSessions`."""

    def __init__(self, agent: Agent, env: Mapping[str, str]) -> None:
        """`env`: the environment of the process; the agent's own variables are added."""
        options = agent.claude
        added = {**agent.env, **(options.env if options is not None else {})}
        self._agent = agent.name
        self._sessions = ClaudeSessions(sessions.config_folder({**env, **added}))

    async def list(self, cwd: str | None) -> list[AgentSession]:
        """As `AgentSessions.list`."""
        return [
            AgentSession(
                agent=self._agent, id=each.id, title=each.title, cwd=each.cwd, updated=each.modified
            )
            for each in await self._sessions.list(cwd)
        ]

    async def delete(self, session: str) -> None:
        """As `AgentSessions.delete`."""
        await self._sessions.delete(session)


async def stored_history(
    opening: Opening, options: ClaudeOptions, env: Mapping[str, str]
) -> list[Effect]:
    """Return the history of the session to resume; Claude Code does not repeat it, unlike ACP
    agents.

    Returns an empty list if the session cannot be found; Claude Code reports that itself.
    """
    if (opening.resume is None and not options.continue_last) or not options.replay:
        return []
    last = opening.fork_at.messages[0] if opening.fork_at is not None else options.resume_at
    return await trio.to_thread.run_sync(
        partial(_history, opening, last, sessions.config_folder(env))
    )


async def with_entry(opening: Opening, env: Mapping[str, str]) -> Opening:
    """Resolve the end of a fork to the uuid of a transcript entry.

    Raises `LocalProtocolError` if there is no such entry.
    """
    if opening.fork_at is None:
        return opening
    config, names = sessions.config_folder(env), opening.fork_at.messages

    def find() -> str | None:
        """Return the uuid of the entry; None if there is no such transcript or entry.

        Runs in a thread.
        """
        transcript = _transcript(config, opening.cwd, opening.resume)
        return None if transcript is None else sessions.end_of_turn(transcript, names)

    try:
        found = await trio.to_thread.run_sync(find)
    except OSError as error:
        raise LocalProtocolError(f"Claude Code's transcript cannot be read: {error}") from error
    if found is None:
        raise LocalProtocolError(
            "Claude Code's transcript does not contain that message: it is in another"
            " file, or the conversation has been compacted since"
        )
    return structs.replace(opening, fork_at=ForkPoint(messages=(found,)))


def _history(opening: Opening, up_to: str | None, config: Path) -> list[Effect]:
    """Return the history up to an entry; empty if it cannot be read. Blocks.

    An unreadable transcript only means that earlier turns are not shown: Claude Code itself decides
    whether it can resume the session.
    """
    try:
        transcript = _transcript(config, opening.cwd, opening.resume)
        return [] if transcript is None else sessions.history(transcript, up_to=up_to)
    except OSError:
        return []


def _transcript(config: Path, cwd: str, wanted: str | None) -> Path | None:
    """Return the transcript of the session with this id or title, or of the newest one if None."""
    if wanted is not None:
        try:
            return sessions.find_session(config, wanted, cwd)
        except SessionNotFound:
            pass  # it may be a title
    for stored in sessions.list_sessions(config, cwd):
        if wanted is None or stored.title == wanted:
            return Path(stored.path)
    return None
