"""Logs of stored sessions that are not open, for readers."""

from __future__ import annotations

import secrets
import time
from typing import cast

import trio

from ..agents import Agent, ProtocolName
from ..errors import AgentrtError
from ..limits import Limits
from ..model.checkpoint import prepend_records
from ..model.log import Log
from ..store.store import Store
from .stored import ClaimedSession, open_conversation


async def load_log(store: Store, id: str, limits: Limits) -> Log:
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


class _ClosedSession:
    """A session that has no agent and no readers yet: nothing follows from storing its log."""

    def store_failed(self, error: AgentrtError) -> None: ...

    def batch_hidden(self) -> None: ...

    def events_stored(self, last: int) -> None: ...

    def reading_resumed(self) -> None: ...


async def load_closed_log(store: Store, id: str, limits: Limits) -> Log:
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
        lambda: about,
        store=store,
        again=again,
        ids=secrets.token_urlsafe,
        now=time.time,
        clock=trio.current_time,
    ) as (conversation, persist):
        persist(_ClosedSession())
        resumes = about.agent_session is not None and bool(about.capabilities.get("resume"))
        conversation.orphan(resumes=resumes)
        conversation.log.publish()
    return conversation.log.shown


async def load_history(
    store: Store, log: Log, before: str | None, turns: int | None, limits: Limits
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
