"""Many sessions in one process: each hosted by a task of its own, none of which can delay or break
another.

A host keeps its session's block open and looks after it: a session that rests for long is
*suspended* (its process is ended, the session kept), one that hangs is *recycled*. Both are brought
back by the next prompt, as after any end of a process.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, Unpack

import trio
from msgspec import Struct

from .._errors import LimitExceeded, LocalProtocolError, SessionClosed, SessionNotFound
from .._journal.base import Answer, StoreEntry
from .._journal.keeper import first_prompt
from .._limits import Limits
from .._model.events import Notice, Phase
from .._model.log import Log
from .._model.turn import TurnState
from .._nesting import bare_errors, check_trio
from .._permissions.policies import Policy, ask, check_policy
from .._session.session import Session, host_of
from .._tools.checked import checked_tools
from .._tools.client_tools import ClientTool
from .._tools.tools import Tool
from .._trace.trace import Trace, opened
from .open import open_session, reopen_session
from .options import SessionOptions
from .stored import SECRET

if TYPE_CHECKING:
    from .._agents import Agent
    from .._config import Config
    from .._journal.store import Store
    from .._telemetry.observation import Telemetries

logger = logging.getLogger(__name__)

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


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list. `phase` is `stored` for one that the runtime's store has and that is not
    open: the next prompt opens it. `prompt` is the beginning of its first prompt. Times are seconds
    since the Unix epoch; `updated`, of a stored one, is when something happened there last."""

    session: str
    agent: str
    cwd: str
    title: str | None = None
    phase: Phase | Literal["stored"]
    created: float
    prompt: str = ""
    updated: float | None = None


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
        self._hosts: dict[str, _Host] = {}
        self._starting: set[_Host] = set()
        self._loading: dict[tuple[str, str], trio.Event] = {}
        # Those that are not open, the one that rests the longest first. Nobody else writes the
        # store, so there is no need to ask it.
        self._stored = {entry.session: entry for entry in stored}
        self._busy: dict[str, trio.Event] = {}  # stored ones that are being opened, read or deleted
        self._listeners: set[Callable[[], None]] = set()
        self._lookers: set[Callable[[str], float]] = set()
        self._closed = False

    # --- what there is

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
        return [_stored_info(entry) for entry in self._stored.values()]

    def list(self) -> list[SessionInfo]:
        """All sessions: those of the store that are not open, the newest last, and then the open
        ones in the order of their start."""
        return self.list_stored() + self.list_open()

    def stored(self, id: str) -> SessionInfo | None:
        """The session of that id, if the store has it and it is not open."""
        entry = self._stored.get(id)
        return None if entry is None else _stored_info(entry)

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called after a session has come or gone; returns the function that ends
        it. `changed` must not block or raise."""
        self._listeners.add(changed)
        return lambda: self._listeners.discard(changed)

    def show(self, looked_at: Callable[[str], float]) -> Callable[[], None]:
        """Sessions are shown somewhere: `looked_at` says when one was looked at last, by Trio's
        clock (infinity: it is just now). Returns the function that ends it. One that nobody looks
        at is not kept in memory for ever (`limits.unload`)."""
        self._lookers.add(looked_at)
        return lambda: self._lookers.discard(looked_at)

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
        if session.id in self._hosts:
            raise LocalProtocolError(f"the session {session.id!r} is shown already")
        if inside.keeper is not None and not inside.keeper.kept_by(self.store):
            raise LocalProtocolError(
                "another store keeps the session: give it `journal=` the runtime's, or none"
            )
        self._check_room()
        host = _Host(self, session.agent.name, inside.core.opening.cwd, whole=False)
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

    async def reopen(self, id: str, *, tools: Iterable[Tool] = ()) -> Session:
        """The session of that id; one that is only stored is opened, once for all who ask. No agent
        is started: the next prompt does that. `tools` are added to the runtime's.

        Raises `SessionNotFound`, `LimitExceeded`, and as `reopen_session` `AgentNotFound`,
        `StoreError`, or `LocalProtocolError` if its folder is gone.
        """
        tools = checked_tools(tools)
        async with self._alone(id):
            host = self._hosts.get(id)
            if host is not None:
                return host.session
            entry = self._stored.get(id)
            if entry is None or self._source.reopen is None:
                raise SessionNotFound(f"no session {id!r} is open or stored")
            self._check_room()
            whole = _are_clients(tools)
            host = _Host(self, entry.agent, entry.cwd, whole=whole, created=entry.created)
            return await self._start(host, self._source.reopen(entry, tools))

    async def read(self, id: str, *, whole: bool = True) -> Log:
        """What there is to see of a session, also of one that is only stored, which is not opened
        by that. What was open in it when its process ended is closed.

        `whole=False`: of one that is only stored, no more than its last turns (`limits.
        snapshot_turns`), which is as fast however long it is.

        Raises `SessionNotFound` or `StoreError`.
        """
        async with self._alone(id):
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

    def add_stored(self, entry: StoreEntry) -> None:
        """The store has another session: somebody has put it there."""
        if entry.session not in self._hosts:
            self._stored[entry.session] = entry
            self._tell()

    async def delete(self, id: str) -> None:
        """Forget a session of the store; one that is open is closed. Raises `SessionNotFound` or
        `StoreError`."""
        if id in self._hosts:
            await self.close(id)
        async with self._alone(id):
            if self.store is None or id not in self._stored:
                raise SessionNotFound(f"no session {id!r} is stored")
            await self.store.delete(id)
            del self._stored[id]
            self._tell()

    @asynccontextmanager
    async def _alone(self, id: str) -> AsyncIterator[None]:
        """Nobody else opens, reads or deletes that session meanwhile."""
        await trio.lowlevel.checkpoint()
        while (busy := self._busy.get(id)) is not None:
            await busy.wait()
        self._busy[id] = trio.Event()
        try:
            yield
        finally:
            self._busy.pop(id).set()

    def _check_room(self) -> None:
        if self._closed:
            raise SessionClosed("the runtime is closed")
        if len(self._hosts) + len(self._starting) >= self.limits.sessions:
            raise LimitExceeded(
                f"{self.limits.sessions} sessions are open (limits.sessions): close one first"
            )

    async def _open(self, agent: str | Agent, options: SessionOptions) -> Session:
        self._check_room()
        from .._agents import name_of

        options = options.copy()
        tools = options["tools"] = checked_tools(options.get("tools", ()))
        kept = all(name in STORED or value == () for name, value in options.items())
        secret = not set(SECRET).isdisjoint(options.get("options") or ())
        whole = isinstance(agent, str) and _are_clients(tools) and kept and not secret
        host = _Host(self, name_of(agent), options.get("cwd", "."), whole=whole)
        return await self._start(host, self._source.open(agent, **options))

    async def _start(self, host: _Host, opening: AbstractAsyncContextManager[Session]) -> Session:
        self._starting.add(host)
        try:
            session: Session = await self._nursery.start(host.run, opening)
        finally:
            self._starting.discard(host)
        return session

    async def close(self, id: str) -> None:
        """End a session now: its turn is cancelled, its process ended, its id forgotten, unless it
        is stored. Bounded.

        Raises `SessionNotFound`, or `LocalProtocolError` for one that was adopted: its own block
        ends it. Cancelling it does not keep the session from ending.
        """
        host = self._host(id)
        if host.is_adopted:
            raise LocalProtocolError(
                "this session is a program's own, which is only shown here: the program closes it"
            )
        host.scope.cancel()
        await host.over.wait()

    def rename(self, id: str, title: str) -> None:
        """Give a session a title. Raises `SessionNotFound`."""
        self.get(id).rename(title)

    def cancel_all(self) -> int:
        """Cancel every running turn, as `Session.cancel` does, and return how many there were."""
        running = [host for host in self._hosts.values() if host.session.state.turn is not None]
        for host in list(self._hosts.values()):
            host.session.cancel()
        return len(running)

    def start_soon(self, job: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run something for as long as the runtime's block lasts. What it raises ends the block."""
        self._nursery.start_soon(job, *args)

    def _host(self, id: str) -> _Host:
        host = self._hosts.get(id)
        if host is None:
            raise SessionNotFound(f"no session {id!r} is open")
        return host

    def _add(self, host: _Host) -> None:
        self._starting.discard(host)
        self._hosts[host.session.id] = host
        self._stored.pop(host.session.id, None)
        self._tell()

    def _unload(self, host: _Host) -> None:
        """Close a session that rests to its row: whoever wants it next waits until that is done,
        and opens it again."""
        entry = host.entry()
        del self._hosts[entry.session]
        self._busy[entry.session] = trio.Event()
        later = [each for each in self._stored.values() if each.updated > entry.updated]
        for each in (entry, *later):  # which are few: it goes to its place among them
            self._stored.pop(each.session, None)
            self._stored[each.session] = each
        self._tell()

    def _unloaded(self, host: _Host) -> None:
        self._busy.pop(host.session.id).set()

    def _looked_at(self, id: str) -> float:
        """When somebody looked at a session last, by Trio's clock."""
        return max((looked_at(id) for looked_at in self._lookers), default=-math.inf)

    def _remove(self, host: _Host) -> None:
        session = host.session
        if self._hosts.get(session.id) is host:
            del self._hosts[session.id]
            inside = host_of(session)
            over = inside.closed.is_set() and inside.keeper is not None
            if over and self.store is not None and session.log.state.turns:
                self._stored[session.id] = host.entry()
            self._tell()

    def _tell(self) -> None:
        for changed in tuple(self._listeners):
            changed()


