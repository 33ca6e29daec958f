"""A runtime whose store others share: it sees what they do, and closes what the dead leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from .._errors import AgentrtError, StoreError
from .._limits import Limits
from .._logging import get_logger
from .register import Register
from .resting import resting_log

if TYPE_CHECKING:
    from .._journal.membership import Membership
    from .._journal.store import Store

logger = get_logger("store")

LOOK = 1.0
"""Seconds between two looks at what others have stored."""

RECENT = 200
"""Sessions that such a look is at: those in which something happened last."""


async def keep_up(register: Register, store: Store, membership: Membership, limits: Limits) -> None:
    """Until cancelled."""
    while True:
        try:
            register.refresh(await store.sessions(limit=RECENT), RECENT)
            if membership.held() is not None and not membership.draining:
                for id in await membership.left():
                    await _close(register, store, membership, id, limits)
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
