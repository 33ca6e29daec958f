"""Many sessions in one process, each hosted by its own task that cannot delay or break others.

`Runtime` is the public object; `RuntimeHost` adds the methods that servers need, and is the class
of every runtime that `open_runtime` yields. A `Runtime` for one tenant (`Runtime.of`) is a shallow
copy: it shares the register, the store and the nursery with the original, but looks sessions up
through views that hide those of other tenants.

The runtime itself keeps few facts. `SessionRegistry` has the open and the stored sessions and the
limits on their number. `Source` has the functions that open a session with the runtime's settings;
a program's tests can run a runtime on a `Source` of their own (`serve_runtime`). `StoreService`
does everything about the store.

Each open session runs in a task of `_nursery` (`Host.run`), inside the session's own `async with`
block. An error of one session ends only that task. Leaving the runtime's block cancels the nursery;
each session then closes itself in bounded time.

A session that is only stored has no task. `reopen` creates one, without starting an agent; `read`
returns its log without one. `SessionRegistry.alone` makes these operations exclusive for each id,
so that two callers cannot open a session twice.
"""

from __future__ import annotations

import os
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, Unpack

import trio
from msgspec import Struct, field

from ..._base.nesting import bare_errors
from ..agents.agent import AgentInfo
from ..errors import AgentrtError, Busy, LocalProtocolError, SessionClosed, SessionNotFound
from ..limits import Limits, Tenant
from ..model.content import JsonObject, check_characters
from ..model.driver import Opening
from ..model.fork_point import check_forks, fork_point, shown_until
from ..model.log import Log
from ..permissions.policies import Policy, ask, check_policy
from ..session.budget import Budget, budget_from
from ..session.interfaces import ViewerAction
from ..session.questions import PROGRAM, current_origin
from ..session.rate_limits import WaitForLimits
from ..session.session import Session, host_of
from ..store.base import CommandAnswer, SessionDescription, StoreEntry
from ..tools.client_tools import ClientTool
from ..tools.extensions import checked_tools_and_servers
from ..tools.tools import Provided, Tools
from ..trio_task import check_trio
from .host import Host
from .memory import return_free_memory
from .open import open_resolved, reopen_session, wait_for_rest
from .options import (
    ReopenOptions,
    SessionOptions,
    check,
    check_env,
    check_limits,
    check_names,
    check_store,
    check_trace,
    checked_budgets,
    checked_wait,
)
from .registry import HostedSession, SessionInfo, SessionRegistry, TenantView, stored_info
from .stored import SECRET

if TYPE_CHECKING:
    from ..agents import Agent
    from ..agents.projects import TrustMode
    from ..config import Config
    from ..sandbox.policy import Sandbox, SandboxLike
    from ..store.service import StoreService
    from ..store.shared import Cluster, StoreMembership
    from ..store.store import Store
    from ..telemetry.observation import Telemetries, Telemetry
    from ..trace.trace import Trace
    from .project_start import Trusted

STORED: Final = frozenset(
    {
        "cwd",
        "roots",
        "tools",
        "resume",
        "fork",
        "fork_at",
        "model",
        "mode",
        "options",
        "tenant",
        "sandbox",
    }
)
"""The fields of `SessionOptions` that a store saves; of `tools`, only those that clients run."""


class OpenSession(Protocol):
    """The signature of `open_session` with the runtime's own settings already applied."""

    def __call__(
        self, agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]: ...


ReopenSession: TypeAlias = Callable[
    [
        StoreEntry,
        tuple[Provided, ...],
        tuple[JsonObject, ...],
        str | os.PathLike[str] | None,
        Sequence[str | os.PathLike[str]] | None,
    ],
    AbstractAsyncContextManager[Session],
]
"""The signature of `reopen_session` with the runtime's own settings already applied.

Takes the stored entry, tools in addition to the runtime's, MCP servers, and a folder and roots that
replace the stored ones.
"""


class Source(Struct, frozen=True):
    """The functions that open the sessions of a runtime."""

    open: OpenSession
    agents: Callable[[], list[AgentInfo]]
    reopen: ReopenSession | None = None
    """Set if there is a store."""
    tenant_budgets: dict[str, Budget] = field(default_factory=dict)
    """The budgets of tenants, by name; `open` and `reopen` use them."""
    trust: TrustMode = "no"
    """The decision about the files of projects, if a session is opened without one."""
    sandbox: Sandbox | None = None
    """The sandbox of a session that is opened without one."""
    telemetry: Telemetry | None = None
    """The telemetry of all sessions."""