class _Host:
    """The task that one session lives in."""

    session: Session

    def __init__(
        self,
        runtime: Runtime,
        agent: str,
        cwd: str | os.PathLike[str],
        *,
        whole: bool,
        created: float | None = None,
    ) -> None:
        """`whole`: a store has all that it takes to open the session again. `created`: when the
        session was, if it is not a new one."""
        self.agent = agent
        self.cwd = os.path.abspath(cwd)
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.is_adopted = False
        self._runtime = runtime
        self._whole = whole
        self._created = created

    def adopted(self, session: Session) -> Callable[[], None]:
        """The session is another block's, and only shown here."""
        self.session = session
        self.is_adopted = True
        self._created = host_of(session).wall_time()
        self._runtime._add(self)

        def release() -> None:
            self._runtime._remove(self)
            self.scope.cancel()

        return release

    async def follow(self, session: Session) -> None:
        """Until an adopted session is over, and may be opened again where it is stored."""
        host = host_of(session)
        with self.scope:
            await host.closed.wait()
            if host.keeper is not None:
                await host.keeper.over_at.wait()
            self._runtime._remove(self)

    def info(self) -> SessionInfo:
        session = self.session
        return SessionInfo(
            session=session.id,
            agent=self.agent,
            cwd=self.cwd,
            title=session.title,
            phase=session.state.phase,
            created=self._created or 0.0,
            prompt=first_prompt(session.log.state),
        )

    def entry(self) -> StoreEntry:
        """The session as its store has it now that it is closed."""
        session = self.session
        state = session.log.state
        host = host_of(session)
        rested = trio.current_time() - host.core.active_at if host.unloaded else 0.0
        return StoreEntry(
            session=session.id,
            agent=self.agent,
            cwd=self.cwd,
            title=state.title,
            prompt=first_prompt(state),
            turns=state.turn_count,
            created=self._created or 0.0,
            updated=host.wall_time() - rested,
            agent_session=session.agent_session,
        )

    async def run(
        self,
        opening: AbstractAsyncContextManager[Session],
        *,
        task_status: trio.TaskStatus[Session],
    ) -> None:
        """Hold the session's block open until it is to be closed. A session that breaks is lost,
        and nothing else."""
        opened = False
        try:
            with self.scope:
                async with opening as self.session:
                    opened = True
                    if self._created is None:
                        self._created = host_of(self.session).wall_time()
                    self._runtime._add(self)
                    task_status.started(self.session)
                    await self._look_after()
        except Exception:
            if not opened:
                raise  # for the one who waits for the start
            logger.exception("the session %s broke", self.session.id)
        finally:
            if opened and host_of(self.session).unloaded:
                self._runtime._unloaded(self)
            elif opened:
                self._runtime._remove(self)
            self.over.set()

    async def _look_after(self) -> None:
        limits = self.session.limits
        unload = limits.unload if self._runtime.store is not None and self._whole else None
        bounds = (limits.suspend, limits.hang, unload)
        step = min((bound for bound in bounds if bound is not None), default=None)
        if step is None:
            await trio.sleep_forever()
        while True:
            soonest = trio.current_time() + step / 8  # what is not ended stays as it is for a while
            await trio.sleep_until(max(host_of(self.session).core.active_at + step, soonest))
            self._look()
            if unload is not None and self._unseen(unload):
                host_of(self.session).unloaded = True
                self._runtime._unload(self)
                return

    def _unseen(self, limit: float) -> bool:
        """Whether the session rests, and nobody has looked at it for so long."""
        host, id = host_of(self.session), self.session.id
        seen = max(host.core.active_at, self._runtime._looked_at(id))
        alone = host.rests and id not in self._runtime._busy
        return alone and trio.current_time() - seen >= limit

    def _look(self) -> None:
        """Suspend what rests, recycle what hangs."""
        core, limits = host_of(self.session).core, self.session.limits
        turn, silence = core.turn, trio.current_time() - core.active_at
        if not core.ready:
            return
        if turn is None and core.idle:
            # A conversation that cannot be resumed is kept where it is.
            resumable = core.capabilities.get("resume") or not core.log.state.turns
            if limits.suspend is not None and silence >= limits.suspend and resumable:
                self._retire("info", "suspended", limits.suspend)
        elif limits.hang is None or silence < limits.hang or core.serving:
            return
        elif turn is None:
            self._retire("warning", "hung", limits.hang)
        elif turn.state is TurnState.RUNNING:
            core.time_out(turn, "hang", limits.hang)

    def _retire(self, level: Any, code: str, limit: float) -> None:
        core = host_of(self.session).core
        if core.retire():
            message = f"the agent was silent for {limit:g} s: its process is ended"
            core.say(Notice(level, code, f"{message}, and started again by the next prompt"))


def _are_clients(tools: Iterable[Tool]) -> bool:
    """Whether no tool is a function of this program, which a store does not keep."""
    return all(isinstance(tool, ClientTool) for tool in tools)


def _stored_info(entry: StoreEntry) -> SessionInfo:
    return SessionInfo(
        session=entry.session,
        agent=entry.agent,
        cwd=entry.cwd,
        title=entry.title,
        phase="stored",
        created=entry.created,
        prompt=entry.prompt,
        updated=entry.updated,
    )


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
        try:
            yield runtime
        finally:
            runtime._closed = True
            nursery.cancel_scope.cancel()
