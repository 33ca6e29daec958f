"""Data that agentrt remembers between interactive sessions, per directory.

It contains no answers of agents, only the prompts of a directory for its history
(`screen/history.py`) and the sessions there, for agents without a list of their own. Losing it
costs convenience only.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

import msgspec

from .._base.home import state_folder
from ..agents import AgentSession
from ..events import Event, TurnEnded, TurnStarted
from .session_view import SessionView, text_of
from .text import one_line

REMEMBERED_SESSIONS: Final = 200
"""Sessions of a directory that are remembered."""

PASTED_IMAGES: Final = 50
"""Images from the clipboard that are kept."""

_decode = msgspec.json.Decoder(AgentSession).decode


def private_file(kind: str, cwd: str) -> Path:
    """Return the file of a directory, created if missing and readable by the user only.

    Raises `OSError`.
    """
    folder = os.path.realpath(cwd)
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    path = state_folder() / kind / f"{os.path.basename(folder) or 'root'}-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return path


def save_pasted_image(data: bytes) -> Path:
    """Save an image for a prompt, in a file that only the user can read. Raises `OSError`.

    Images from earlier are removed when there are more than `PASTED_IMAGES`.
    """
    folder = state_folder() / "pasted"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in sorted(folder.iterdir())[: -PASTED_IMAGES + 1]:
        old.unlink(missing_ok=True)
    path = folder / f"{time.time_ns()}.png"
    path.touch(0o600)
    path.write_bytes(data)
    return path


def remembered(cwd: str) -> list[AgentSession]:
    """Return the remembered sessions of a directory, newest first."""
    try:
        lines = private_file("sessions", cwd).read_bytes().splitlines()
    except OSError:
        return []
    newest: dict[tuple[str, str], AgentSession] = {}
    for line in reversed(lines):
        try:
            stored = _decode(line)
        except msgspec.DecodeError:
            continue  # a partial line, written to a full disk
        newest.setdefault((stored.agent, stored.id), stored)
    return sorted(newest.values(), key=lambda each: each.updated or 0, reverse=True)


def remember(stored: AgentSession, cwd: str) -> None:
    """Remember a session by appending a line, which replaces older ones.

    If it cannot be written, nothing is remembered.
    """
    try:
        path = private_file("sessions", cwd)
        with open(path, "ab") as file:
            file.write(msgspec.json.encode(stored) + b"\n")
            long = file.tell() > REMEMBERED_SESSIONS * 400
        if long:
            kept = remembered(cwd)[:REMEMBERED_SESSIONS]
            new = path.with_suffix(".new")
            new.touch(0o600)
            new.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in kept[::-1]))
            new.replace(path)
    except OSError:
        pass


SESSION_TITLE_CHARS: Final = 60


class SessionRecorder:
    """Records the session after its first turn."""

    def __init__(self, session: SessionView, agent: str, cwd: str) -> None:
        self._session = session
        self._agent = agent
        self._cwd = cwd
        self._title = ""

    def take(self, event: Event) -> None:
        """Handle an event of the session."""
        if isinstance(event, TurnStarted) and event.prompt is not None and not self._title:
            self._title = one_line(text_of(event.prompt), SESSION_TITLE_CHARS)
        elif isinstance(event, TurnEnded) and self._title:
            session = self._session
            if session.agent_session is not None and session.capabilities.get("resume"):
                stored = AgentSession(
                    agent=self._agent,
                    id=session.agent_session,
                    title=one_line(session.title or self._title, SESSION_TITLE_CHARS),
                    cwd=self._cwd,
                    updated=time.time(),
                )
                remember(stored, self._cwd)
