"""A session as servers and command lines use it, in addition to `Session`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..model.events import Item
from .interfaces import ClientServices
from .questions import current_origin
from .session import Session, host_of

if TYPE_CHECKING:
    from ..store.base import CommandAnswer


class SessionControl:
    """The methods that servers need of a session in addition to those of `Session`."""

    def __init__(self, session: Session) -> None:
        """Make the view that servers have of a session, from its host."""
        self._host = host_of(session)
        self._keeper = self._host.keeper

    # --- events that are not stored yet

    @property
    def seq(self) -> int:
        """The number of the last event, even if it is not stored yet."""
        return self._host.log.seq

    @property
    def is_stored(self) -> bool:
        """True if a store saves the session."""
        return self._keeper is not None

    @property
    def has_moved(self) -> bool:
        """True if another process has taken over the session."""
        return self._keeper is not None and self._keeper.moved is not None

    def check_stored(self) -> None:
        """Raise the reason if events cannot be stored now."""
        if self._keeper is not None:
            self._keeper.check()

    async def wait_until_kept(self, seq: int) -> bool:
        """Wait until the events up to this number are stored; returns False if they never will be.

        Returns immediately if no store saves the session. Cancelling this changes nothing.
        """
        return self._keeper is None or await self._keeper.wait_until_kept(seq)

    async def wait_until_known(self, seq: int) -> None:
        """Wait until it is known whether the events up to this number are stored."""
        if self._keeper is not None:
            await self._keeper.wait_until_known(seq)

    async def wait_until_stored(self) -> None:
        """Wait until all events so far are stored, if a store saves the session."""
        await self._host.wait_until_stored()

    # --- commands

    def step(self) -> AbstractContextManager[None]:
        """Return a block in which several commands form one step, with one batch of events."""
        return self._host.core.step()

    @property
    def answers(self) -> list[CommandAnswer]:
        """Answers to clients that are stored with the events of the current step.

        Clear it after the step: an answer that is still in it was not stored.
        """
        return [] if self._keeper is None else self._keeper.answers

    def acting(self, name: str, **about: Any) -> AbstractContextManager[None]:
        """Return a block that makes a change, which telemetry gets if a viewer makes it.

        `about`: its arguments.
        """
        return self._host.core.acting(name, **about)

    def cancel_turn(self) -> None:
        """Cancel the running turn, if there is one, and leave the queue as it is."""
        core = self._host.core
        if core.turn is not None:
            with core.acting("cancel_turn", turn=core.turn.id):
                core.cancel_turn(core.turn, "cancelled", by="caller", origin=current_origin())

    def was_asked(self, request: str) -> bool:
        """Return True if the session had a permission request with this id."""
        return self._host.core.conversation.items.was_asked(request)

    def show_history(self, items: Iterable[Item]) -> None:
        """Show the history of the conversation that this session is a copy of."""
        self._host.core.show_history(items)

    @property
    def clients(self) -> list[ClientServices]:
        """The clients that provide files and programs to the agent, the last one first asked."""
        return self._host.clients
