"""Sessions and runtimes with agents in memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from msgspec import structs

from .._core.limits import Limits
from .._core.permissions.standing import Standing
from .._core.runtime.offer import AroundSession, Offer
from .._core.runtime.open import serve_session
from .._core.runtime.options import SessionOptions, check_names, check_store, checked_budgets
from .._core.runtime.protocol_setup import set_up_protocol
from .._core.runtime.runtime import Runtime, Source, serve_runtime
from .._core.runtime.stored import ClaimedSession
from .._core.session.host import SessionHost
from .._core.session.session import Session
from .._core.telemetry.observation import as_one
from .._core.tools.extensions import checked_tools_and_servers
from .._core.tools.tools import Provided, split
from ..agents import Agent, AgentInfo, ProtocolName
from ..effects import ServiceRequested
from ..errors import AgentNotFound
from ..events import JsonObject
from ..lowlevel import Opening
from ..permissions import Policy, ask
from ..tools import Tools
from .memory import MemoryAgent

if TYPE_CHECKING:
    from .._core.store.service import StoreService
    from ..store import Store, StoreEntry


WITHOUT_PROCESS: Final = ("hooks", "env", "trust", "trusted", "on_stderr", "trace")
"""Session options that only apply to an agent's process."""


@asynccontextmanager
async def open_fake_session(
    start: Callable[[], MemoryAgent],
    *,
    name: str = "fake",
    protocol: ProtocolName = "acp",
    acp_version: Literal[1, 2] = 1,
    id: str = "id",
    now: Callable[[], float] = time.time,
    services: Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]] | None = None,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[Session]:
    """Open a session with an agent in memory.

    - `start`: called for each start and restart of the agent; returns its process.
    - `name`, `protocol`, `acp_version`: those of the `Agent`.
    - `id`: prefix of the ids in the log, which are the same in every run.
    - `now`: clock for the times in the log.
    - `services`: replace agentrt's own handlers for requests of the agent, by the first word of the
      method (`fs`, `terminal`).
    - `options`: those of a real session (`SessionOptions`), except `hooks`, `env`, `trust`,
      `trusted`, `on_stderr` and `trace`, which apply to processes. `cwd` is `/` by default.

    Yields the `Session`. Raises `TypeError` for an unknown option or one that applies to processes.
    """
    check_names("open_fake_session", options, SessionOptions)
    if unused := [each for each in WITHOUT_PROCESS if each in options]:
        raise TypeError(f"an agent in memory has no process: leave out {unused[0]}=…")
    permissions, telemetry = options.get("permissions"), options.get("telemetry")
    limits = options.get("limits")
    limits = limits or Limits()
    agent = Agent(name=name, protocol=protocol, command=(name,), acp_version=acp_version)
    ids = count(1)
    uuids = count(1)
    functions, servers = split(checked_tools_and_servers(options.get("tools", ())))
    offer = Offer(
        limits=limits,
        tools=functions,
        servers=servers,
        extensions=tuple(options.get("extensions", ())),
        files=options.get("files", True),
        terminals=options.get("terminals", True),
        connect=lambda opening: start().connect(),
        new_uuid=lambda: f"00000000-0000-4000-8000-{next(uuids):012}",
        standing=Standing(permissions, agent),
    )
    opening = Opening(
        cwd=os.fspath(options.get("cwd", "/")),
        roots=tuple([os.fspath(root) for root in options.get("roots", ())]),
        resume=options.get("resume"),
        fork=options.get("fork", False),
        fork_at=options.get("fork_at"),
        mcp_servers=tuple(options.get("mcp_servers", ())),
        model=options.get("model"),
        mode=options.get("mode"),
        options=dict(options.get("options") or {}),
        tenant=options.get("tenant", ""),
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
        store=check_store("store", options.get("store")),
        telemetry=None if telemetry is None else as_one(telemetry),
        checkpoints=options.get("checkpoints", False),
        budgets=checked_budgets(options.get("budget")),
        wait=options.get("wait"),
    ) as session:
        yield session


def with_services(
    services: Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]],
    around_session: AroundSession,
) -> AroundSession:
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
    store: StoreService,
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
    again = ClaimedSession(entry.session, *await store.claim(entry.session))
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
    service = check_store("store", store)
    first = 1 if service is None else 1 + len(await service.sessions())
    numbers, common = count(first), checked_tools_and_servers(tools)
    shared = None if service is None else service.membership
    prefix = "" if shared is None else f"{shared.process.name}-"

    def starting(name: str) -> Callable[[], MemoryAgent]:
        if name not in agents:
            raise AgentNotFound(f"no agent is called {name!r}; known: {', '.join(agents)}")
        return agents[name]

    def open(
        agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]:
        name = agent if isinstance(agent, str) else agent.name
        given: SessionOptions = {"permissions": permissions, "limits": limits, **options}
        given["tools"] = (*common, *checked_tools_and_servers(options.get("tools", ())))
        given["store"] = store
        for each in WITHOUT_PROCESS:
            given.pop(each, None)  # type: ignore[misc]
        return open_fake_session(
            starting(name), name=name, id=f"{prefix}s{next(numbers)}-", **given
        )

    def reopen(
        entry: StoreEntry,
        tools: tuple[Provided, ...],
        mcp_servers: tuple[JsonObject, ...],
        cwd: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> AbstractAsyncContextManager[Session]:
        assert service is not None
        return _reopen_fake_session(
            starting(entry.agent),
            service,
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
    async with serve_runtime(source, limits or Limits(), service) as runtime:
        yield runtime
