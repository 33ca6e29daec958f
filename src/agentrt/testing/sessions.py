"""A session on an agent in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count

from .._agents import Agent
from .._limits import Limits
from .._model.driver import Opening
from .._runtime.open import serve_session
from .._runtime.permissions import Policy
from .._runtime.session import Session
from .._runtime.tools import Tool
from .._runtime.wings import Offer, make_wing
from .memory import MemoryAgent


@asynccontextmanager
async def open_fake_session(
    start: Callable[[], MemoryAgent],
    *,
    permissions: Policy | None = None,
    limits: Limits | None = None,
    tools: Iterable[Tool] = (),
    resume: str | None = None,
    cwd: str = "/",
) -> AsyncIterator[Session]:
    """A session whose agent processes are made by `start`, one for each (re)start.

    The ids in its log are the same in every run; with a `MockClock` so are its times.
    """
    limits = limits or Limits()
    agent = Agent(name="fake", protocol="acp", command=("fake",))
    ids = count(1)
    offer = Offer(limits=limits, tools=tuple(tools), connect=lambda opening: start().connect())
    wing = make_wing(agent, Opening(cwd=cwd, resume=resume), offer)
    async with serve_session(
        agent, wing, permissions, limits, ids=lambda: f"id{next(ids)}"
    ) as session:
        yield session
