"""Many sessions in one process: each hosted by a task of its own, none of which can delay or break
another.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, Unpack

import trio
from msgspec import Struct

from .._errors import Busy, LocalProtocolError, SessionClosed, SessionNotFound
from .._journal.base import About, Answer, StoreEntry
from .._limits import Limits, Tenant
from .._model.content import JsonObject
from .._model.driver import Opening
from .._model.fork_point import check_forks, fork_point, shown_until
from .._model.log import Log
from .._nesting import bare_errors, check_trio
from .._permissions.policies import Policy, ask, check_policy
from .._session.session import Session, host_of
from .._tools.checked import checked_lent
from .._tools.client_tools import ClientTool
from .._tools.lent import Lent, Tools
from .arguments import check, check_env, check_limits, check_store, check_trace
from .drain import wait_for_rest
from .host import Host
from .memory import give_back
from .open import open_session, reopen_session
from .options import SessionOptions
from .own import Own
from .register import Hosted, Register, SessionInfo, stored_info
from .stored import SECRET

if TYPE_CHECKING:
    from .._agents import Agent
    from .._config import Config
    from .._journal.store import Store
    from .._telemetry.observation import Telemetries
    from .._trace.trace import Trace
    from .project_start import Trusted

STORED: Final = frozenset(
    {"cwd", "roots", "tools", "resume", "fork", "fork_at", "model", "mode", "options", "tenant"}
)
"""Of `SessionOptions` what a store keeps; of `tools` those that clients run."""


class OpenSession(Protocol):
    """What `open_session` is, with the runtime's own settings filled in."""

    def __call__(
        self, agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]: ...


ReopenSession: TypeAlias = Callable[
    [
        StoreEntry,
        tuple[Lent, ...],
        tuple[JsonObject, ...],
        str | os.PathLike[str] | None,
        Sequence[str | os.PathLike[str]] | None,
    ],
    AbstractAsyncContextManager[Session],
]
"""What `reopen_session` is, with the runtime's own settings filled in: takes what is stored, tools
beside the runtime's, MCP servers, and a folder and roots in the place of the stored ones."""


class AgentInfo(Struct, frozen=True, kw_only=True):
    """An agent that sessions can be opened with. `available`: its program is installed."""

    name: str
    title: str = ""
    available: bool = True
    unasked_modes: tuple[str, ...] = ()
    """Modes in which it does not ask for everything; `*` stands for all of its modes."""


class Source(Struct, frozen=True):
    """Where a runtime's sessions come from."""

    open: OpenSession
    agents: Callable[[], list[AgentInfo]]
    reopen: ReopenSession | None = None
    """There is one if there is a store."""


