"""A record of a session in this terminal, so that it can be found again."""

from __future__ import annotations

import time
from typing import Final

from ..._model.events import Event, TurnEnded, TurnStarted
from ..._session.agent_sessions import AgentSession
from ..held import HeldSession
from ..state import remember
from ..text import one_line
from .attaching import text_of

TITLE: Final = 60


class Note:
    """Records the session after its first turn."""

    def __init__(self, session: HeldSession, agent: str, cwd: str) -> None:
        self._session = session
        self._agent = agent
        self._cwd = cwd
        self._title = ""

    def take(self, event: Event) -> None:
        """Handle an event of the session."""
        if isinstance(event, TurnStarted) and event.prompt is not None and not self._title:
            self._title = one_line(text_of(event.prompt), TITLE)
        elif isinstance(event, TurnEnded) and self._title:
            session = self._session
            if session.agent_session is not None and session.capabilities.get("resume"):
                stored = AgentSession(
                    agent=self._agent,
                    id=session.agent_session,
                    title=one_line(session.title or self._title, TITLE),
                    cwd=self._cwd,
                    updated=time.time(),
                )
                remember(stored, self._cwd)
