"""The origin of the sessions of a conversation: this process, or a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from ..._public import Session
from ...events import Event, Item, Snapshot
from ...hosting import SessionControl, check_forks, shown_until
from ...permissions import Policy
from ..exit_status import UsageError
from ..session_view import SessionView
from ..setup import Setup, describe_worktree
from ..stores import OwnStore

if TYPE_CHECKING:
    from .sharing import Share

Opened: TypeAlias = tuple[SessionView, AsyncIterator[Event], Snapshot | None]
"""A session, its events, and the state before them; None if the events contain everything."""


class SessionSource(ABC):
    """A source of sessions.

    `own` is the store of this process, if it has one. `share` is the server of this process that
    shows the sessions, if there is one.
    """

    own: OwnStore | None = None
    share: Share | None = None
    lasting = False
    """True if a session continues after it is left, and other clients may use it."""

    @abstractmethod
    def open(
        self,
        setup: Setup,
        policy: Policy,
        *,
        on_stderr: Callable[[bytes], None],
        report: Callable[[str], None],
        refresh: Callable[[], None],
    ) -> AbstractAsyncContextManager[Opened]:
        """Open the requested session for the duration of the block.

        `report` tells the user about changes of this source, `refresh` shows changes that have no
        event. Raises `AgentrtError`.
        """

    @abstractmethod
    def resuming(self, session: SessionView, setup: Setup) -> Setup:
        """Return the setup that resumes a session that was left."""

    @abstractmethod
    async def fork(self, session: SessionView, setup: Setup, at: str | None = None) -> Setup:
        """Return the setup of a copy of a session, which ends with the turn of the item `at`.

        Raises `AgentrtError`.
        """

    def opening(self, setup: Setup) -> str:
        """Return the text to show while a session is being opened."""
        return f"starting {setup.agent.name} …"

    @property
    def trouble(self) -> str:
        """The reason why it cannot be reached now; empty if it can."""
        return ""


class LocalSource(SessionSource):
    """The sessions of this process."""

    def __init__(self, own: OwnStore | None, share: Share | None) -> None:
        self.own = own
        self.share = share
        self._copied: list[Item] = []  # the items of the session that the next one is a copy of

    @asynccontextmanager
    async def open(
        self,
        setup: Setup,
        policy: Policy,
        *,
        on_stderr: Callable[[bytes], None],
        report: Callable[[str], None],
        refresh: Callable[[], None],
    ) -> AsyncIterator[Opened]:
        """Open a session in this process, and yield it with its events.

        `on_stderr` gets the agent's error output, `report` notes for the user. A fork whose agent
        repeats nothing shows the copied history. A stored session also yields its snapshot, because
        its events start after it. `refresh` is for sources on servers.
        """
        person = setup.attended
        opening = person.open(
            policy, limits=person.limits, replay=True, on_stderr=on_stderr, own=self.own
        )
        with self.own.reporting(report) if self.own is not None else nullcontext():
            async with opening as session:
                if setup.fork and not session.log.state.item_ids:  # its agent repeats nothing
                    control = SessionControl(session)
                    control.show_history(self._copied[-session.limits.snapshot_items :])
                    await control.wait_until_stored()
                with self.share.showing(session) if self.share is not None else nullcontext():
                    if setup.stored_ref is None:
                        yield session, session.subscribe_all(), None
                    else:
                        now = await session.full_snapshot()
                        yield session, session.subscribe(after=now.seq), now
            if told := describe_worktree(session):
                report(told)

    def resuming(self, session: SessionView, setup: Setup) -> Setup:
        """Return the setup that resumes a session: from the store, else by the agent's own id if it
        can.
        """
        if self.own is not None and (ref := self.own.ref_of(session, setup.cwd)) is not None:
            return setup.resuming(ref, setup.agent)
        resume = session.agent_session if session.capabilities.get("resume") else None
        return structs.replace(setup, resume=resume, fork=False, fork_at=None, note="")

    async def fork(self, session: SessionView, setup: Setup, at: str | None = None) -> Setup:
        """Return the setup for a copy of the session, with its present model and mode.

        `at`: the item or turn after which the copy ends. Raises `UsageError` if
        there is nothing to copy yet.
        """
        check_forks(setup.agent.name, session.capabilities)
        if at is not None:
            check_forks(setup.agent.name, session.capabilities, "fork_at")
        if session.agent_session is None or not session.snapshot().items:
            raise UsageError("there are no messages to fork yet")
        modes = session.modes
        assert isinstance(session, Session)  # every session of this source is one
        self._copied = shown_until(session.log.state, at)
        return structs.replace(
            setup,
            resume=session.agent_session,
            fork=True,
            fork_at=session.fork_point(at) if at is not None else None,
            stored_ref=None,
            note="",
            model=modes.model if modes is not None else setup.model,
            mode=modes.mode if modes is not None else setup.mode,
        )