class Runtime:
    """Many sessions in one process. Created by `open_runtime`."""

    limits: Limits
    """Limits of the runtime itself and, if they were given, of each session."""
    tenant: Tenant | None
    """The tenant to which this object is restricted. None: all sessions are visible."""
    _nursery: trio.Nursery
    _source: Source
    _store: StoreService | None
    _register: SessionRegistry
    _hosts: Mapping[str, HostedSession]
    _stored: dict[str, StoreEntry] | TenantView[StoreEntry]
    _loading: dict[tuple[str, str], trio.Event]

    def __init__(self) -> None:
        raise TypeError("a runtime is opened by agentrt.open_runtime")

    def of(self, tenant: Tenant) -> Runtime:
        """Return a view of the runtime that is restricted to one tenant.

        It sees only the tenant's sessions, and opens sessions for the tenant. The tenant's limits
        apply from now on in the whole runtime.
        """
        own = copy(self)
        own._hosts = TenantView(self._register.hosts, tenant.name)
        own._stored = TenantView(self._register.stored, tenant.name)
        own._set_tenant_limits(tenant)
        return own

    def _set_tenant_limits(self, tenant: Tenant) -> None:
        """Apply a tenant's limits to the whole runtime, and to this view of it.

        A budget that the tenant has already is kept, with the amount that was spent, because
        clients of one tenant come and go.
        """
        self.tenant = tenant
        self._register.set_tenant_limits(tenant)
        budget = budget_from(tenant.budget)
        if budget is not None:  # what was spent stays spent
            self._source.tenant_budgets.setdefault(tenant.name, budget)
        if self._store is not None:
            self._store.tenant_quotas[tenant.name] = tenant.sessions

    # --- lookup

    @property
    def trust(self) -> TrustMode:
        """The decision about the files of projects, if a session is opened without one."""
        return self._source.trust

    def client_sandbox(self, settings: JsonObject | None) -> Sandbox | None:
        """Return the sandbox of a session that a client opens with settings of its own.

        `settings`: as in the table `[sandbox]` of the configuration. The others are those of the
        runtime's sandbox; what it hides, denies and limits applies as well. None: that sandbox.

        Raises `LocalProtocolError` if they permit more than the runtime's sandbox.
        """
        if settings is None:
            return self._source.sandbox
        from ..sandbox.policy import client_sandbox

        return client_sandbox(self._source.sandbox, settings)

    def _host(self, id: str) -> HostedSession:
        """Return the entry of an open session that this view may see. Raises `SessionNotFound`."""
        host = self._hosts.get(id)
        if host is None:
            raise SessionNotFound(f"no session {id!r} is open")
        return host

    def get(self, id: str) -> Session:
        """Return the open session with this id. Raises `SessionNotFound`."""
        return self._host(id).session

    def agents(self) -> list[AgentInfo]:
        """Return the known agents for which sessions can be opened."""
        return self._source.agents()

    def list_open(self) -> list[SessionInfo]:
        """Return the open sessions, in the order in which they were started."""
        return [host.info() for host in self._hosts.values()]

    def list_stored(self) -> list[SessionInfo]:
        """Return the stored sessions that are not open, newest last."""
        return [stored_info(entry) for entry in self._stored.values()]

    def list(self) -> list[SessionInfo]:
        """Return all sessions: the stored ones that are not open, newest last, then the open ones
        in the order in which they were started.
        """
        return self.list_stored() + self.list_open()

    def stored(self, id: str) -> SessionInfo | None:
        """Return the stored session with this id, or None if it is unknown or open."""
        entry = self._stored.get(id)
        return None if entry is None else stored_info(entry)

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever a session is added or removed.

        Returns a function that stops this. `changed` must not block or raise.
        """
        return self._register.listen(changed)

    # --- opening and closing

    async def create(
        self,
        agent: str | Agent,
        *,
        title: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Open a session, and return it when it accepts prompts.

        `options` are those of `open_session`. `tools` are added to the runtime's tools;
        `permissions`, `limits` and `env` replace those of the runtime.

        A store does not save functions, policies, limits or an environment. A session with any of
        these stays in memory; when a viewer opens it again after its end, it gets those of the
        runtime.

        Raises `LimitExceeded`, the errors of `open_session`, and `LocalProtocolError` if an open
        session already has the conversation to `resume` (see `load`). Cancelling this ends anything
        it started.
        """
        check("title", title, str | None, "a string")
        check_characters(title or "", "a title")
        resume = options.get("resume")
        if resume is None or options.get("fork"):
            session = await self._open(agent, options)
        else:
            async with self._resuming(agent, resume) as here:
                if here is not None:
                    raise LocalProtocolError(
                        f"the session {here.id!r} has the conversation {resume!r} open: two"
                        " processes would overwrite each other's messages (`load` returns"
                        " that session)"
                    )
                session = await self._open(agent, options)
        if title is not None:
            session.rename(title)
        return session

    def adopt(self, session: Session) -> Callable[[], None]:
        """Add a session that this program has opened with `open_session`.

        It is listed, found by its id and served to viewers like the others, until it ends or the
        returned function is called.

        The session still belongs to its own block: only that block closes it (`close`, also by a
        viewer, is refused), and the runtime neither suspends it nor ends its process. Viewers may
        do everything else: prompt, cancel, change settings, and answer permission requests if its
        policy allows that (`permissions=agentrt.ask`). Ending the runtime does not affect the
        session.

        If the runtime has a store, open the session with the same one as `store`: then it stays
        in the store's list after its end. A session without a store disappears from the list.

        Raises `SessionClosed`, `LimitExceeded`, or `LocalProtocolError` if the runtime already has
        the session, another store saves it, or it belongs to another tenant (see `of`).
        """
        if not isinstance(session, Session):
            raise TypeError(f"adopt takes a Session, not {type(session).__name__}")
        inside = host_of(session)
        if inside.closed.is_set() or session.state.phase == "closed":
            raise SessionClosed("the session has ended: there is nothing to show")
        if session.id in self._register.hosts:
            raise LocalProtocolError(f"the session {session.id!r} is shown already")
        if inside.keeper is not None and not inside.keeper.stores_in(self._store):
            raise LocalProtocolError(
                "another store keeps the session: give it `store=` the runtime's, or none"
            )
        opening = inside.core.opening
        if self.tenant is not None and opening.tenant != self.tenant.name:
            name = self.tenant.name
            raise LocalProtocolError(
                f"tenant {name!r} could not see the session: open it with tenant={name!r}"
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
        """Resume a conversation by the agent's own id of it.

        If a session here already has it open, returns that session unchanged: two processes would
        overwrite each other's messages. If the store has a session with it, that session is opened.

        Raises `SessionNotFound` and the errors of `create`.
        """
        from ..agents import name_of

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
        """Prevent others from resuming the conversation in the meantime.

        Yields the session that has it open, or None.
        """
        from ..agents import name_of

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
        """Open a copy of a session, with the same agent, folders, model, mode and options.

        The copy begins with the conversation of the original, which does not change. `at` is the id
        of a turn or of an item; the copy then ends after that turn.

        The copy gets the agent, functions, environment and policy of the original, also if this
        program opened that with its own `open_session`. `tools` are added, and replace the tools
        that viewers provided to the original. `mcp_servers`, if not empty, and `roots`, if given,
        replace those of the original. The copy shows the history that the agent repeats or, if it
        repeats nothing, the last `limits.snapshot_items` items of it.

        Raises `SessionNotFound`; `Busy` while a turn runs and `at` is not given;
        `LocalProtocolError` if the conversation is empty, there is no such turn or it is not over,
        or the agent cannot fork (`session.capabilities` has `fork`, and `fork_at` for `at`); and
        the errors of `create`.
        """
        try:
            fork = await self._fork(id, at, tools, mcp_servers, roots)
        except AgentrtError as error:
            self._acted(id, "fork", {} if at is None else {"at": at}, refusal=str(error))
            raise
        with host_of(fork).core.acting("fork", original=id, at=at):
            return fork

    async def _fork(
        self,
        id: str,
        at: str | None,
        tools: Tools,
        mcp_servers: Sequence[JsonObject],
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> Session:
        """Open a copy of a session, as `fork` describes."""
        host = self._hosts.get(id)
        agent, options = (
            await self._copied_stored(id) if host is None else _copied_open(host, at is not None)
        )
        options["tools"] = tools
        if roots is not None:
            options["roots"] = roots
        if mcp_servers:
            options["mcp_servers"] = mcp_servers
        log = await self.read(id)
        if at is not None:
            if self._store is not None:
                from .stored import load_history

                await load_history(self._store, log, None, None, self.limits)
            options["fork_at"] = fork_point(log.state, at)
        said = shown_until(log.state, at)[-self.limits.snapshot_items :]
        fork_factory = host_of(host.session).fork_factory if host is not None else None
        if host is None or fork_factory is None:
            fork = await self.create(agent, **options)
        else:
            fork = await self._open_fork(fork_factory, host, options)
        inside = host_of(fork)
        if not inside.log.state.items:
            inside.core.show_history(said)
            await inside.wait_until_stored()  # nothing is shown before that
        return fork

    async def _copied_stored(self, id: str) -> tuple[str, SessionOptions]:
        """Return the agent of a stored session, and the options that open a copy of it.

        Raises `SessionNotFound`, or `LocalProtocolError` if the conversation is empty.
        """
        entry = self._stored.get(id)
        if entry is None or self._store is None:
            raise SessionNotFound(f"no session {id!r} is open or stored")
        about = (await self._store.load(id, last=1)).about
        return entry.agent, _copied(entry.agent_session, entry.cwd, about)

    async def reopen(
        self,
        id: str,
        *,
        tools: Tools = (),
        mcp_servers: Sequence[JsonObject] = (),
        cwd: str | os.PathLike[str] | None = None,
        roots: Sequence[str | os.PathLike[str]] | None = None,
    ) -> Session:
        """Return the session with this id, and open it if it is only stored.

        Concurrent calls open it once. No agent is started: the next prompt does that, with these
        `mcp_servers`, which a store does not save. `cwd` and `roots`, if given, replace those of a
        session that is only stored: one whose folder has moved continues in another one. `tools`
        are added to those of the runtime.

        Raises `SessionNotFound`, `LimitExceeded`, and, as `reopen_session`, `AgentNotFound`,
        `StoreError`, or `LocalProtocolError` if its folder is missing.
        """
        lent, servers = checked_tools_and_servers(tools), tuple(mcp_servers)
        await self._register.wait_until_removed(id)
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
        """Return the log of a session without opening it.

        In a session that is only stored, anything left open by its process is closed in the log.
        `whole=False` loads only its last turns (`limits.snapshot_turns`), which is fast regardless
        of its length.

        Raises `SessionNotFound` or `StoreError`.
        """
        async with self._register.alone(id):
            host = self._hosts.get(id)
            if host is not None:
                return host.session.log
            if self._store is None or id not in self._stored:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            from .stored import load_closed_log, load_history

            log = await load_closed_log(self._store, id, self.limits)
            if whole:
                await load_history(self._store, log, None, None, self.limits)
            return log

    def is_open(self, id: str) -> bool:
        """Return True if the session is open here and is not ending."""
        host = self._hosts.get(id)
        return host is not None and not host.is_leaving

    async def _find(self, id: str) -> bool:
        """Return True if the session exists, even if another server has just opened it.

        Waits for the end of a session that is being closed. Raises `StoreError`.
        """
        await self._register.wait_until_removed(id)
        await trio.lowlevel.checkpoint()
        if id in self._hosts or id in self._stored:
            return True
        cluster = None if self._store is None else self._store.cluster
        entry = None if cluster is None else await cluster.entry(id)
        if entry is not None:
            self._register.add_stored(entry)
        return id in self._hosts or id in self._stored

    async def delete(self, id: str) -> int:
        """Delete a session from the store; an open one is closed first.

        Returns the number of waiting prompts that were dropped. Raises `SessionNotFound` or
        `StoreError`.
        """
        dropped = 0
        while True:
            if id in self._hosts:
                dropped += await self.close(id)
            async with self._register.alone(id):
                if id in self._hosts:  # it was opened while this waited
                    continue
                # Another server may have just handed it over, so that it is not listed here yet.
                if self._store is None or not await self._find(id):
                    raise SessionNotFound(f"no session {id!r} is stored")
                await self._store.delete(id)
                self._acted(id, "delete", {})
                self._register.remove_stored(id)
                return dropped

    def _acted(self, id: str, name: str, about: JsonObject, refusal: str = "") -> None:
        """Report a change by a viewer that no open session reports. `refusal`: its error."""
        origin = current_origin()
        if self._source.telemetry is None or origin is PROGRAM:
            return
        known = self._hosts.get(id) or self._stored.get(id)
        action = ViewerAction(
            name=name,
            about=about,
            who=origin.who,
            via=origin.via,
            outcome="refused" if refusal else "done",
            reason=refusal,
        )
        self._source.telemetry.acted("" if known is None else known.agent, id, action)

    async def _open(self, agent: str | Agent, options: SessionOptions) -> Session:
        """Check the options of a new session, and start it.

        Everything that can be wrong is reported before the agent is started. A session is
        restorable only if a store can save all of its options: no functions, and no secrets.
        """
        tenant = options.get("tenant", "") if self.tenant is None else self.tenant.name
        self._register.check_room(tenant)
        from ..agents import name_of

        options = options.copy()
        if tenant:
            options["tenant"] = tenant
        check_names("Runtime.create", options, SessionOptions)
        tools = options["tools"] = checked_tools_and_servers(options.get("tools", ()))
        if "store" in options:
            raise TypeError(
                "store: a runtime has one store for all sessions; set it with open_runtime(store=…)"
            )
        check("options", options.get("options"), Mapping | None, 'a dict such as {"max_turns": 5}')
        cwd = options.get("cwd", ".")
        check("cwd", cwd, str | os.PathLike, "a string or a path")
        # A session that is opened again gets the runtime's `trust`.
        kept = all(
            name in STORED or value == () for name, value in options.items() if name != "trust"
        )
        secret = not set(SECRET).isdisjoint(options.get("options") or ())
        whole = isinstance(agent, str) and _are_clients(tools) and kept and not secret
        about = (self._register, name_of(agent), cwd)
        host = Host(*about, whole=whole, tenant=tenant)
        return await self._start(host, self._source.open(agent, **options))

    async def _open_fork(
        self,
        fork_factory: partial[AbstractAsyncContextManager[Session]],
        first: HostedSession,
        options: SessionOptions,
    ) -> Session:
        """Open another session like `first`, with these options changed."""
        self._register.check_room(first.tenant)
        tools = checked_tools_and_servers(options.get("tools", ()))
        own = [tool for tool in fork_factory.keywords["tools"] if not isinstance(tool, ClientTool)]
        names = {tool.name for tool in tools}
        options["tools"] = (*(each for each in own if each.name not in names), *tools)
        host = Host(
            self._register,
            first.agent,
            options.get("cwd", "."),
            whole=first.is_whole
            and _are_clients(tools)
            and not options.get("mcp_servers")
            and not options.get("providers"),
            tenant=first.tenant,
        )
        options["store"] = self._store
        return await self._start(host, fork_factory(**options))

    async def _start(self, host: Host, opening: AbstractAsyncContextManager[Session]) -> Session:
        """Run a session in a task of the runtime, and return it when it accepts prompts.

        Errors of the opening are raised here, not in the task. Cancelling this ends the task.
        """
        with self._register.starting(host):
            session: Session = await self._nursery.start(host.run, opening)
            with host_of(session).core.acting("open", cwd=host.cwd):
                return session

    async def close(self, id: str) -> int:
        """Close a session.

        Its turn is cancelled, its process ended, and its waiting prompts are dropped; its id
        becomes unknown unless it is stored. The changes in its separate working tree, if it has
        one, are brought back; when the runtime ends, they are kept for `reopen`. Takes bounded
        time. Returns the number of dropped prompts.

        Raises `SessionNotFound`, or `LocalProtocolError` for an adopted session, which only its own
        block ends. Cancelling this does not keep the session from ending.
        """
        return await self._host(id).close()

    def rename(self, id: str, title: str) -> None:
        """Set the title of a session. Raises `SessionNotFound`."""
        self.get(id).rename(title)

    def cancel_all(self) -> int:
        """Cancel every running turn, as `Session.cancel` does, and return the number of turns."""
        sessions = [host.session for host in self._hosts.values()]
        running = sum(session.state.turn is not None for session in sessions)
        for session in sessions:
            session.cancel()
        return running

    def not_ready_reason(self) -> str | None:
        """Return the reason why no new session should be opened here now, or None.

        The store cannot be written or does not answer, or this process is being drained.
        """
        if self._register.draining or self._register.closed:
            return "draining"
        if self._store is None:
            return None
        if self._store.status.state == "failing":
            return "the store cannot be written"
        if not self._store.owns():
            return "no lease of the store"
        if self._store.membership is not None and self._store.membership.unanswered:
            return "the database does not answer"
        return None

    async def drain(self) -> None:
        """Stop opening sessions, and return when all open ones are idle and closed.

        Each has `limits.drain_timeout_s` seconds to finish its work. Adopted sessions stay open.
        """
        await trio.lowlevel.checkpoint()
        self._register.draining = True
        async with trio.open_nursery() as nursery:
            for host in list(self._hosts.values()):
                nursery.start_soon(self._drain, host)

    async def _drain(self, host: HostedSession) -> None:
        """Wait for the end of a session's work, then close it, unless another block owns it."""
        await wait_for_rest(host.session)
        with suppress(LocalProtocolError):  # an adopted session
            await host.end()


class RuntimeHost(Runtime):
    """A runtime with the methods that its servers need; see `runtime_host`."""

    chats: dict[str, str]
    """Session names of clients of an earlier process, mapped to the sessions."""
    answers: dict[str, list[CommandAnswer]]
    """Answers of an earlier process, by client."""

    def __init__(self) -> None:
        raise TypeError("the host of a runtime is found by runtime_host")

    @property
    def store(self) -> Store | None:
        """The store that saves the sessions, or None."""
        return self._store

    @property
    def membership(self) -> StoreMembership | None:
        """This process among those that share the store; None if it is not shared."""
        return None if self._store is None else self._store.membership

    @property
    def cluster(self) -> Cluster | None:
        """Access to the sessions of the other servers; None if the store is not shared."""
        return None if self._store is None else self._store.cluster

    @property
    def role(self) -> str:
        """Role of this server among those that share the store: `both`, `gateway` or `worker`."""
        return "both" if self.membership is None else self.membership.process.role

    def set_tenant_limits(self, tenant: Tenant) -> None:
        """Set new limits for the tenant of this view."""
        self._set_tenant_limits(tenant)

    async def follow(self, id: str, over: Callable[[], None]) -> tuple[Log, Callable[[], None]]:
        """Return the log of a closed session with its last turns, and a function that ends
        following it.

        If other servers share the store, the log is updated with the session's events there. `over`
        is called when that is no longer possible, for example because the session was deleted.
        Raises as `read`.
        """
        store = self._store
        if store is None or store.cluster is None or id in self._hosts:
            return await self.read(id, whole=False), lambda: None
        if self.tenant is not None and id not in self._stored:
            raise SessionNotFound(f"no session {id!r} is open or stored")
        async with self._register.alone(id):
            host = self._hosts.get(id)
            if host is not None:  # it was opened while this waited
                return host.session.log, lambda: None
            from .sharing import followed_log

            return await followed_log(store, store.cluster, id, self.limits, over)

    @property
    def is_shared(self) -> bool:
        """True if other servers share the store."""
        return self._store is not None and self._store.cluster is not None

    async def find(self, id: str) -> bool:
        """Return True if the session exists, even if another server has just opened it.

        Waits for the end of a session that is being closed. Raises `StoreError`.
        """
        return await self._find(id)

    def newest_stored(self, before: str | None = None) -> Iterator[SessionInfo]:
        """Iterate over the stored sessions that are not open, the newest first.

        An item costs the same however many there are. `before`: begin with the session before this
        one. Raises `KeyError` if it is not among them. The sessions must not change meanwhile.
        """
        ids = reversed(self._stored)
        if before is not None and before not in ids:  # this reads them up to it
            raise KeyError(before)
        return (stored_info(self._stored[id]) for id in ids)

    def runs_here(self, home: str = "") -> bool:
        """Return True if a session of that home (`""`: any home) may be opened here now."""
        membership = None if self._store is None else self._store.membership
        if membership is None or membership.held() is None or not self._register.room:
            return membership is None
        return home in ("", membership.process.home)

    def show(self, viewed_at: Callable[[str], float]) -> Callable[[], None]:
        """Register a function that reports when a session was last viewed.

        `viewed_at` returns the time of the last view by Trio's clock, infinity while the session is
        being viewed. Returns a function that removes the registration. Sessions without viewers are
        removed from memory after a time (`limits.unload_after_s`).
        """
        return self._register.show(viewed_at)

    def start_soon(self, job: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run an async function until the runtime's block ends. An error raised by it ends the
        block.
        """
        self._nursery.start_soon(job, *args)

    def add_stored(self, entry: StoreEntry) -> None:
        """Add a session that another process has put into the store."""
        self._register.add_stored(entry)

    def listen_to_store(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever the store's status changes. Returns a function that stops this.

        Without a store it is never called.
        """
        return (lambda: None) if self._store is None else self._store.listen(changed)

    def name_chat(self, chat: str, session: str) -> None:
        """Save a client's name for a session, if there is a store. Never waits."""
        if self._store is not None:
            self._store.name_chat(chat, session)

    async def answer(self, client: str, command: str) -> CommandAnswer | None:
        """Return the stored answer to a client's command, or None. Raises `StoreError`."""
        return None if self._store is None else await self._store.answer(client, command)

    async def keep_answer(self, answer: CommandAnswer | None) -> None:
        """Store the answer to a client's command. Raises `StoreError`."""
        if self._store is not None:
            await self._store.keep_answer(answer)

    async def load_history(self, log: Log, before: str | None, turns: int | None) -> None:
        """Load the earlier turns that the log's `history` needs; all of them if `before` is None.

        Raises `SessionNotFound` or `StoreError`.
        """
        if self._store is not None:
            from .stored import load_history

            await load_history(self._store, log, before, turns, self.limits)


def runtime_host(runtime: Runtime) -> RuntimeHost:
    """Return a runtime as its servers use it. Raises `TypeError` for an object of another kind."""
    if not isinstance(runtime, RuntimeHost):
        raise TypeError(f"a Runtime from agentrt.open_runtime is needed, not {runtime!r}")
    return runtime


def _make_runtime(
    nursery: trio.Nursery,
    source: Source,
    limits: Limits,
    store: StoreService | None,
    stored: Iterable[StoreEntry],
    answers: Iterable[CommandAnswer],
    chats: Mapping[str, str],
) -> RuntimeHost:
    """Make a runtime.

    `stored`, `answers`, `chats`: the sessions, the answers to clients, and the clients' session
    names in the store.
    """
    runtime = RuntimeHost.__new__(RuntimeHost)
    runtime.limits = limits
    runtime.tenant = None
    runtime.chats = dict(chats)
    runtime.answers = {}
    for answer in answers:
        runtime.answers.setdefault(answer.client, []).append(answer)
    runtime._nursery = nursery
    runtime._source = source
    runtime._store = store
    runtime._register = SessionRegistry(limits.open_sessions, stored, has_store=store is not None)
    runtime._hosts = runtime._register.hosts
    runtime._stored = runtime._register.stored
    runtime._loading = {}
    return runtime


def _copied_open(host: HostedSession, at_turn: bool) -> tuple[str, SessionOptions]:
    """Return the agent of an open session, and the options that open a copy of it.

    `at_turn`: the copy ends after an earlier turn. Raises `Busy` or `LocalProtocolError`.
    """
    session = host.session
    if not at_turn and session.state.turn is not None:
        raise Busy("a turn is running: fork the session when it has ended, or at an earlier turn")
    for capability in ("fork", "fork_at") if at_turn else ("fork",):
        check_forks(host.agent, session.capabilities, capability)
    resume = session.agent_session if session.log.state.item_ids else None
    return host.agent, _copied(resume, host.info().cwd, host_of(session).core.opening)


def _copied(resume: str | None, cwd: str, opening: SessionDescription | Opening) -> SessionOptions:
    """Return the options that fork the agent's session `resume`."""
    if resume is None:
        raise LocalProtocolError("the session is empty, so it cannot be forked")
    from .sandboxed import stored_sandbox

    options: SessionOptions = {
        "cwd": cwd,
        "roots": opening.roots,
        "resume": resume,
        "fork": True,
        "model": opening.model,
        "mode": opening.mode,
        "options": opening.options,
        "tenant": opening.tenant,
    }
    if isinstance(opening, Opening):
        options["providers"] = opening.providers
    if opening.sandbox is not None:
        options["sandbox"] = stored_sandbox(opening.sandbox)
    return options


def _are_clients(tools: Iterable[Provided]) -> bool:
    """Return True if clients run all tools; a store does not save functions of this program."""
    return all(isinstance(tool, ClientTool) for tool in tools)


def _check_config(config: Config | None) -> None:
    """Raise `TypeError` unless this is a `Config` or None."""
    if config is not None:
        from ..config import Config  # loaded already, if this is one

        check("config", config, Config, "the result of agentrt.config.load_config")


def _usual_sandbox(given: SandboxLike, config: Config | None) -> Sandbox | None:
    """Return the sandbox of sessions that are opened without one."""
    from ..sandbox.policy import as_sandbox

    found = as_sandbox(given)
    return config.sandbox if found is None and config is not None else found


def _usual_trust(
    trust: TrustMode | None, trusted: Trusted, config: Config | None
) -> tuple[TrustMode, Trusted]:
    """Return the trust of sessions that are opened without one."""
    from .project_start import checked_trust, checked_trusted

    folders = checked_trusted(trusted)
    if config is not None:
        trust = trust or config.trust
        folders = (*folders, *config.trusted)
    return checked_trust("no" if trust is None else trust), folders


@asynccontextmanager
async def open_runtime(
    *,
    config: Config | None = None,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Tools = (),
    env: Mapping[str, str] | None = None,
    trust: TrustMode | None = None,
    trusted: Trusted = (),
    sandbox: SandboxLike = None,
    checkpoints: bool = False,
    budget: Budget | Sequence[Budget] | None = None,
    wait: WaitForLimits | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    telemetry: Telemetries | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> AsyncIterator[Runtime]:
    """Open a runtime, in which sessions are created, found and closed by their ids.

    - `config`: the user's settings, as read by the `agentrt` commands: further agents, limits and
      the sandbox.
    - `permissions`: the policy for permission requests; by default the viewers answer them.
    - `limits`: limits of the runtime and of each session; default: those of each agent.
    - `tools`: tools for every agent, as in `open_session`.
    - `env`: the complete environment of the agents; default as in `open_session`.
    - `trust`, `trusted`: as in `open_session`, for every session; default: as in `config`, else
      `"no"`. Folders listed in `config` are also trusted.
    - `sandbox`: as in `open_session`, for every session; the program may give a session another
      one, clients may not.
    - `checkpoints`: as in `open_session`, for every session; also if `config` says so.
    - `budget`: a budget for all turns of all sessions (see `agentrt.budget`).
    - `wait`: as in `open_session`, for every session.
    - `store`: the store for the sessions: the result of `open_store`, which must outlive the
      runtime, or its argument, a file or a URL. Sessions already in it are listed, and opened on
      demand (`reopen`).
    - `telemetry`: as in `open_session`, for all sessions.
    - `trace`: a file for the wire messages of all sessions, as in `open_session`.

    Leaving the block ends every session immediately, in bounded time.
    """
    check_trio("open_runtime")
    _check_config(config)
    # The catalogue and the drivers take as long to import as the rest.
    from ..agents import find_agents, resolve_agent, resolve_stored_agent
    from ..process.guard import guard
    from .protocol_setup import limits_for

    if permissions is not None:
        check_policy(permissions)
    common_budgets = checked_budgets(budget)
    check_limits(limits)
    check_env(env)
    check_trace(trace)
    trust, trusted = _usual_trust(trust, trusted, config)
    usual_sandbox = _usual_sandbox(sandbox, config)
    wait = checked_wait(wait)
    check("checkpoints", checkpoints, bool, "True or False")
    if config is not None:
        checkpoints = checkpoints or config.unattended.checkpoints
    kept: StoreService | None = None
    if not isinstance(store, str | os.PathLike):
        right = "a file, a URL, or a Store from agentrt.store.open_store"
        kept = check_store("store", store, right)

    traced: Trace | None = None

    tenant_budgets: dict[str, Budget] = {}

    def budgets_of(tenant: str) -> tuple[Budget, ...]:
        """Return the budgets that apply to a tenant's session: the runtime's and the tenant's."""
        own = tenant_budgets.get(tenant)
        return common_budgets if own is None else (*common_budgets, own)

    def limits_of(agent: Agent) -> Limits:
        """Return the limits of an agent's sessions, which `config` sets unless the program does."""
        bounds = limits_for(agent, limits)
        return bounds if limits is not None or config is None else config.bound(bounds)

    def open(
        agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]:
        """Open a session with the runtime's settings, except for those given in `options`.

        The tools are added to the runtime's. The store cannot be replaced.
        """
        found = resolve_agent(agent, config)
        usual: SessionOptions = {
            "permissions": permissions,
            "limits": limits_of(found),
            "env": env,
            "trust": trust,
            "trusted": trusted,
            "sandbox": usual_sandbox,
            "checkpoints": checkpoints,
            "wait": wait,
            "budget": budgets_of(options.get("tenant", "")),
            "telemetry": telemetry,
            "trace": traced,
        }
        given: SessionOptions = {**usual, **options}
        given["tools"] = (*common, *checked_tools_and_servers(options.get("tools", ())))
        given["store"] = kept
        return open_resolved(found, given)

    def reopen(
        entry: StoreEntry,
        tools: tuple[Provided, ...],
        mcp_servers: tuple[JsonObject, ...],
        cwd: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] | None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open a stored session with the runtime's settings, which the store does not save."""
        assert kept is not None
        found = resolve_stored_agent(entry.agent, config)
        given: ReopenOptions = {
            "tools": (*common, *tools),
            "mcp_servers": mcp_servers,
            "permissions": permissions,
            "limits": limits_of(found),
            "env": env,
            "trust": trust,
            "trusted": trusted,
            "sandbox": usual_sandbox,
            "checkpoints": checkpoints,
            "wait": wait,
            "budget": budgets_of(entry.tenant),
            "telemetry": telemetry,
            "trace": traced,
        }
        if cwd is not None:
            given["cwd"] = cwd
        if roots is not None:
            given["roots"] = roots
        return reopen_session(entry.session, kept, agent=found, **given)

    def agents() -> list[AgentInfo]:
        """Return the agents known to this runtime, installed or not."""
        return [
            AgentInfo(
                name=f.agent.name,
                title=f.agent.title,
                available=f.available,
                unasked_modes=f.agent.quirks.unasked_modes,
                install=f.agent.install,
            )
            for f in find_agents(config)
        ]

    common = checked_tools_and_servers(tools)
    bounds = limits or Limits()
    if limits is None and config is not None:
        bounds = config.bound(bounds)
    observed: Telemetry | None = None
    if telemetry is not None:
        from ..telemetry.observation import as_one

        observed = as_one(telemetry)
    source = Source(open, agents, reopen, tenant_budgets, trust, usual_sandbox, observed)
    async with AsyncExitStack() as stack:
        if isinstance(store, str | os.PathLike):
            from ..store.opening import open_store
            from ..store.service import service_of

            opened_store = await stack.enter_async_context(open_store(store, limits=bounds))
            kept = service_of(opened_store)
        if observed is not None and kept is not None:
            observed.keeps(kept)
        if trace is not None:
            from ..trace.trace import opened

            traced = await stack.enter_async_context(opened(trace))
        await stack.enter_async_context(guard())
        yield await stack.enter_async_context(serve_runtime(source, bounds, kept))


@asynccontextmanager
async def serve_runtime(
    source: Source, limits: Limits, store: StoreService | None = None
) -> AsyncIterator[RuntimeHost]:
    """Run a runtime for sessions from any source."""
    stored = [] if store is None else await store.sessions()
    stored.reverse()
    answers = [] if store is None else await store.answers()
    chats = {} if store is None else await store.chats()
    async with bare_errors(), trio.open_nursery() as nursery:
        runtime = _make_runtime(nursery, source, limits, store, stored, answers, chats)
        if store is not None and store.membership is not None:
            from .sharing import keep_up

            assert store.cluster is not None
            runtime._register.runs = store.membership.process.role != "gateway"
            keep = (runtime._register, store, store.membership, store.cluster, limits)
            nursery.start_soon(keep_up, *keep)
        if store is not None:
            nursery.start_soon(return_free_memory, runtime._register)
        try:
            yield runtime
        finally:
            runtime._register.closed = True
            nursery.cancel_scope.cancel()
