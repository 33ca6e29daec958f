"""A session's log and conversation, new or loaded from a store; and the logs of sessions that are
not open, for readers.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import trio
from msgspec import Struct, structs

from ..agents import Agent, ProtocolName
from ..limits import Limits
from ..model.checkpoint import Checkpoints, prepend_records
from ..model.conversation import Conversation
from ..model.driver import Opening
from ..model.events import AgentState
from ..model.log import Log
from ..model.state import SessionState
from ..session.host import SessionHost
from ..store.base import LoadedSession, SessionClaim, SessionDescription, plain
from ..store.persister import ClosedSession, Persist
from ..store.service import StoreService

SECRET = ("env",)
"""Options that are never stored, because they may hold secrets."""


class ClaimedSession(Struct, frozen=True):
    """A stored session to continue."""

    session: str
    place: SessionClaim
    stored: LoadedSession

    @property
    def opening(self) -> Opening:
        """The stored settings for opening the session."""
        about = self.stored.about
        return Opening(
            cwd=about.cwd,
            roots=about.roots,
            model=about.model,
            mode=about.mode,
            options=about.options,
            tenant=about.tenant,
            sandbox=about.sandbox,
            worktree=about.worktree,
        )


class SessionDescriber:
    """Describes a session for the store, in addition to its log.

    Returns the same object until the description changes.
    """

    def __init__(self, agent: Agent, host: SessionHost) -> None:
        self._agent = agent
        self._host = host
        self._known: tuple[object, ...] = ()
        self._about: SessionDescription

    def __call__(self) -> SessionDescription:
        """Return the present description: the same object as before if it has not changed."""
        core = self._host.core
        opening, named = core.opening, core.conversation.named
        known = (opening, core.agent_session, core.capabilities, named)
        if known != self._known:
            self._known = known
            self._about = about_of(self._agent, opening)
            self._about.agent_session = core.agent_session
            self._about.capabilities = plain(core.capabilities) or {}
            self._about.named = named
        return self._about


def about_of(agent: Agent, opening: Opening) -> SessionDescription:
    """Return the description of a new session."""
    return SessionDescription(
        agent=agent.name,
        protocol=agent.protocol,
        cwd=opening.cwd,
        roots=opening.roots,
        model=opening.model,
        mode=opening.mode,
        options=plain({k: v for k, v in opening.options.items() if k not in SECRET}) or {},
        tenant=opening.tenant,
        sandbox=opening.sandbox,
        worktree=opening.worktree,
    )


@asynccontextmanager
async def open_conversation(
    agent: Agent,
    limits: Limits,
    opening: Opening,
    *,
    store: StoreService,
    again: ClaimedSession | None,
    ids: Callable[[], str],
    now: Callable[[], float],
    clock: Callable[[], float],
) -> AsyncIterator[tuple[Conversation, Persist]]:
    """Open a conversation, and a function that starts storing it.

    After the block all of it is stored, or storing was given up.
    """
    state = AgentState(agent.name, agent.protocol)

    def converse(log: Log) -> Conversation:
        """Return a conversation that writes to this log."""
        return Conversation(log, agent=state, now=now, limits=limits, clock=clock)

    if again is None:
        id, epoch = ids(), ids()
        place = await store.create(id, epoch, about_of(agent, opening))
        log, shown = (Log(id, epoch, limits, SessionState(state)) for _ in range(2))
        checkpoints = Checkpoints(log.state)
        conversation = converse(log)
    else:
        id, place, stored = again.session, again.place, again.stored
        head = stored.head
        with store.claiming(id):
            log, shown = [
                Log(id, stored.epoch, limits, await store.state(stored), seq=head.seq)
                for _ in range(2)
            ]
        if head.state is not None:
            state = structs.replace(state, version=head.state.agent.version)
        checkpoints = Checkpoints(log.state, stored.records)
        conversation = converse(log)
        named = stored.about.named
        shown.extend(conversation.restore(stored.events, ids=head.ids, named=named), 0)
        log.publish()
    async with store.keeping(place, conversation, shown, checkpoints) as persist:
        yield conversation, persist


async def load_log(store: StoreService, id: str, limits: Limits) -> Log:
    """Return the last turns of a stored session, as they were left.

    Raises `SessionNotFound` or `StoreError`.
    """
    stored = await store.load(id, last=limits.snapshot_turns + 1)
    log = Log(id, stored.epoch, limits, stored.state(), seq=stored.head.seq)
    log.extend(stored.events, 0)
    return log


def is_closed(log: Log) -> bool:
    """Return True if nothing is open in the log, as after `load_closed_log`."""
    state = log.state
    # Its process may have died before it recorded the end of a waiting prompt.
    waits = any(not entry.paused for entry in state.queue)
    return state.state.phase == "dead" and not waits


async def load_closed_log(store: StoreService, id: str, limits: Limits) -> Log:
    """Return the log of a stored session that is not open, with its last turns.

    Anything that its last process left open is closed first, and this is stored, so that later
    readers and the next opening find it closed. `load_history` loads earlier turns.

    Needs neither the agent nor the folder. Raises `SessionNotFound` or `StoreError`.
    """
    log = await load_log(store, id, limits)
    if is_closed(log):
        return log
    last = limits.snapshot_turns + 1
    again = ClaimedSession(id, *await store.claim(id, last=last, reads=True))
    about = again.stored.about
    agent = Agent(name=about.agent, protocol=cast("ProtocolName", about.protocol), command=())
    async with open_conversation(
        agent,
        limits,
        again.opening,
        store=store,
        again=again,
        ids=secrets.token_urlsafe,
        now=time.time,
        clock=trio.current_time,
    ) as (conversation, persist):
        persist(ClosedSession(), lambda: about)
        resumes = about.agent_session is not None and bool(about.capabilities.get("resume"))
        conversation.orphan(resumes=resumes)
        conversation.log.publish()
    return conversation.log.shown


async def load_history(
    store: StoreService, log: Log, before: str | None, turns: int | None, limits: Limits
) -> None:
    """Load the earlier turns that the log's `history` needs; all of them if `before` is None.

    Raises `SessionNotFound` or `StoreError`.
    """
    while log.lacks(before, turns):
        ahead = log.state.ahead
        assert ahead is not None
        count = ahead.records if before is None else limits.snapshot_turns
        records = await store.records(log.session, before=ahead.records, count=count)
        if log.state.ahead is ahead:  # otherwise another task has loaded them in the meantime
            prepend_records(log.state, records)
