"""Sessions on agents in memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Unpack

from .._agents import Agent, ProtocolName
from .._errors import AgentNotFound
from .._limits import Limits
from .._model.driver import Opening
from .._permissions.policies import Policy, ask
from .._runtime.assembly import assemble
from .._runtime.offer import Offer
from .._runtime.open import serve_session
from .._runtime.options import SessionOptions
from .._runtime.runtime import AgentInfo, Runtime, Source, serve_runtime
from .._runtime.stored import Again
from .._session.session import Session
from .._tools.tools import Tool
from .memory import MemoryAgent

if TYPE_CHECKING:
    from .._journal.base import StoreEntry
    from .._journal.store import Store
    from .._telemetry.observation import Telemetry


@asynccontextmanager
async def open_fake_session(
    start: Callable[[], MemoryAgent],
    *,
    permissions: Policy | None = None,
    limits: Limits | None = None,
    tools: Iterable[Tool] = (),
    resume: str | None = None,
    fork: bool = False,
    cwd: str = "/",
    name: str = "fake",
    protocol: ProtocolName = "acp",
    id: str = "id",
    now: Callable[[], float] = time.time,
    store: Store | None = None,
    telemetry: Telemetry | None = None,
) -> AsyncIterator[Session]:
    """A session whose agent processes are made by `start`, one for each (re)start.

    The ids in its log are the same in every run, and begin with `id`; its times are those of `now`.
    `name` is what the agent is called, and `protocol` what it speaks. A `store` keeps it;
    `telemetry` sees it.
    """
    limits = limits or Limits()
    agent = Agent(name=name, protocol=protocol, command=(name,))
    ids = count(1)
    uuids = count(1)
    offer = Offer(
        limits=limits,
        tools=tuple(tools),
        connect=lambda opening: start().connect(),
        new_uuid=lambda: f"00000000-0000-4000-8000-{next(uuids):012}",
    )
    assembly = assemble(agent, Opening(cwd=cwd, resume=resume, fork=fork), offer)
    async with serve_session(
        agent,
        assembly,
        permissions,
        limits,
        ids=lambda: f"{id}{next(ids)}",
        now=now,
        store=store,
        telemetry=telemetry,
    ) as session:
        yield session


@asynccontextmanager
async def _reopen_fake_session(
    start: Callable[[], MemoryAgent],
    store: Store,
    entry: StoreEntry,
    *,
    permissions: Policy | None,
    limits: Limits | None,
    tools: tuple[Tool, ...],
) -> AsyncIterator[Session]:
    """As `reopen_session` does it."""
    limits = limits or Limits()
    again = Again(entry.session, *await store.claim(entry.session))
    agent = Agent(name=entry.agent, protocol="acp", command=(entry.agent,))
    offer = Offer(
        limits=limits,
        tools=tools,
        connect=lambda opening: start().connect(),
        first_key=f"r{again.place.owner}.",
    )
    assembly = assemble(agent, again.opening, offer)
    async with serve_session(
        agent, assembly, permissions, limits, store=store, again=again
    ) as session:
        yield session


@asynccontextmanager
async def open_fake_runtime(
    agents: Mapping[str, Callable[[], MemoryAgent]],
    *,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Iterable[Tool] = (),
    store: Store | None = None,
) -> AsyncIterator[Runtime]:
    """A runtime whose agents are these: each name with what makes its processes.

    The ids of its sessions are `s1-1`, `s2-1`, …, beginning behind those that a `store` has.
    """
    first = 1 if store is None else 1 + len(await store.sessions())
    numbers, common = count(first), tuple(tools)

    def starting(name: str) -> Callable[[], MemoryAgent]:
        if name not in agents:
            raise AgentNotFound(f"no agent is called {name!r}; known: {', '.join(agents)}")
        return agents[name]

    def open(
        agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]:
        name = agent if isinstance(agent, str) else agent.name
        return open_fake_session(
            starting(name),
            permissions=options.get("permissions", permissions),
            limits=options.get("limits", limits),
            tools=(*common, *options.get("tools", ())),
            resume=options.get("resume"),
            fork=options.get("fork", False),
            cwd=os.fspath(options.get("cwd", "/")),
            name=name,
            id=f"s{next(numbers)}-",
            store=store,
        )

    def reopen(entry: StoreEntry, tools: tuple[Tool, ...]) -> AbstractAsyncContextManager[Session]:
        assert store is not None
        return _reopen_fake_session(
            starting(entry.agent),
            store,
            entry,
            permissions=permissions,
            limits=limits,
            tools=(*common, *tools),
        )

    known = [AgentInfo(name=name) for name in agents]
    source = Source(open, lambda: known, reopen)
    async with serve_runtime(source, limits or Limits(), store) as runtime:
        yield runtime
