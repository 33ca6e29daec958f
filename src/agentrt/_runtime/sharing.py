"""A runtime whose store others share: it sees what they do, and closes what the dead leave open."""

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
from .register import Register
from .resting import log_of, resting_log, rests

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._journal.membership import Membership
    from .._journal.port import Port
    from .._journal.store import Store

logger = get_logger("store")

LOOK = 1.0
"""Seconds between two looks at what others have stored."""

RECENT = 200
"""Sessions that such a look is at: those in which something happened last."""


async def keep_up(
    register: Register, store: Store, membership: Membership, port: Port, limits: Limits
) -> None:
    """Until cancelled."""

    def load() -> bytes:
        open = [host.info().phase for host in register.hosts.values()]
        turns = sum(phase not in ("idle", "dead", "closed") for phase in open)
        # Who carries out nothing for others, or not yet, is given nothing.
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
    register: Register, store: Store, membership: Membership, id: str, limits: Limits
) -> None:
    """See to it that a session whose owner is gone does not look as if it were at work."""
    try:
        async with register.alone(id):
            if id not in register.hosts:
                await resting_log(store, id, limits)
                await membership.release(id)
    except AgentrtError as error:  # somebody else was first
        logger.info("the session %s was not taken over: %s", id, error)


async def followed_log(
    store: Store, port: Port, id: str, limits: Limits, over: Callable[[], None]
) -> tuple[Log, Callable[[], None]]:
    """The log of a session that is not open here, and the function that ends it: until then it goes
    on with what is stored, wherever that happens. It has the last turns. `over`: see `Followed`.

    Raises `SessionNotFound` or `StoreError`.
    """
    num = await port.watch(id)
    if num is None:
        raise SessionNotFound(f"no session {id!r} is stored")
    try:
        log = await log_of(store, id, limits)
        owned = await port.owner(id)
        if owned is not None and owned.node is None and not rests(log):
            with suppress(SessionElsewhere):  # meanwhile: then there is nothing to be closed
                await resting_log(store, id, limits)
            log = await log_of(store, id, limits)
    except BaseException:
        port.unwatch(num)
        raise
    followed = Followed(num, log, over)
    port.follow(followed)
    return log, partial(port.unfollow, followed)
