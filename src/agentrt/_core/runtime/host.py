"""The task that hosts one session of a runtime.

A host keeps the session's block open and watches it. A session that is idle for long is *suspended*
(its process is ended, the session stays open), one that hangs is *recycled*. The next prompt starts
a new process in both cases, as after any end of a process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import trio

from ..errors import LocalProtocolError
from ..logging import get_logger
from ..model.content import JsonObject
from ..session.session import Session, host_of
from ..store.base import StoreEntry
from ..store.persister import first_prompt
from .registry import SessionInfo, SessionRegistry

logger = get_logger("session")


class Host:
    """The task that hosts one session."""

    session: Session

    def __init__(
        self,
        register: SessionRegistry,
        agent: str,
        cwd: str | os.PathLike[str],
        *,
        whole: bool,
        created: float | None = None,
        tenant: str = "",
    ) -> None:
        """`whole`: the store has everything needed to reopen the session. `created`: time at which
        an existing session was created.
        """
        self.agent = agent
        self.cwd = os.path.abspath(cwd)
        self.tenant = tenant
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.is_adopted = False
        self._register = register
        self.is_whole = whole
        self._unloads = whole and register.has_store
        self._created = created

    def adopted(self, session: Session) -> Callable[[], None]:
        """Take a session that belongs to another block and is only shown here.

        Returns a function that removes it.
        """
        self._take(session)
        self.is_adopted = True
        self._created = host_of(session).wall_time()
        self._register.add(self)

        def release() -> None:
            """Remove the session from the lists and end `follow`; it stays open."""
            self._stop_noting()
            self._register.remove(self)
            self.scope.cancel()

        return release

    def _take(self, session: Session) -> None:
        """Use this session, and begin to record its activity.

        In a tenant's session, its rate is limited.
        """
        self.session = session
        self._updated = host_of(session).wall_time()
        self._state = session.log.state
        self._phase, self._turns = self._state.state.phase, self._state.turn_count
        self._stop_listening = session.log.listen(self._note_activity)
        if self.tenant:
            host_of(session).limit_rate(self._register.rate_limit(self.tenant))

    def _stop_noting(self) -> None:
        """Stop recording the activity. The listener refers to this object, so it is dropped."""
        self._stop_listening()
        self._stop_listening = lambda: None

    def _note_activity(self) -> None:
        """Record the time when a turn starts or ends, or a question is asked.

        Comparing two values is cheap, and the text of an answer changes neither.
        """
        state = self._state
        if state.state.phase != self._phase or state.turn_count != self._turns:
            self._phase, self._turns = state.state.phase, state.turn_count
            self._updated = host_of(self.session).wall_time()

    async def follow(self, session: Session) -> None:
        """Wait until an adopted session is over, and until a stored one may be opened again."""
        host = host_of(session)
        with self.scope:
            await host.closed.wait()
            if host.keeper is not None:
                await host.keeper.released.wait()
            self._stop_noting()
            self._register.remove(self)

    def info(self) -> SessionInfo:
        """Return the session as an entry of a list."""
        session = self.session
        return SessionInfo(
            session=session.id,
            agent=self.agent,
            cwd=self.cwd,
            title=session.title,
            phase=session.state.phase,
            created=self._created or 0.0,
            prompt=first_prompt(session.log.state),
            updated=self._updated,
            forks=_forks(session.capabilities),
            steers=bool(session.capabilities.get("steer")),
            checkpoints=host_of(session).checkpoints is not None,
            budget=host_of(session).core.budgets.spent,
            sandbox="" if session.sandbox is None else session.sandbox.summary,
            granted=()
            if session.sandbox is None
            else tuple(f"{each.tool} {each.target}" for each in session.sandbox.granted),
            tenant=self.tenant,
            roots=host_of(session).core.opening.roots,
        )

    def entry(self) -> StoreEntry:
        """Return the session's entry in the store, now that it is closed."""
        session = self.session
        state = session.log.state
        host = host_of(session)
        rested = trio.current_time() - host.core.active_at if host.unloaded else 0.0
        return StoreEntry(
            session=session.id,
            agent=self.agent,
            cwd=self.cwd,
            title=state.title,
            prompt=first_prompt(state),
            turns=state.turn_count,
            created=self._created or 0.0,
            updated=host.wall_time() - rested,
            agent_session=session.agent_session,
            tenant=self.tenant,
            roots=host.core.opening.roots,
        )

    @property
    def is_leaving(self) -> bool:
        """True if the session is over and its end is pending."""
        return not self.is_adopted and host_of(self.session).core.conversation.ended

    async def close(self) -> int:
        """Close the session on request, and drop the waiting prompts.

        The changes in its separate working tree, if it has one, are brought back. Returns the
        number of dropped prompts; otherwise as `end`.
        """
        self._check_own()
        inside = host_of(self.session)
        with inside.core.acting("close"):
            dropped = inside.core.ask_close(discard=True)
        if inside.worktree is not None:
            inside.worktree.at_end = "bring_back"
        await self.end()
        return dropped

    def _check_own(self) -> None:
        """Raise `LocalProtocolError` for an adopted session."""
        if self.is_adopted:
            raise LocalProtocolError(
                "this session belongs to a program and is only shown here: only the"
                " program can close it"
            )

    async def end(self) -> None:
        """End the session now, in bounded time, because this process no longer needs it.

        Waiting prompts stay stored. Cancelling this does not keep the session from ending. Raises
        `LocalProtocolError` for an adopted session.
        """
        self._check_own()
        self.scope.cancel()
        await self.over.wait()

    async def run(
        self,
        opening: AbstractAsyncContextManager[Session],
        *,
        task_status: trio.TaskStatus[Session],
    ) -> None:
        """Keep the session's block open until the session is to be closed.

        An error of the session ends only this session.
        """
        opened = False
        try:
            with self.scope:
                async with opening as session:
                    self._take(session)
                    opened = True
                    if self._created is None:
                        self._created = host_of(self.session).wall_time()
                    self._register.add(self)
                    task_status.started(self.session)
                    del task_status  # it keeps the nursery of the start in memory
                    await self._watch()
        except Exception:
            if not opened:
                raise  # for the caller that waits for the start
            logger.exception("the session %s broke", self.session.id)
        finally:
            if opened:
                self._stop_noting()
            if opened and host_of(self.session).unloaded:
                self._register.unloaded(self)
            elif opened:
                self._register.remove(self)
            self.over.set()

    async def _watch(self) -> None:
        """Watch the session until it may be unloaded, or is over because the store gave it to
        another process.
        """
        closed = host_of(self.session).closed
        limits = self.session.limits
        unload = limits.unload_after_s if self._unloads else None
        bounds = (limits.suspend_after_s, unload)
        step = min((bound for bound in bounds if bound is not None), default=None)
        if step is None:
            await closed.wait()
            return
        while True:
            soonest = trio.current_time() + step / 8  # a delay, even if nothing was ended
            with trio.move_on_at(max(host_of(self.session).core.active_at + step, soonest)):
                await closed.wait()
                return
            self._suspend_if_idle()
            core = host_of(self.session).core
            # A store does not have the providers.
            stored = not core.opening.providers
            if unload is not None and stored and self._unseen(unload):
                host_of(self.session).unloaded = True
                if (worktree := host_of(self.session).worktree) is not None:
                    worktree.at_end = "keep"
                self._register.unload(self)
                return

    def _unseen(self, limit: float) -> bool:
        """Return True if the session is idle and has had no viewer for this long."""
        host, id = host_of(self.session), self.session.id
        seen = max(host.core.active_at, self._register.last_viewed_at(id))
        alone = host.can_unload and not self._register.is_busy(id)
        return alone and trio.current_time() - seen >= limit

    def _suspend_if_idle(self) -> None:
        """Suspend an idle session."""
        core, limits = host_of(self.session).core, self.session.limits
        turn, silence = core.turn, trio.current_time() - core.active_at
        if not core.ready:
            return
        if turn is None and core.idle:
            # A conversation that cannot be resumed keeps its process.
            resumable = core.capabilities.get("resume") or not core.log.state.turns
            if (
                limits.suspend_after_s is not None
                and silence >= limits.suspend_after_s
                and resumable
            ):
                core.retire_silent("info", "suspended", limits.suspend_after_s)


def _forks(capabilities: JsonObject) -> Literal["turn", "end", "no"]:
    """Return where a fork can end: after any turn, only after the last one, or nowhere."""
    if not capabilities.get("fork"):
        return "no"
    return "turn" if capabilities.get("fork_at") else "end"
