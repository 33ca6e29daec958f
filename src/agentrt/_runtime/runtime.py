"""Many sessions in one process: each hosted by a task of its own, none of which can delay or break
another.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, Unpack

import trio
from msgspec import Struct

from .._errors import Busy, LocalProtocolError, SessionClosed, SessionNotFound
from .._journal.base import Answer, StoreEntry
from .._limits import Limits
from .._model.log import Log
from .._nesting import bare_errors, check_trio
from .._permissions.policies import Policy, ask, check_policy
from .._session.session import Session, host_of
from .._tools.checked import checked_tools
from .._tools.client_tools import ClientTool
from .._tools.tools import Tool
from .._trace.trace import Trace, opened
from .drain import wait_for_rest
from .host import Host
from .open import open_session, reopen_session
from .options import SessionOptions
from .register import Hosted, Register, SessionInfo, stored_info
from .stored import SECRET

if TYPE_CHECKING:
    from .._agents import Agent
    from .._config import Config
    from .._journal.store import Store
    from .._telemetry.observation import Telemetries

STORED: Final = frozenset({"cwd", "roots", "tools", "resume", "fork", "model", "mode", "options"})
"""Of `SessionOptions` what a store keeps; of `tools` those that clients run."""


class OpenSession(Protocol):
    """What `open_session` is, with the runtime's own settings filled in."""

    def __call__(
        self, agent: str | Agent, /, **options: Unpack[SessionOptions]
    ) -> AbstractAsyncContextManager[Session]: ...


ReopenSession: TypeAlias = Callable[
    [StoreEntry, tuple[Tool, ...]], AbstractAsyncContextManager[Session]
]
"""What `reopen_session` is, with the runtime's own settings filled in: takes what is stored, and
tools beside the runtime's."""


class AgentInfo(Struct, frozen=True, kw_only=True):
    """An agent that sessions can be opened with. `available`: its program is installed."""

    name: str
    title: str = ""
    available: bool = True


