"""Starting the agent once more: on the next prompt, after its process has ended.

The conversation is resumed if the agent can. Only an agent that says that it does not know the
conversation begins an empty one, and the log tells so; any other refusal is an error for whoever
prompted, since the conversation may still be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from msgspec import structs

from .._errors import AgentrtError, SessionClosed, SessionNotFound
from .._model.events import Error, Notice

if TYPE_CHECKING:
    from .engine import Engine


class Revival:
    """Revives the agent of one session, once at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._scope = trio.CancelScope()
        self._over: trio.Event | None = None
        """Set when the one that is under way is over; None if none is."""

    async def run(self) -> None:
        """Replace a dead process. Raises `AgentStartError`, or `SessionClosed` if the session is
        closed meanwhile. Being cancelled ends what was started."""
        self._over = over = trio.Event()
        try:
            with trio.CancelScope() as self._scope:
                await self._revive()
                return
            raise SessionClosed("the session was closed while its agent was started again")
        finally:
            self._over = None
            over.set()

    async def settled(self) -> None:
        """Wait for the end of the one that is under way, if any. Cancelling it changes nothing."""
        while self._over is not None:
            await self._over.wait()

    async def stop(self) -> None:
        """End it, if one is under way. Shielded, bounded by the ladder."""
        if self._over is not None:
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._over.wait()

    async def _revive(self) -> None:
        engine = self._engine
        await engine.shut()
        engine.conversation.keep_replay = False
        resume = engine.agent_session if engine.capabilities.get("resume") else None
        try:
            try:
                await self._start(resume)
            except SessionNotFound:
                if resume is None:
                    raise
                resume = None
                await self._start(None)
        except AgentrtError as error:
            engine.mark_dead(Error("agent_failed", str(error)))
            engine.publish()
            raise
        engine.log.append(
            Notice("info", "agent_restarted", "the agent was started again", {"resumed": True})
            if resume is not None or not engine.log.state.turns
            else Notice(
                "warning",
                "agent_restarted",
                "the agent was started again and does not remember the conversation",
                {"resumed": False},
            )
        )
        engine.publish()

    async def _start(self, resume: str | None) -> None:
        engine = self._engine
        options = {**engine.opening.options, "replay": False}
        opening = structs.replace(engine.opening, resume=resume, fork=False, options=options)
        await engine.start(engine.nursery, opening)
