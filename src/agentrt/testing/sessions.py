"""Sessions and runtimes with agents in memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Unpack

from msgspec import structs

from .._agents import Agent, AgentInfo, ProtocolName
from .._errors import AgentNotFound
from .._limits import Limits
from .._model.content import JsonObject
from .._model.driver import Opening
from .._model.fork_point import ForkPoint
from .._permissions.policies import Policy, ask
from .._permissions.standing import Standing
from .._runtime.offer import AroundSession, Offer
from .._runtime.open import serve_session
from .._runtime.options import SessionOptions
from .._runtime.protocol_setup import set_up_protocol
from .._runtime.runtime import Runtime, Source, serve_runtime
from .._runtime.stored import Again
from .._session.host import Service, SessionHost
from .._session.session import Session
from .._tools.checked import checked_lent
from .._tools.extensions import Extension
from .._tools.lent import Provided, Tools, split
from .memory import MemoryAgent

if TYPE_CHECKING:
    from .._journal.base import StoreEntry
    from .._journal.store import Store
    from .._runtime.own_services import Files, Terminals
    from .._telemetry.observation import Telemetry


@asynccontextmanager
async def open_fake_session(
    start: Callable[[], MemoryAgent],
    *,
    permissions: Policy | None = None,
    limits: Limits | None = None,
    tools: Tools = (),
    extensions: Iterable[Extension] = (),
    mcp_servers: Sequence[JsonObject] = (),
    files: bool | Files = True,
    terminals: bool | Terminals = True,
    options: JsonObject | None = None,
    resume: str | None = None,
    fork: bool = False,
    fork_at: ForkPoint | None = None,
    cwd: str = "/",
    roots: Sequence[str] = (),
    model: str | None = None,
    mode: str | None = None,
    name: str = "fake",
    protocol: ProtocolName = "acp",
    id: str = "id",
    now: Callable[[], float] = time.time,
    store: Store | None = None,
    telemetry: Telemetry | None = None,
    services: Mapping[str, Service] | None = None,
    tenant: str = "",
) -> AsyncIterator[Session]:
    """Open a session with an agent in memory.

    - `start`: called for each start and restart of the agent; returns its process.
    - `name`, `protocol`: the agent's name and protocol.
    - `id`: prefix of the ids in the log, which are the same in every run.
    - `now`: clock for the times in the log.
    - `store`: saves the session; without it nothing is stored.
    - `telemetry`: receives the session's telemetry.
    - `services`: replace agentrt's own handlers for requests of the agent, by the first word of the
      method (`fs`, `terminal`).
    - `tenant`: the tenant that owns the session.

    The other arguments are the options of a real session. Yields the `Session`.
    """
    limits = limits or Limits()
    agent = Agent(name=name, protocol=protocol, command=(name,))
    ids = count(1)
    uuids = count(1)
    functions, servers = split(checked_lent(tools))
    offer = Offer(
        limits=limits,
        tools=functions,
        servers=servers,
        extensions=tuple(extensions),
        files=files,
        terminals=terminals,
        connect=lambda opening: start().connect(),
        new_uuid=lambda: f"00000000-0000-4000-8000-{next(uuids):012}",
        standing=Standing(permissions, agent),
    )
    opening = Opening(
        cwd=cwd,
        roots=tuple(roots),
        resume=resume,
        fork=fork,
        fork_at=fork_at,
        mcp_servers=tuple(mcp_servers),
        model=model,
        mode=mode,
        options=options or {},
        tenant=tenant,
    )
    setup = set_up_protocol(agent, opening, offer)
    if services is not None:
        setup = structs.replace(setup, around_session=with_services(services, setup.around_session))
    async with serve_session(
        agent,
        setup,
        permissions,
        limits,
        ids=lambda: f"{id}{next(ids)}",
        now=now,
        store=store,
        telemetry=telemetry,
    ) as session:
        yield session


def with_services(services: Mapping[str, Service], around_session: AroundSession) -> AroundSession:
    """Return `around_session` with these services in place of agentrt's own."""

    @asynccontextmanager
    async def around(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        async with around_session(host, session) as opening:
            host.services.update(services)
            yield opening

    return around


@asynccontextmanager
async def _reopen_fake_session(
    start: Callable[[], MemoryAgent],
    store: Store,
    entry: StoreEntry,
    *,
    permissions: Policy | None,
    limits: Limits | None,
    tools: tuple[Provided, ...],
    mcp_servers: tuple[JsonObject, ...],
    cwd: str | os.PathLike[str] | None,
    roots: Sequence[str | os.PathLike[str]] | None,
) -> AsyncIterator[Session]:
    """Reopen a stored session the way `reopen_session` does."""
    limits = limits or Limits()
    again = Again(entry.session, *await store.claim(entry.session))
    agent = Agent(name=entry.agent, protocol="acp", command=(entry.agent,))
    functions, servers = split(tools)
    offer = Offer(
        limits=limits,
        tools=functions,
        servers=servers,
        connect=lambda opening: start().connect(),
        first_key=f"r{again.place.owner}.",
        standing=Standing(permissions, agent),
    )
    opening = structs.replace(again.opening, mcp_servers=mcp_servers)
    if cwd is not None:
        opening = structs.replace(opening, cwd=os.fspath(cwd))
    if roots is not None:
        opening = structs.replace(opening, roots=tuple([os.fspath(root) for root in roots]))
    setup = set_up_protocol(agent, opening, offer)
    async with serve_session(
        agent, setup, permissions, limits, store=store, again=again
    ) as session:
        yield session


@asynccontextmanager
async def open_fake_runtime(
    agents: Mapping[str, Callable[[], MemoryAgent]],
    *,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Tools = (),
    store: Store | None = None,
) -> AsyncIterator[Runtime]:
    """Open a runtime with agents in memory.

    `agents` maps each name to a function that makes a process. Session ids are `s1-1`, `s2-1`, …;
    with a `store`, the numbers start after the stored sessions. If other servers share the store,
    the node's name comes first. A session with a name that is not in `agents` raises
    `AgentNotFound`. Yields the `Runtime`.
    """
    first = 1 if store is None else 1 + len(await store.sessions())
    numbers, common = count(first), checked_lent(tools)
    shared = None if store is None else store.membership
    prefix = "" if shared is None else f"{shared.process.name}-"

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
            tools=(*common, *checked_lent(options.get("tools", ()))),
            extensions=options.get("extensions", ()),
            mcp_servers=options.get("mcp_servers", ()),
            files=options.get("files", True),
            terminals=options.get("terminals", True),
            options=options.get("options"),
            resume=options.get("resume"),
            fork=options.get("fork", False),
            fork_at=options.get("fork_at"),
            cwd=os.fspath(options.get("cwd", "/")),
            roots=[os.fspath(root) for root in options.get("roots", ())],
            model=options.get("model"),
            mode=options.get("mode"),
            name=name,
            id=f"{prefix}s{next(numbers)}-",
            store=store,
            tenant=options.get("tenant", ""),
        )

    def reopen(
        entry: StoreEntry,
        tools: tuple[Provided, ...],
        mcp_servers: tuple[JsonObject, ...],
        cwd: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> AbstractAsyncContextManager[Session]:
        assert store is not None
        return _reopen_fake_session(
            starting(entry.agent),
            store,
            entry,
            permissions=permissions,
            limits=limits,
            tools=(*common, *tools),
            mcp_servers=mcp_servers,
            cwd=cwd,
            roots=roots,
        )

    known = [AgentInfo(name=name) for name in agents]
    source = Source(open, lambda: known, reopen)
    async with serve_runtime(source, limits or Limits(), store) as runtime:
        yield runtime