class Runtime:
    """Many sessions. Made by `open_runtime`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        source: Source,
        limits: Limits,
        store: Store | None = None,
        stored: Iterable[StoreEntry] = (),
        answers: Iterable[Answer] = (),
        chats: Mapping[str, str] | None = None,
    ) -> None:
        """`stored`, `answers`, `chats`: what the store has of sessions, of answers to clients, and
        of their names for sessions."""
        self.limits = limits
        """Those of the runtime itself and, if they were given, of each session."""
        self.store = store
        """Where its sessions are kept, if they are."""
        self.chats = dict(chats or {})
        """The sessions that clients of an earlier process have names for."""
        self.answers: dict[str, list[Answer]] = {}
        """What an earlier process has answered, by client."""
        for answer in answers:
            self.answers.setdefault(answer.client, []).append(answer)
        self._nursery = nursery
        self._source = source
        self._register = Register(limits.sessions, stored, has_store=store is not None)
        self._hosts: Mapping[str, Hosted] = self._register.hosts
        self._stored: Mapping[str, StoreEntry] = self._register.stored
        self._loading: dict[tuple[str, str], trio.Event] = {}
        self.tenant: Tenant | None = None
        """Whose sessions alone are seen and opened by this object; None: all are."""

    def of(self, tenant: Tenant) -> Runtime:
        """The same runtime, as far as it is a tenant's: its sessions alone are there, and what is
        opened is its own. What the tenant may have counts from now on, in all of the runtime."""
        own = copy(self)
        own._hosts = Own(self._register.hosts, tenant.name)
        own._stored = Own(self._register.stored, tenant.name)
        own.know(tenant)
        return own

    def know(self, tenant: Tenant) -> None:
        """The tenant whose sessions are seen may have this from now on."""
        self.tenant = tenant
        self._register.know(tenant)
        if self.store is not None:
            self.store.rooms[tenant.name] = tenant.sessions

    # --- what there is

    def _host(self, id: str) -> Hosted:
        host = self._hosts.get(id)
        if host is None:
            raise SessionNotFound(f"no session {id!r} is open")
        return host

    def get(self, id: str) -> Session:
        """The session of that id. Raises `SessionNotFound`."""
        return self._host(id).session

    def agents(self) -> list[AgentInfo]:
        """The agents that sessions can be opened with, as far as they are known by name."""
        return self._source.agents()

    def list_open(self) -> list[SessionInfo]:
        """The sessions that are open, in the order of their start."""
        return [host.info() for host in self._hosts.values()]

    def list_stored(self) -> list[SessionInfo]:
        """Those of the store that are not open, the newest last."""
        return [stored_info(entry) for entry in self._stored.values()]

    def list(self) -> list[SessionInfo]:
        """All sessions: those of the store that are not open, the newest last, and then the open
        ones in the order of their start."""
        return self.list_stored() + self.list_open()

    def stored(self, id: str) -> SessionInfo | None:
        """The session of that id, if the store has it and it is not open."""
        entry = self._stored.get(id)
        return None if entry is None else stored_info(entry)

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called after a session has come or gone; returns the function that ends
        it. `changed` must not block or raise."""
        return self._register.listen(changed)

    def show(self, looked_at: Callable[[str], float]) -> Callable[[], None]:
        """Sessions are shown somewhere: `looked_at` says when one was looked at last, by Trio's
        clock (infinity: it is just now). Returns the function that ends it. One that nobody looks
        at is not kept in memory for ever (`limits.unload`)."""
        return self._register.show(looked_at)

    # --- coming and going

    async def create(
        self,
        agent: str | Agent,
        *,
        title: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Open a session, and return it when it takes prompts. `options` are those of
        `open_session`: `tools` are added to the runtime's; `permissions`, `limits` and `env` take
        the place of the runtime's.

        A store does not keep functions, policies, limits or an environment. A session that was
        given any stays in memory; when a viewer opens it again after its end, it has the runtime's.

        Raises `LimitExceeded`, and what `open_session` raises; `LocalProtocolError` if a session
        here has the conversation to `resume` already (see `load`). Cancelling it ends what was
        started.
        """
        check("title", title, str | None, "a title is a string")
        resume = options.get("resume")
        if resume is None or options.get("fork"):
            session = await self._open(agent, options)
        else:
            async with self._resuming(agent, resume) as here:
                if here is not None:
                    raise LocalProtocolError(
                        f"the session {here.id!r} has the conversation {resume!r} open: two"
                        " processes would overwrite each other's words (`load` gives that session)"
                    )
                session = await self._open(agent, options)
        if title is not None:
            session.rename(title)
        return session

    def adopt(self, session: Session) -> Callable[[], None]:
        """Show a session that this program has opened itself, with `open_session`: it is listed,
        found by its id, and served to viewers as the others, until it ends or the function that
        this returns is called.

        It stays its block's: that alone closes it (`close`, and a viewer's wish to close it, are
        refused), and the runtime neither suspends nor ends its process. All else that viewers may
        do, they may do here: prompt, cancel, answer what it asks if its policy leaves that open
        (`permissions=agentrt.ask`), change its settings. Ending the runtime leaves it as it is.

        With a store, open it with `journal=` the same one: then it is in the store's list after its
        end. One without a journal is gone then.

        Raises `SessionClosed`, `LimitExceeded`, or `LocalProtocolError` if the runtime has it
        already, another store keeps it, or it is not the tenant's (`of`).
        """
        if not isinstance(session, Session):
            raise TypeError(f"adopt takes a Session, not {type(session).__name__}")
        inside = host_of(session)
        if inside.closed.is_set() or session.state.phase == "closed":
            raise SessionClosed("the session has ended: there is nothing to show")
        if session.id in self._register.hosts:
            raise LocalProtocolError(f"the session {session.id!r} is shown already")
        if inside.keeper is not None and not inside.keeper.kept_by(self.store):
            raise LocalProtocolError(
                "another store keeps the session: give it `journal=` the runtime's, or none"
            )
        opening = inside.core.opening
        if self.tenant is not None and opening.tenant != self.tenant.name:
            name = self.tenant.name
            raise LocalProtocolError(
                f"the session is not {name}'s, who could not see it: open it with tenant={name!r}"
            )
        self._register.check_room(opening.tenant)
        about = (self._register, session.agent.name, opening.cwd)
        host = Host(*about, whole=False, tenant=opening.tenant)
        self._nursery.start_soon(host.follow, session)
        return host.adopted(session)

    async def load(
        self,
        agent: str | Agent,
        agent_session: str,
        *,
        cwd: str | os.PathLike[str] = ".",
        tools: Tools = (),
        model: str | None = None,
        mode: str | None = None,
    ) -> Session:
        """Resume a conversation by the agent's own id of it. If a session here has it already, that
        one is returned as it is: two processes on one conversation would overwrite each other's
        words. If the store has a session with it, that one is opened.

        As `create`; also raises `SessionNotFound`.
        """
        from .._agents import name_of

        async with self._resuming(agent, agent_session) as here:
            if here is not None:
                return here
            name = name_of(agent)
            for entry in self._stored.values():
                if (entry.agent, entry.agent_session) == (name, agent_session):
                    return await self.reopen(entry.session, tools=tools)
            return await self._open(
                agent,
                {"cwd": cwd, "tools": tools, "model": model, "mode": mode, "resume": agent_session},
            )

    @asynccontextmanager
    async def _resuming(
        self, agent: str | Agent, agent_session: str
    ) -> AsyncIterator[Session | None]:
        """Nobody else resumes that conversation meanwhile; gives the session that has it open."""
        from .._agents import name_of

        await trio.lowlevel.checkpoint()
        key = (name_of(agent), agent_session)
        while (loading := self._loading.get(key)) is not None:
            await loading.wait()
        self._loading[key] = trio.Event()
        try:
            for host in self._hosts.values():
                if (host.agent, host.session.agent_session) == key:
                    yield host.session
                    return
            yield None
        finally:
            self._loading.pop(key).set()

    async def fork(
        self,
        id: str,
        *,
        at: str | None = None,
        tools: Tools = (),
        mcp_servers: Sequence[JsonObject] = (),
        roots: Sequence[str | os.PathLike[str]] | None = None,
    ) -> Session:
        """Another session with the same agent, in the same folders and with the same model, mode
        and options, that begins with all that was said in this one, which stays as it is. `at`: the
        id of a turn or of an item; with what was said up to the end of that turn.

        It gets the agent, the functions, the environment and the policy that this one was opened
        with, also by this program's own `open_session`. `tools` are added, in the place of those
        that viewers lent to this one; `mcp_servers`, where there are any, and `roots`, where they
        are said, are in the place of its own. What of it is shown is what the agent repeats or, if
        it repeats nothing, the last `limits.snapshot_items` items of that.

        Raises `SessionNotFound`; `Busy` while a turn runs, without `at`; `LocalProtocolError` if
        nothing was said yet, there is no such turn or it is not over, or the agent cannot
        (`session.capabilities` has `fork`, and `fork_at` for the latter); and as `create`.
        """
        host = self._hosts.get(id)
        opening: About | Opening
        if host is None:
            entry = self._stored.get(id)
            if entry is None or self.store is None:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            opening = (await self.store.load(id, last=1)).about
            agent, cwd, known = entry.agent, entry.cwd, entry.agent_session
        else:
            session = host.session
            if at is None and session.state.turn is not None:
                raise Busy("a turn runs: fork the session when it is over, or at an earlier turn")
            for capability in ("fork",) if at is None else ("fork", "fork_at"):
                check_forks(host.agent, session.capabilities, capability)
            opening = host_of(session).core.opening
            agent, cwd, known = host.agent, host.info().cwd, session.agent_session
            if not session.snapshot().items:
                known = None
        if known is None:
            raise LocalProtocolError("nothing was said in the session that could be forked")
        options: SessionOptions = {
            "cwd": cwd,
            "roots": opening.roots if roots is None else roots,
            "tools": tools,
            "resume": known,
            "fork": True,
            "model": opening.model,
            "mode": opening.mode,
            "options": opening.options,
            "tenant": opening.tenant,
        }
        if mcp_servers:
            options["mcp_servers"] = mcp_servers
        log = await self.read(id)
        if at is not None:
            if self.store is not None:
                from .resting import look_back

                await look_back(self.store, log, None, None, self.limits)
            options["fork_at"] = fork_point(log.state, at)
        said = shown_until(log.state, at)[-self.limits.snapshot_items :]
        like = host_of(host.session).like if host is not None else None
        if host is None or like is None:
            fork = await self.create(agent, **options)
        else:
            fork = await self._open_like(like, host, options)
        inside = host_of(fork)
        if not inside.log.state.items:
            inside.core.repeat(said)
            await inside.wait_until_stored()  # nothing is shown before that
        return fork

    async def reopen(
        self,
        id: str,
        *,
        tools: Tools = (),
        mcp_servers: Sequence[JsonObject] = (),
        cwd: str | os.PathLike[str] | None = None,
        roots: Sequence[str | os.PathLike[str]] | None = None,
    ) -> Session:
        """The session of that id; one that is only stored is opened, once for all who ask. No agent
        is started: the next prompt does that, with these `mcp_servers`, which a store does not
        keep. `cwd` and `roots`, where they are given, replace those of a session that is only
        stored: one whose folder has moved continues in another one. `tools` are added to the
        runtime's.

        Raises `SessionNotFound`, `LimitExceeded`, and as `reopen_session` `AgentNotFound`,
        `StoreError`, or `LocalProtocolError` if its folder is gone.
        """
        lent, servers = checked_lent(tools), tuple(mcp_servers)
        await self._register.left(id)
        async with self._register.alone(id):
            host = self._hosts.get(id)
            if host is not None:
                return host.session
            entry = self._stored.get(id)
            if entry is None or self._source.reopen is None:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            self._register.check_room(entry.tenant)
            whole = _are_clients(lent) and not mcp_servers
            about = (self._register, entry.agent, entry.cwd if cwd is None else os.fspath(cwd))
            host = Host(*about, whole=whole, created=entry.created, tenant=entry.tenant)
            return await self._start(host, self._source.reopen(entry, lent, servers, cwd, roots))

    async def read(self, id: str, *, whole: bool = True) -> Log:
        """What there is to see of a session, also of one that is only stored, which is not opened
        by that. What was open in it when its process ended is closed.

        `whole=False`: of one that is only stored, no more than its last turns (`limits.
        snapshot_turns`), which is as fast however long it is.

        Raises `SessionNotFound` or `StoreError`.
        """
        async with self._register.alone(id):
            host = self._hosts.get(id)
            if host is not None:
                return host.session.log
            if self.store is None or id not in self._stored:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            from .resting import look_back, resting_log

            log = await resting_log(self.store, id, self.limits)
            if whole:
                await look_back(self.store, log, None, None, self.limits)
            return log

    async def follow(self, id: str, over: Callable[[], None]) -> tuple[Log, Callable[[], None]]:
        """As `read` of one that is not open, with its last turns; and the function that ends it.
        Where other servers share the store, it goes on with what happens there. `over` is called
        when that cannot be any more: it was deleted, say."""
        store = self.store
        if store is None or store.port is None or id in self._hosts:
            return await self.read(id, whole=False), lambda: None
        if self.tenant is not None and id not in self._stored:
            raise SessionNotFound(f"no session {id!r} is open or stored")
        async with self._register.alone(id):
            from .sharing import followed_log

            return await followed_log(store, store.port, id, self.limits, over)

    @property
    def role(self) -> str:
        """Of a server that shares a store: `both`, `gateway` or `worker`."""
        membership = None if self.store is None else self.store.membership
        return "both" if membership is None else membership.process.role

    def is_open(self, id: str) -> bool:
        """Whether a session is open here, and not over."""
        host = self._hosts.get(id)
        return host is not None and not host.is_leaving

    @property
    def is_shared(self) -> bool:
        """Whether other servers share the store."""
        return self.store is not None and self.store.port is not None

    async def find(self, id: str) -> bool:
        """Whether there is such a session, also if another server has just opened it. The end of
        one that is over is waited for. Raises `StoreError`."""
        await self._register.left(id)
        await trio.lowlevel.checkpoint()
        if id in self._hosts or id in self._stored:
            return True
        port = None if self.store is None else self.store.port
        entry = None if port is None else await port.entry(id)
        if entry is not None:
            self._register.add_stored(entry)
        return id in self._hosts or id in self._stored

    def runs_here(self, home: str = "") -> bool:
        """Whether a session of that home (`""`: of any) may be opened here now."""
        membership = None if self.store is None else self.store.membership
        if membership is None or membership.held() is None or not self._register.room:
            return membership is None
        return home in ("", membership.process.home)

    def add_stored(self, entry: StoreEntry) -> None:
        """The store has another session: somebody has put it there."""
        self._register.add_stored(entry)

    async def delete(self, id: str) -> int:
        """Forget a session of the store; one that is open is closed. Returns the number of waiting
        prompts that were dropped by closing it. Raises `SessionNotFound` or `StoreError`."""
        dropped = await self.close(id) if id in self._hosts else 0
        async with self._register.alone(id):
            if self.store is None or id not in self._stored:
                raise SessionNotFound(f"no session {id!r} is stored")
            await self.store.delete(id)
            self._register.remove_stored(id)
        return dropped

    async def _open(self, agent: str | Agent, options: SessionOptions) -> Session:
        tenant = options.get("tenant", "") if self.tenant is None else self.tenant.name
        self._register.check_room(tenant)
        from .._agents import name_of

        options = options.copy()
        if tenant:
            options["tenant"] = tenant
        tools = options["tools"] = checked_lent(options.get("tools", ()))
        if "journal" in options:
            raise TypeError("journal: a runtime has one store, that of open_runtime(store=…)")
        check("options", options.get("options"), Mapping | None, "a dict")
        check("cwd", options.get("cwd", "."), str | os.PathLike, "a string or a path")
        kept = all(name in STORED or value == () for name, value in options.items())
        secret = not set(SECRET).isdisjoint(options.get("options") or ())
        whole = isinstance(agent, str) and _are_clients(tools) and kept and not secret
        about = (self._register, name_of(agent), options.get("cwd", "."))
        host = Host(*about, whole=whole, tenant=tenant)
        return await self._start(host, self._source.open(agent, **options))

    async def _open_like(
        self,
        like: partial[AbstractAsyncContextManager[Session]],
        first: Hosted,
        options: SessionOptions,
    ) -> Session:
        """Another session as `first` was opened, but for these."""
        self._register.check_room(first.tenant)
        tools = checked_lent(options.get("tools", ()))
        own = [tool for tool in like.keywords["tools"] if not isinstance(tool, ClientTool)]
        names = {tool.name for tool in tools}
        options["tools"] = (*(each for each in own if each.name not in names), *tools)
        host = Host(
            self._register,
            first.agent,
            options.get("cwd", "."),
            whole=first.is_whole and _are_clients(tools) and not options.get("mcp_servers"),
            tenant=first.tenant,
        )
        return await self._start(host, like(**options, journal=self.store))

    async def _start(self, host: Host, opening: AbstractAsyncContextManager[Session]) -> Session:
        with self._register.starting(host):
            session: Session = await self._nursery.start(host.run, opening)
            return session

    async def close(self, id: str) -> int:
        """Close a session: its turn is cancelled, its process ended, the prompts that wait are
        dropped, and its id is forgotten, unless it is stored. Bounded. Returns the number of
        prompts that were dropped.

        Raises `SessionNotFound`, or `LocalProtocolError` for one that was adopted: its own block
        ends it. Cancelling it does not keep the session from ending.
        """
        return await self._host(id).close()

    def rename(self, id: str, title: str) -> None:
        """Give a session a title. Raises `SessionNotFound`."""
        self.get(id).rename(title)

    def cancel_all(self) -> int:
        """Cancel every running turn, as `Session.cancel` does, and return how many there were."""
        sessions = [host.session for host in self._hosts.values()]
        running = sum(session.state.turn is not None for session in sessions)
        for session in sessions:
            session.cancel()
        return running

    def hindrance(self) -> str | None:
        """Why no new session should be opened here now: the store cannot be written or does not
        answer, or this process is being drained. None: nothing speaks against it."""
        if self._register.draining or self._register.closed:
            return "draining"
        if self.store is None:
            return None
        if self.store.status.state == "failing":
            return "the store cannot be written"
        if not self.store.owns():
            return "no lease of the store"
        if self.store.membership is not None and self.store.membership.unanswered:
            return "the database does not answer"
        return None

    async def drain(self) -> None:
        """Open no session any more, and return when all that are open are at rest and closed. Each
        has `limits.drain` seconds for what it has begun. Those that were adopted stay."""
        await trio.lowlevel.checkpoint()
        self._register.draining = True
        async with trio.open_nursery() as nursery:
            for host in list(self._hosts.values()):
                nursery.start_soon(self._drain, host)

    async def _drain(self, host: Hosted) -> None:
        await wait_for_rest(host_of(host.session))
        with suppress(LocalProtocolError):  # adopted
            await host.end()

    def start_soon(self, job: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run something for as long as the runtime's block lasts. What it raises ends the block."""
        self._nursery.start_soon(job, *args)


