"""A session put together from its parts.

The public API chooses ids and clocks itself, and goes on with a session only through the agents
that are installed. Tests know the ids of a run in advance, and go on with one on agents in memory.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

from agentrt import Limits, Session
from agentrt._core.runtime.offer import Offer
from agentrt._core.runtime.open import serve_session
from agentrt._core.runtime.protocol_setup import set_up_protocol
from agentrt._core.runtime.stored import ClaimedSession
from agentrt.agents import Agent, ProtocolName, Transport
from agentrt.lowlevel import Opening, SessionClaim
from agentrt.permissions import Policy
from agentrt.store import LoadedSession


@asynccontextmanager
async def composed(
    connect: Callable[[], AbstractAsyncContextManager[Transport]],
    *,
    name: str = "fake",
    protocol: ProtocolName = "acp",
    opening: Opening | None = None,
    limits: Limits,
    permissions: Policy | None = None,
    ids: Callable[[], str] | None = None,
    now: Callable[[], float] = time.time,
    store: Any = None,
    again: tuple[str, SessionClaim, LoadedSession] | None = None,
    **offered: Any,
) -> AsyncIterator[Session]:
    """Open a session on agents in memory.

    `ids` gives those of a new session and its log; by default they are `id1` and `id2`. `again` is
    the id of a stored session with what its claim returned; `offered` is what the host offers.
    """
    agent = Agent(name=name, protocol=protocol, command=(name,))
    numbers = map("id{}".format, count(1))
    claimed = None if again is None else ClaimedSession(*again)
    opening = claimed.opening if claimed is not None else opening or Opening(cwd="/")
    offer = Offer(limits=limits, connect=lambda opening: connect(), **offered)
    async with serve_session(
        agent,
        set_up_protocol(agent, opening, offer),
        permissions,
        limits,
        ids=ids or numbers.__next__,
        now=now,
        store=store,
        again=claimed,
    ) as session:
        yield session
