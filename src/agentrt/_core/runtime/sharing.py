"""A runtime with a shared store: it sees changes by other servers, and closes sessions of dead
ones.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from ..._base.nesting import bare_errors
from ..errors import AgentrtError, SessionElsewhere, SessionNotFound, StoreError
from ..limits import Limits
from ..logging import get_logger
from ..model.log import Log
from .registry import SessionRegistry
from .stored import is_closed, load_closed_log, load_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store.service import StoreService
    from ..store.shared import Cluster, StoreMembership

logger = get_logger("store")

LOOK_S = 1.0
"""Seconds between two reads of changes by others."""

RECENT_SESSIONS = 200
"""Number of most recently active sessions in such a read."""


async def keep_up(
    register: SessionRegistry,
    store: StoreService,
    membership: StoreMembership,
    cluster: Cluster,
    limits: Limits,
) -> None:
    """Update the register from the shared store, and report this process's load, until
    cancelled.
    """
    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(_report_once_served, register, membership, cluster)
        while True:
            membership.set_load(_load(register, cluster))
            try:
                register.refresh(await cluster.entries(RECENT_SESSIONS), RECENT_SESSIONS)
                if membership.held() is not None and not membership.draining:
                    for id in await membership.abandoned():
                        await _close(register, store, membership, id, limits)
                    for id in list(store.unkept):
                        async with register.alone(id):
                            if id not in register.hosts and id in store.unkept:
                                await store.release(id)
            except StoreError as error:
                logger.info("the sessions of other servers cannot be listed: %s", error)
            await trio.sleep(LOOK_S)


def _load(register: SessionRegistry, cluster: Cluster) -> bytes:
    """Return the numbers of sessions, running turns and free places, for other processes."""
    open = [host.info().phase for host in register.hosts.values()]
    turns = sum(phase not in ("idle", "dead", "closed") for phase in open)
    # A process that does not run commands of others, or not yet, offers no room.
    room = register.room if cluster.serves else 0
    return msgspec.json.encode({"sessions": len(open), "turns": turns, "room": room})


async def _report_once_served(
    register: SessionRegistry, membership: StoreMembership, cluster: Cluster
) -> None:
    """Let the others know immediately that this process accepts their sessions."""
    await cluster.served.wait()
    membership.set_load(_load(register, cluster))
    membership.report()


async def _close(
    register: SessionRegistry,
    store: StoreService,
    membership: StoreMembership,
    id: str,
    limits: Limits,
) -> None:
    """Close a session whose owner is gone, so that it does not appear to be running."""
    try:
        async with register.alone(id):
            if id not in register.hosts:
                await load_closed_log(store, id, limits)
                await membership.release(id)
    except AgentrtError as error:  # another process was first
        logger.info("the session %s was not taken over: %s", id, error)


async def followed_log(
    store: StoreService, cluster: Cluster, id: str, limits: Limits, over: Callable[[], None]
) -> tuple[Log, Callable[[], None]]:
    """Return the log of a session that is not open here, and the function that stops updating it.

    Until then the log receives everything that any process stores. It has the last turns. `over`:
    see `Cluster.follow`.

    Raises `SessionNotFound` or `StoreError`.
    """
    num = await cluster.watch(id)
    if num is None:
        raise SessionNotFound(f"no session {id!r} is stored")
    try:
        log = await load_log(store, id, limits)
        owned = await cluster.owner(id)
        if owned is not None and owned.node is None and not is_closed(log):
            with suppress(SessionElsewhere):  # claimed by another process: nothing to close
                await load_closed_log(store, id, limits)
            log = await load_log(store, id, limits)
    except BaseException:
        cluster.unwatch(num)
        raise
    return log, cluster.follow(num, log, over)