def _are_clients(tools: Iterable[Lent]) -> bool:
    """Whether no tool is a function of this program, which a store does not keep."""
    return all(isinstance(tool, ClientTool) for tool in tools)


@asynccontextmanager
async def open_runtime(
    *,
    config: Config | None = None,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Tools = (),
    env: Mapping[str, str] | None = None,
    trusted: Trusted = False,
    store: Store | str | os.PathLike[str] | None = None,
    telemetry: Telemetries | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> AsyncIterator[Runtime]:
    """A runtime, in which sessions are created, found and closed by their ids.

    - `config`: the user's settings, as `agentrt`'s commands read them: further agents, and limits.
    - `permissions`: who answers the agents' requests; by default they are left to the viewers.
    - `limits`: those of the runtime and of each session; by default each agent's own.
    - `tools`: what every agent may call; as in `open_session`.
    - `env`: the agents' whole environment; default: as in `open_session`.
    - `trusted`: as in `open_session`, for every session; the folders that `config` lists are
      trusted as well.
    - `store`: where the sessions are kept: what `open_store` gives, to be left behind the runtime,
      or what it takes, a file or a URL. Those that it has already are listed, and opened when they
      are wanted (`reopen`).
    - `telemetry`: as in `open_session`, of all sessions.
    - `trace`: a file for what goes over the wire of all its sessions; as in `open_session`.

    Leaving the block ends every session at once, in bounded time.
    """
    check_trio("open_runtime")
    # The catalogue and the drivers cost as much to import as all the rest.
    from .._agents import find_agents, resolve_agent, resolve_stored_agent
    from .._process.guard import guard
    from .assembly import limits_for
    from .project_start import checked_trusted

    if permissions is not None:
        check_policy(permissions)
    check_limits(limits)
    check_env(env)
    check_trace(trace)
    trusted = checked_trusted(trusted)
    if config is not None and trusted is not True:
        trusted = (*(trusted or ()), *config.trusted)
    if not isinstance(store, str | os.PathLike):
        check_store("store", store, "a file, a URL, or what agentrt.open_store gives")

    traced: Trace | None = None

    def limits_of(agent: Agent) -> Limits:
        bounds = limits_for(agent, limits)
        return bounds if limits is not None or config is None else config.bound(bounds)

    def open(
        agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]:
        found = resolve_agent(agent, config)
        usual: SessionOptions = {
            "permissions": permissions,
            "limits": limits_of(found),
            "env": env,
            "trusted": trusted,
            "telemetry": telemetry,
            "trace": traced,
        }
        given: SessionOptions = {**usual, **options}
        given["tools"] = (*common, *checked_lent(options.get("tools", ())))
        return open_session(found, journal=kept, **given)

    def reopen(
        entry: StoreEntry,
        tools: tuple[Lent, ...],
        mcp_servers: tuple[JsonObject, ...],
        cwd: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> AbstractAsyncContextManager[Session]:
        assert kept is not None
        found = resolve_stored_agent(entry.agent, config)
        return reopen_session(
            entry.session,
            kept,
            agent=found,
            tools=(*common, *tools),
            mcp_servers=mcp_servers,
            cwd=cwd,
            roots=roots,
            permissions=permissions,
            limits=limits_of(found),
            env=env,
            trusted=trusted,
            telemetry=telemetry,
            trace=traced,
        )

    def agents() -> list[AgentInfo]:
        return [
            AgentInfo(
                name=f.agent.name,
                title=f.agent.title,
                available=f.available,
                unasked_modes=f.agent.quirks.unasked_modes,
            )
            for f in find_agents(config)
        ]

    kept: Store | None
    common = checked_lent(tools)
    bounds = limits or Limits()
    if limits is None and config is not None:
        bounds = config.bound(bounds)
    source = Source(open, agents, reopen)
    async with AsyncExitStack() as stack:
        if isinstance(store, str | os.PathLike):
            from .._journal.store import open_store

            kept = await stack.enter_async_context(open_store(store, limits=bounds))
        else:
            kept = store
        if telemetry is not None:
            from .._telemetry.observation import as_one

            observed = as_one(telemetry)
            if kept is not None:
                observed.keeps(kept)
        if trace is not None:
            from .._trace.trace import opened

            traced = await stack.enter_async_context(opened(trace))
        await stack.enter_async_context(guard())
        yield await stack.enter_async_context(serve_runtime(source, bounds, kept))


@asynccontextmanager
async def serve_runtime(
    source: Source, limits: Limits, store: Store | None = None
) -> AsyncIterator[Runtime]:
    """A runtime of sessions from anywhere."""
    stored = [] if store is None else await store.sessions()
    stored.reverse()
    answers = [] if store is None else await store.answers()
    chats = {} if store is None else await store.chats()
    async with bare_errors(), trio.open_nursery() as nursery:
        runtime = Runtime(nursery, source, limits, store, stored, answers, chats)
        if store is not None and store.membership is not None:
            from .sharing import keep_up

            assert store.port is not None
            runtime._register.runs = store.membership.process.role != "gateway"
            keep = (runtime._register, store, store.membership, store.port, limits)
            nursery.start_soon(keep_up, *keep)
        if store is not None:
            nursery.start_soon(give_back, runtime._register)
        try:
            yield runtime
        finally:
            runtime._register.closed = True
            nursery.cancel_scope.cancel()
