"""A runtime with a shared store: it sees changes by other servers, and closes sessions of dead
ones.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from .._errors import AgentrtError, SessionElsewhere, SessionNotFound, StoreError
from .._journal.port import Followed
from .._limits import Limits
from .._logging import get_logger
from .._model.log import Log
from .register import SessionRegistry
from .resting import is_closed, load_closed_log, load_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._journal.membership import Membership
    from .._journal.port import Port
    from .._journal.store import Store

logger = get_logger("store")

LOOK = 1.0
"""Seconds between two reads of changes by others."""

RECENT = 200
"""Number of most recently active sessions in such a read."""


async def keep_up(
    register: SessionRegistry, store: Store, membership: Membership, port: Port, limits: Limits
) -> None:
    """Update the register from the shared store until cancelled."""

    def load() -> bytes:
        open = [host.info().phase for host in register.hosts.values()]
        turns = sum(phase not in ("idle", "dead", "closed") for phase in open)
        # A process that does not run commands of others, or not yet, offers no room.
        room = register.room if port.carry_out is not None else 0
        load = {"sessions": len(open), "turns": turns, "room": room}
        return msgspec.json.encode(load)

    membership.load = load
    while True:
        try:
            register.refresh(await port.entries(RECENT), RECENT)
            if membership.held() is not None and not membership.draining:
                for id in await membership.abandoned():
                    await _close(register, store, membership, id, limits)
                for id in list(store.unkept):
                    async with register.alone(id):
                        if id not in register.hosts and id in store.unkept:
                            await store.release(id)
        except StoreError as error:
            logger.info("what others have stored cannot be seen: %s", error)
        await trio.sleep(LOOK)


async def _close(
    register: SessionRegistry, store: Store, membership: Membership, id: str, limits: Limits
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
    store: Store, port: Port, id: str, limits: Limits, over: Callable[[], None]
) -> tuple[Log, Callable[[], None]]:
    """Return the log of a session that is not open here, and the function that stops updating it.

    Until then the log receives everything that any process stores. It has the last turns. `over`:
    see `Followed`.

    Raises `SessionNotFound` or `StoreError`.
    """
    num = await port.watch(id)
    if num is None:
        raise SessionNotFound(f"no session {id!r} is stored")
    try:
        log = await load_log(store, id, limits)
        owned = await port.owner(id)
        if owned is not None and owned.node is None and not is_closed(log):
            with suppress(SessionElsewhere):  # claimed by another process: nothing to close
                await load_closed_log(store, id, limits)
            log = await load_log(store, id, limits)
    except BaseException:
        port.unwatch(num)
        raise
    followed = Followed(num, log, over)
    port.follow(followed)
    return log, partial(port.unfollow, followed)