@dataclass(frozen=True)
class Source:
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
        self._loading: dict[tuple[str, str], trio.Event] = {}

    # --- what there is

    def get(self, id: str) -> Session:
        """The session of that id. Raises `SessionNotFound`."""
        return self._register.host(id).session

    def agents(self) -> list[AgentInfo]:
        """The agents that sessions can be opened with, as far as they are known by name."""
        return self._source.agents()

    def list_open(self) -> list[SessionInfo]:
        """The sessions that are open, in the order of their start."""
        return [host.info() for host in self._register.hosts.values()]

    def list_stored(self) -> list[SessionInfo]:
        """Those of the store that are not open, the newest last."""
        return [stored_info(entry) for entry in self._register.stored.values()]

    def list(self) -> list[SessionInfo]:
        """All sessions: those of the store that are not open, the newest last, and then the open
        ones in the order of their start."""
        return self.list_stored() + self.list_open()

    def stored(self, id: str) -> SessionInfo | None:
        """The session of that id, if the store has it and it is not open."""
        entry = self._register.stored.get(id)
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
        already or another store keeps it.
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
        self._register.check_room()
        host = Host(self._register, session.agent.name, inside.core.opening.cwd, whole=False)
        self._nursery.start_soon(host.follow, session)
        return host.adopted(session)

    async def load(
        self,
        agent: str | Agent,
        agent_session: str,
        *,
        cwd: str | os.PathLike[str] = ".",
        tools: Iterable[Tool] = (),
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
            for entry in self._register.stored.values():
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
            for host in self._register.hosts.values():
                if (host.agent, host.session.agent_session) == key:
                    yield host.session
                    return
            yield None
        finally:
            self._loading.pop(key).set()

    async def fork(self, id: str, *, tools: Iterable[Tool] = ()) -> Session:
        """Another session with the same agent, in the same folder and by the same model and mode,
        that begins with all that was said in this one, which stays as it is. `tools` are added to
        the runtime's. What of it is shown is what the agent repeats: Claude Code's is shown whole.

        Raises `SessionNotFound`; `Busy` while a turn runs; `LocalProtocolError` if nothing was said
        yet or the agent cannot (`session.capabilities["fork"]`); and as `create`.
        """
        host = self._register.hosts.get(id)
        if host is None:
            entry = self._register.stored.get(id)
            if entry is None:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            agent, cwd, known = entry.agent, entry.cwd, entry.agent_session
            options: SessionOptions = {}
        else:
            session = host.session
            if session.state.turn is not None:
                raise Busy("a turn runs: fork the session when it is over")
            if session.capabilities.get("fork") is False:
                raise LocalProtocolError(f"{host.agent} cannot fork a session")
            agent, cwd, known = host.agent, host.info().cwd, session.agent_session
            opening = host_of(session).core.opening
            options = {"model": opening.model, "mode": opening.mode}
            if not session.snapshot().items:
                known = None
        if known is None:
            raise LocalProtocolError("nothing was said in the session that could be forked")
        options |= {"cwd": cwd, "tools": tools, "resume": known, "fork": True}
        return await self.create(agent, **options)

    async def reopen(self, id: str, *, tools: Iterable[Tool] = ()) -> Session:
        """The session of that id; one that is only stored is opened, once for all who ask. No agent
        is started: the next prompt does that. `tools` are added to the runtime's.

        Raises `SessionNotFound`, `LimitExceeded`, and as `reopen_session` `AgentNotFound`,
        `StoreError`, or `LocalProtocolError` if its folder is gone.
        """
        tools = checked_tools(tools)
        async with self._register.alone(id):
            host = self._register.hosts.get(id)
            if host is not None:
                return host.session
            entry = self._register.stored.get(id)
            if entry is None or self._source.reopen is None:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            self._register.check_room()
            whole = _are_clients(tools)
            host = Host(self._register, entry.agent, entry.cwd, whole=whole, created=entry.created)
            return await self._start(host, self._source.reopen(entry, tools))

    async def read(self, id: str, *, whole: bool = True) -> Log:
        """What there is to see of a session, also of one that is only stored, which is not opened
        by that. What was open in it when its process ended is closed.

        `whole=False`: of one that is only stored, no more than its last turns (`limits.
        snapshot_turns`), which is as fast however long it is.

        Raises `SessionNotFound` or `StoreError`.
        """
        async with self._register.alone(id):
            host = self._register.hosts.get(id)
            if host is not None:
                return host.session.log
            if self.store is None or id not in self._register.stored:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            from .resting import look_back, resting_log

            log = await resting_log(self.store, id, self.limits)
            if whole:
                await look_back(self.store, log, None, None, self.limits)
            return log

    def add_stored(self, entry: StoreEntry) -> None:
        """The store has another session: somebody has put it there."""
        self._register.add_stored(entry)

    async def delete(self, id: str) -> None:
        """Forget a session of the store; one that is open is closed. Raises `SessionNotFound` or
        `StoreError`."""
        if id in self._register.hosts:
            await self.close(id)
        async with self._register.alone(id):
            if self.store is None or id not in self._register.stored:
                raise SessionNotFound(f"no session {id!r} is stored")
            await self.store.delete(id)
            self._register.remove_stored(id)

    async def _open(self, agent: str | Agent, options: SessionOptions) -> Session:
        self._register.check_room()
        from .._agents import name_of

        options = options.copy()
        tools = options["tools"] = checked_tools(options.get("tools", ()))
        kept = all(name in STORED or value == () for name, value in options.items())
        secret = not set(SECRET).isdisjoint(options.get("options") or ())
        whole = isinstance(agent, str) and _are_clients(tools) and kept and not secret
        host = Host(self._register, name_of(agent), options.get("cwd", "."), whole=whole)
        return await self._start(host, self._source.open(agent, **options))

    async def _start(self, host: Host, opening: AbstractAsyncContextManager[Session]) -> Session:
        with self._register.starting(host):
            session: Session = await self._nursery.start(host.run, opening)
            return session

    async def close(self, id: str) -> None:
        """End a session now: its turn is cancelled, its process ended, its id forgotten, unless it
        is stored. Bounded.

        Raises `SessionNotFound`, or `LocalProtocolError` for one that was adopted: its own block
        ends it. Cancelling it does not keep the session from ending.
        """
        await self._register.host(id).close()

    def rename(self, id: str, title: str) -> None:
        """Give a session a title. Raises `SessionNotFound`."""
        self.get(id).rename(title)

    def cancel_all(self) -> int:
        """Cancel every running turn, as `Session.cancel` does, and return how many there were."""
        sessions = [host.session for host in self._register.hosts.values()]
        running = sum(session.state.turn is not None for session in sessions)
        for session in sessions:
            session.cancel()
        return running

    def hindrance(self) -> str | None:
        """Why no new session should be opened here now: the store does not take anything, or this
        process is being drained. None: nothing speaks against it."""
        if self._register.draining or self._register.closed:
            return "draining"
        if self.store is None:
            return None
        if self.store.status.state == "failing":
            return "the store cannot be written"
        if not self.store.owns():
            return "no lease of the store"
        return None

    async def drain(self) -> None:
        """Open no session any more, and return when all that are open are at rest and closed. Each
        has `limits.drain` seconds for what it has begun. Those that were adopted stay."""
        await trio.lowlevel.checkpoint()
        self._register.draining = True
        async with trio.open_nursery() as nursery:
            for host in list(self._register.hosts.values()):
                nursery.start_soon(self._drain, host)

    async def _drain(self, host: Hosted) -> None:
        await wait_for_rest(host_of(host.session))
        with suppress(LocalProtocolError):  # adopted
            await host.close()

    def start_soon(self, job: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run something for as long as the runtime's block lasts. What it raises ends the block."""
        self._nursery.start_soon(job, *args)


def _are_clients(tools: Iterable[Tool]) -> bool:
    """Whether no tool is a function of this program, which a store does not keep."""
    return all(isinstance(tool, ClientTool) for tool in tools)


@asynccontextmanager
async def open_runtime(
    *,
    config: Config | None = None,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Iterable[Tool] = (),
    env: Mapping[str, str] | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    telemetry: Telemetries | None = None,
    trace: Trace | str | os.PathLike[str] | None = None,
) -> AsyncIterator[Runtime]:
    """A runtime, in which sessions are created, found and closed by their ids.

    - `config`: the user's settings, as `agentrt`'s commands read them: further agents, and limits.
    - `permissions`: who answers the agents' requests; by default they are left to the viewers.
    - `limits`: those of the runtime and of each session; by default each agent's own.
    - `tools`: functions of this program that every agent may call.
    - `env`: the agents' whole environment; default: as in `open_session`.
    - `store`: where the sessions are kept: what `open_store` gives, to be left behind the runtime,
      or what it takes, a file or a URL. Those that it has already are listed, and opened when they
      are wanted (`reopen`).
    - `telemetry`: as in `open_session`, of all sessions.
    - `trace`: a file for what goes over the wire of all its sessions; as in `open_session`.

    Leaving the block ends every session at once, in bounded time.
    """
    check_trio("open_runtime")
    # The catalogue and the drivers cost as much to import as all the rest.
    from .._agents import find_agents, resolve_agent
    from .._process.guard import guard
    from .assembly import limits_for

    if permissions is not None:
        check_policy(permissions)

    traced: Trace | None

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
            "telemetry": telemetry,
            "trace": traced,
        }
        given: SessionOptions = {**usual, **options}
        given["tools"] = (*common, *options.get("tools", ()))
        return open_session(found, journal=kept, **given)

    def reopen(entry: StoreEntry, tools: tuple[Tool, ...]) -> AbstractAsyncContextManager[Session]:
        assert kept is not None
        found = resolve_agent(entry.agent, config)
        return reopen_session(
            entry.session,
            kept,
            agent=found,
            tools=(*common, *tools),
            permissions=permissions,
            limits=limits_of(found),
            env=env,
            telemetry=telemetry,
            trace=traced,
        )

    def agents() -> list[AgentInfo]:
        return [
            AgentInfo(name=f.agent.name, title=f.agent.title, available=f.available)
            for f in find_agents(config)
        ]

    kept: Store | None
    common = checked_tools(tools)
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

            nursery.start_soon(keep_up, runtime._register, store, store.membership, limits)
        try:
            yield runtime
        finally:
            runtime._register.closed = True
            nursery.cancel_scope.cancel()
