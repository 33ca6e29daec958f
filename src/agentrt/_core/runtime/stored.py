"""A session's log and conversation, new or loaded from a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct, structs

from ..agents import Agent
from ..limits import Limits
from ..model.checkpoint import Checkpoints
from ..model.conversation import Conversation
from ..model.driver import Opening
from ..model.events import AgentState
from ..model.log import Log
from ..model.state import SessionState
from ..session.core import SessionCore
from ..store.base import About, SessionClaim, Stored, plain
from ..store.persister import Persist
from ..store.store import Store

SECRET = ("env",)
"""Options that are never stored, because they may hold secrets."""


class ClaimedSession(Struct, frozen=True):
    """A stored session to continue."""

    session: str
    place: SessionClaim
    stored: Stored

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
        )


class SessionDescriber:
    """Describes a session for the store, in addition to its log.

    Returns the same object until the description changes.
    """

    core: SessionCore

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: tuple[object, ...] = ()
        self._about: About

    def __call__(self) -> About:
        core = self.core
        opening, named = core.opening, core.conversation.named
        known = (opening, core.agent_session, core.capabilities, named)
        if known != self._known:
            self._known = known
            self._about = about_of(self._agent, opening)
            self._about.agent_session = core.agent_session
            self._about.capabilities = plain(core.capabilities) or {}
            self._about.named = named
        return self._about


def about_of(agent: Agent, opening: Opening) -> About:
    """Return the description of a new session."""
    return About(
        agent=agent.name,
        protocol=agent.protocol,
        cwd=opening.cwd,
        roots=opening.roots,
        model=opening.model,
        mode=opening.mode,
        options=plain({k: v for k, v in opening.options.items() if k not in SECRET}) or {},
        tenant=opening.tenant,
    )


@asynccontextmanager
async def open_conversation(
    agent: Agent,
    limits: Limits,
    opening: Opening,
    describe: Callable[[], About],
    *,
    store: Store,
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
    async with store.keeping(place, conversation, describe, shown, checkpoints) as persist:
        yield conversation, persist
