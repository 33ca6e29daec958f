"""Sessions and runtimes over given connections, with ids, times and services of the caller.

Test kits use them: everything but the agent's process is real.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack

from msgspec import Struct, structs

from ..agents import Agent
from ..agents.agent import AgentInfo, ProtocolName
from ..agents.find import PROGRAMS
from ..errors import AgentNotFound
from ..limits import Limits
from ..model.content import JsonObject
from ..model.driver import Opening, ServiceRequested
from ..model.events import Event
from ..permissions.policies import Policy, ask
from ..permissions.standing import Standing
from ..process.pipes import Transport
from ..session.host import SessionHost
from ..session.session import Session
from ..telemetry.observation import as_one
from ..tools.extensions import checked_tools_and_servers
from ..tools.tools import Provided, Tools, split
from .offer import AroundSession, Offer, ProtocolSetup
from .open import serve_session
from .options import (
    SessionOptions,
    check_names,
    check_store,
    checked_budgets,
    checked_providers,
)
from .protocol_setup import SETUP, set_up_driver, set_up_program, set_up_protocol
from .runtime import Runtime, Source, serve_runtime
from .stored import ClaimedSession

if TYPE_CHECKING:
    from ..store.base import StoreEntry
    from ..store.service import StoreService
    from ..store.store import Store

OpenTransport: TypeAlias = Callable[[], AbstractAsyncContextManager[Transport]]
"""Connects to an agent; called for each start and restart."""

WITHOUT_PROCESS: Final = (
    *("hooks", "env", "trust", "trusted", "on_stderr", "trace"),
    *("worktree", "worktree_copy", "worktree_setup"),
)
"""Session options that only apply to an agent's process."""


@asynccontextmanager
async def open_session_over(
    connect: OpenTransport,
    *,
    name: str = "fake",
    protocol: ProtocolName = "acp",
    acp_version: Literal[1, 2] = 1,
    id: str = "id",
    now: Callable[[], float] = time.time,
    services: Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]] | None = None,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[Session]:
    """Open a session over the caller's connection, with ids and times of its own.

    - `connect`: called for each start and restart of the agent.
    - `name`, `protocol`, `acp_version`: those of the `Agent`.
    - `id`: prefix of the ids in the log, which are the same in every run.
    - `now`: clock for the times in the log.
    - `services`: replace agentrt's own handlers for requests of the agent, by the first word of the
      method (`fs`, `terminal`).
    - `options`: those of a real session (`SessionOptions`), except `hooks`, `env`, `trust`,
      `trusted`, `on_stderr`, `trace` and those of a worktree, which apply to processes. `cwd` is
      `/` by default.

    Yields the `Session`. Raises `TypeError` for an unknown option or one that applies to processes.
    """
    check_names("open_session_over", options, SessionOptions)
    if unused := [each for each in WITHOUT_PROCESS if each in options]:
        raise TypeError(f"the agent has no process here: leave out {unused[0]}=…")
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
        connect=lambda opening: connect(),
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
        providers=checked_providers(agent, options.get("providers", ())),
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
        """Provide the services after those of the setup, which they replace."""
        async with around_session(host, session) as opening:
            for method, service in services.items():
                host.provide(method, service)
            yield opening

    return around


@asynccontextmanager
async def _reopen_session_over(
    connect: OpenTransport,
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
        connect=lambda opening: connect(),
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
async def open_runtime_over(
    agents: Mapping[str, OpenTransport],
    *,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Tools = (),
    store: Store | None = None,
) -> AsyncIterator[Runtime]:
    """Open a runtime whose agents are reached by the caller's connections.

    `agents` maps each name to a function that connects. Session ids are `s1-1`, `s2-1`, …;
    with a `store`, the numbers start after the stored sessions. If other servers share the store,
    the node's name comes first. A session with a name that is not in `agents` raises
    `AgentNotFound`. Yields the `Runtime`.
    """
    service = check_store("store", store)
    first = 1 if service is None else 1 + len(await service.sessions())
    numbers, common = count(first), checked_tools_and_servers(tools)
    shared = None if service is None else service.membership
    prefix = "" if shared is None else f"{shared.process.name}-"

    def starting(name: str) -> OpenTransport:
        """Return the function that connects to an agent.

        Raises `AgentNotFound` for an unknown name.
        """
        if name not in agents:
            raise AgentNotFound(f"no agent is called {name!r}; known: {', '.join(agents)}")
        return agents[name]

    def open(
        agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]:
        """Open a session as `Runtime.create` asks for it, without the options for processes."""
        name = agent if isinstance(agent, str) else agent.name
        given: SessionOptions = {"permissions": permissions, "limits": limits, **options}
        given["tools"] = (*common, *checked_tools_and_servers(options.get("tools", ())))
        given["store"] = store
        for each in WITHOUT_PROCESS:
            given.pop(each, None)  # type: ignore[misc]
        return open_session_over(
            starting(name), name=name, id=f"{prefix}s{next(numbers)}-", **given
        )

    def reopen(
        entry: StoreEntry,
        tools: tuple[Provided, ...],
        mcp_servers: tuple[JsonObject, ...],
        cwd: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open a stored session again. Only sessions of a store get here."""
        assert service is not None
        return _reopen_session_over(
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


class StandIn(Struct, frozen=True, kw_only=True):
    """A replacement for an agent's program in one session; see `stand_in_for_programs`."""

    connect: OpenTransport
    """Connects to the stand-in; called for each start and restart."""
    observe: Callable[[list[Event]], None]
    """Called with each batch of the session's events. Must not block or raise."""
    opened: Callable[[Session], Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]]]
    """Called with the session before its agent is started. Returns services that replace agentrt's
    own, by the first word of the method (`fs`, `terminal`)."""


@contextmanager
def stand_in_for_programs(choose: Callable[[Agent, Opening], StandIn]) -> Iterator[None]:
    """Use a stand-in for the agent's program in every session that is opened in the block.

    No program is looked up or started. `choose` returns the stand-in for a session; one that has
    its own connection keeps it.
    """

    def set_up(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
        """Set up a session with its stand-in.

        Sessions with a connection of their own are set up as usual.
        """
        if offer.connect is not None:
            return set_up_program(agent, opening, offer)
        chosen = choose(agent, opening)
        offer = structs.replace(offer, connect=lambda opening: chosen.connect())
        setup = set_up_driver(agent, opening, offer)

        def around(host: SessionHost, session: Session) -> AbstractAsyncContextManager[Opening]:
            """Let the stand-in observe the session before its agent is started."""
            host.log.observe(lambda events, _size: chosen.observe(events))
            services = chosen.opened(session)
            return with_services(services, setup.around_session)(host, session)

        return structs.replace(setup, around_session=around)

    with PROGRAMS.replaced(_unchanged), SETUP.replaced(set_up):
        yield


def _unchanged(agent: Agent) -> Agent:
    return agent  # a stand-in needs no program
