"""Open a session: assemble its parts and take them apart in the right order.

`open_session` and `reopen_session` first check the arguments that do not depend on the agent's
protocol (`_checked`). Then the parts are entered, from the outside in: the separate working tree,
the sandbox and the trace (`_opened`); the conversation and its store, the nursery, and the services
for the agent (`serve_session`). The agent's process is started last.

They are left in the opposite order, so each part can rely on those outside of it until its end: the
store receives the events of the agent's end, and the changes in a working tree are brought back
after the last process that could make more.

`Opening` has the settings that a store can keep. `_Given` has the other arguments, such as
functions and the environment; a fork of the session gets the same ones.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
)
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import trio
from msgspec import Struct, structs

from ..._base.nesting import ExitStack, open_service_nursery
from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.content import JsonObject
from ..model.conversation import Conversation
from ..model.driver import Opening, WorktreeOptions
from ..model.events import AgentState, Notice, Task
from ..model.log import Log
from ..model.providers import ProviderSetting
from ..model.repeats import listed
from ..model.state import SessionState
from ..permissions.policies import Policy, check_policy, for_agent
from ..permissions.standing import Standing
from ..process.inherited import inherited
from ..session.budget import Budget, money_left
from ..session.host import SessionHost
from ..session.rate_limits import WaitForLimits
from ..session.session import Session, host_of, make_session
from ..trio_task import check_trio
from .options import (
    ReopenOptions,
    SessionOptions,
    check,
    check_env,
    check_limits,
    check_names,
    check_on_stderr,
    check_opening,
    check_store,
    check_trace,
    checked_budgets,
    checked_checkpoints,
    checked_functions,
    checked_providers,
    checked_servers,
    checked_wait,
    folder,
    folders,
)

if TYPE_CHECKING:
    from ..agents import Agent
    from ..agents.projects import TrustMode
    from ..files.shadow import FolderCheckpoints
    from ..files.worktree import Worktree
    from ..sandbox.policy import Sandbox, SandboxLike
    from ..store.persister import LogPersister, Persist
    from ..store.service import StoreService
    from ..store.store import Store
    from ..telemetry.observation import Telemetries, Telemetry
    from ..tools.extensions import Extension, Hook
    from ..tools.tools import Provided, ProvidedServer, Tool
    from ..trace.trace import Trace
    from .client_services import Files, Terminals
    from .offer import ProtocolSetup
    from .project_start import Trusted
    from .stored import ClaimedSession


@asynccontextmanager
async def open_session(
    agent: str | Agent, **options: Unpack[SessionOptions]
) -> AsyncIterator[Session]:
    """Open a session with an agent, ready for prompts.

    - `agent`: a name from the catalogue (`"claude"`, `"gemini"`, …) or an `Agent`.
    - `options`: see `SessionOptions`, which documents each one and its default. **The agent:**
      `cwd`, `roots`, `env`, `trust`, `trusted`, `sandbox`, `model`, `mode`, `options`. **Its
      resources:** `tools`, `hooks`, `extensions`, `mcp_servers`, `providers`, `files`,
      `terminals`. **An earlier conversation:** `resume`, `fork`, `fork_at`. **Control:**
      `permissions`, `limits`, `checkpoints`, `budget`, `wait`. **Observation:** `on_stderr`,
      `telemetry`, `trace`. **Storage:** `store`, `tenant`.

    Leaving the block normally waits for running and background work, at most
    `limits.drain_timeout_s` seconds. Leaving it by an exception or a cancellation ends everything
    immediately, in bounded time.

    Raises `AgentNotFound`, `AgentStartError` (or its subclass `FolderNotTrusted`),
    `SessionNotFound`, `StoreError` or `TraceError`; `TypeError`, `ValueError` or
    `LocalProtocolError` for an invalid argument.
    """
    check_trio("open_session")
    check_names("open_session", options, SessionOptions)
    # Imported here because the catalogue, drivers and bridges take as long to import as the rest.
    from ..agents import resolve_agent

    async with open_resolved(resolve_agent(agent), options) as session:
        yield session


@asynccontextmanager
async def open_resolved(found: Agent, options: SessionOptions) -> AsyncIterator[Session]:
    """Open a session as `open_session` does, of an agent whose program has been looked up."""
    given = _checked(found, options)
    check_opening(options)
    elsewhere = found.connect is not None
    opening = Opening(
        cwd=folder(options.get("cwd", "."), elsewhere=elsewhere),
        roots=folders(options.get("roots", ()), elsewhere=elsewhere),
        resume=options.get("resume"),
        fork=options.get("fork", False),
        fork_at=options.get("fork_at"),
        mcp_servers=given.mcp_servers,
        providers=given.providers,
        model=options.get("model"),
        mode=options.get("mode"),
        options=dict(options.get("options") or {}),
        tenant=options.get("tenant", ""),
    )
    trace, store = options.get("trace"), options.get("store")
    if options.get("worktree"):
        tree = WorktreeOptions(
            folder=opening.cwd,
            copy=tuple(options.get("worktree_copy", ())),
            setup=tuple(options.get("worktree_setup", ())),
        )
        opening = structs.replace(opening, worktree=tree)
    async with (
        ExitStack() as stack,
        await _opened(stack, found, opening, given, trace, store) as session,
    ):
        yield session


def _one(telemetry: Telemetries | None) -> Telemetry | None:
    """Combine the telemetry into one object. Raises `TypeError`."""
    if telemetry is None:
        return None
    from ..telemetry.observation import as_one

    return as_one(telemetry)


def _sandbox(given: SandboxLike) -> Sandbox | None:
    """Return the sandbox of an argument. Raises `TypeError` or `ValueError`."""
    if given is None:
        return None
    from ..sandbox.policy import as_sandbox

    return as_sandbox(given)


@asynccontextmanager
async def reopen_session(
    id: str,
    store: Store,
    *,
    agent: str | Agent | None = None,
    **options: Unpack[ReopenOptions],
) -> AsyncIterator[Session]:
    """Open a stored session to continue it, with its id, log, folder and settings.

    No agent runs at first: the next prompt starts one, which resumes its own conversation if it
    can; if it cannot, the log reports that the agent does not remember. Anything left open by the
    earlier process is closed (a turn as `agent_died`, with the error `interrupted`). Queued prompts
    stay queued until `queue.resume` or the next prompt. Nothing is sent again.

    - `agent`: as in `open_session`, for an agent outside the catalogue; default: the stored name.
    - `options`: see `ReopenOptions`. A store does not save functions, servers and the environment,
      so pass them again.

    Raises `SessionNotFound`, `StoreError`, `AgentNotFound`, or `LocalProtocolError` if the session
    is already open, or if its folder is missing and no `cwd` is given.
    """
    from ..agents import resolve_agent, resolve_stored_agent
    from ..store.service import service_of
    from .stored import ClaimedSession

    check_trio("reopen_session")
    check_names("reopen_session", options, ReopenOptions)
    check("id", id, str, "a string")
    service = check_store("store", store) or service_of(store)
    stored = await service.load(id)
    if agent is None:
        found = resolve_stored_agent(stored.about.agent)
    else:
        found = resolve_agent(agent)
    if found.protocol != stored.about.protocol:
        raise LocalProtocolError(
            f"{found.name} cannot continue {id!r}, which is a session of {stored.about.agent}"
        )
    given = _checked(found, options)
    cwd, roots = options.get("cwd"), options.get("roots")
    elsewhere = found.connect is not None
    about = stored.about
    kept = about.cwd if about.worktree is None else about.worktree.folder
    try:
        working = folder(kept if cwd is None else cwd, elsewhere=elsewhere)
    except LocalProtocolError as error:
        if cwd is not None:
            raise
        raise LocalProtocolError(
            f"{error}, or continue the session in another folder (cwd=…, --cwd DIR)"
        ) from None
    beside = None if roots is None else folders(roots, elsewhere=elsewhere)
    again = ClaimedSession(id, *await service.claim(id))
    opening = structs.replace(
        again.opening, mcp_servers=given.mcp_servers, providers=given.providers
    )
    if cwd is not None:
        opening = structs.replace(opening, cwd=working, worktree=None)
    if beside is not None:
        opening = structs.replace(opening, roots=beside)
    trace = options.get("trace")
    async with (
        ExitStack() as stack,
        await _opened(stack, found, opening, given, trace, service, again) as session,
    ):
        yield session


class _Given(Struct, frozen=True, kw_only=True):
    """The program's own arguments for a session and its forks: functions, servers, environment."""

    tools: tuple[Provided, ...]
    permissions: Policy | None
    hooks: tuple[Hook, ...]
    extensions: tuple[Extension, ...]
    mcp_servers: tuple[JsonObject, ...]
    providers: tuple[ProviderSetting, ...]
    env: Mapping[str, str] | None
    trust: TrustMode
    trusted: Trusted
    sandbox: Sandbox | None
    files: bool | Files
    terminals: bool | Terminals
    checkpoints: bool
    budget: tuple[Budget, ...]
    wait: WaitForLimits | None
    limits: Limits
    on_stderr: Callable[[bytes], None] | None
    telemetry: Telemetry | None


def _checked(agent: Agent, options: ReopenOptions) -> _Given:
    """Validate the options. Raises `TypeError`, `ValueError` or `LocalProtocolError`."""
    from .offer import checked_service
    from .project_start import checked_trust, checked_trusted
    from .protocol_setup import limits_for

    permissions, limits = options.get("permissions"), options.get("limits")
    env, on_stderr = options.get("env"), options.get("on_stderr")
    if permissions is not None:
        check_policy(permissions)
    check_limits(limits)
    check_env(env)
    check_on_stderr(on_stderr)
    tools, hooks, extensions = checked_functions(options)
    return _Given(
        telemetry=_one(options.get("telemetry")),
        limits=limits_for(agent, limits),
        tools=tools,
        permissions=permissions,
        hooks=hooks,
        extensions=extensions,
        mcp_servers=checked_servers(options.get("mcp_servers", ())),
        providers=checked_providers(agent, options.get("providers", ())),
        env=env,
        trust=checked_trust(options.get("trust", "no")),
        trusted=checked_trusted(options.get("trusted", ())),
        sandbox=_sandbox(options.get("sandbox")),
        files=checked_service("files", options.get("files", True)),
        terminals=checked_service("terminals", options.get("terminals", True)),
        checkpoints=checked_checkpoints(agent, options.get("checkpoints", False)),
        budget=checked_budgets(options.get("budget")),
        wait=checked_wait(options.get("wait")),
        on_stderr=on_stderr,
    )


async def _opened(
    stack: ExitStack,
    agent: Agent,
    opening: Opening,
    given: _Given,
    trace: Trace | str | os.PathLike[str] | None,
    store: Store | None,
    again: ClaimedSession | None = None,
) -> AbstractAsyncContextManager[Session]:
    """Return the block of a session. Its surroundings are entered in `stack`."""
    from .offer import Offer
    from .project_start import project_start
    from .protocol_setup import set_up_protocol

    service = check_store("store", store)
    check_trace(trace)
    wall = worktree = None
    if opening.worktree is not None:
        from .worktree import session_worktree

        own = session_worktree(agent, opening, given.limits, given.env, given.sandbox)
        worktree = await stack.enter_async_context(own)
        opening = structs.replace(opening, cwd=worktree.cwd)
    if opening.sandbox is not None or given.sandbox is not None:
        from .sandboxed import session_wall

        opening, entered = session_wall(agent, opening, given.sandbox, given.permissions)
        wall = await stack.enter_async_context(entered)
    functions, servers = _split(given.tools)
    own_tools: tuple[Tool, ...] = ()
    takes_tools = agent.driver is None and not (agent.claude and agent.claude.legacy)
    if wall is not None and wall.widens and takes_tools:
        from .sandboxed import access_tool

        own_tools = (access_tool(wall),)
    offer = Offer(
        tools=(*own_tools, *functions),
        own_tools=own_tools,
        servers=servers,
        hooks=given.hooks,
        extensions=given.extensions,
        env=inherited(os.environ) if given.env is None else dict(given.env),
        files=given.files,
        terminals=given.terminals,
        limits=given.limits,
        on_stderr=given.on_stderr,
        variables=dict if given.telemetry is None else given.telemetry.environment,
        standing=Standing(given.permissions, agent),
        money_left=money_left(given.budget),
        first_key="r" if again is None else f"r{again.place.owner}.",
        project=project_start(agent, opening, given.trusted, given.trust),
        wall=wall,
    )
    setup = set_up_protocol(agent, opening, offer)
    # A trace file of this session alone is not used for the fork.
    shared = None if isinstance(trace, str | os.PathLike) else trace
    fork_factory = partial(_open_fork, agent, opening, given, shared, tools=given.tools)
    if trace is not None:
        from ..trace.trace import tapped

        await stack.enter_async_context(tapped(trace, setup.tap))
    return serve_session(
        agent,
        setup,
        given.permissions,
        given.limits,
        store=service,
        again=again,
        telemetry=given.telemetry,
        checkpoints=given.checkpoints,
        budgets=given.budget,
        wait=given.wait,
        fork_factory=fork_factory,
        worktree=worktree,
    )


def _split(given: tuple[Provided, ...]) -> tuple[tuple[Tool, ...], tuple[ProvidedServer, ...]]:
    """Split the tools and servers of a session. Without any, their modules are not needed."""
    if not given:
        return (), ()
    from ..tools.tools import split

    return split(given)


def _open_fork(
    agent: Agent, opening: Opening, given: _Given, trace: Trace | None, **options: Any
) -> AbstractAsyncContextManager[Session]:
    """Open another session with the arguments of one, except for those in `options`."""
    same = {name: getattr(given, name) for name in _Given.__struct_fields__}
    same |= {"roots": opening.roots, "options": opening.options, "trace": trace}
    return open_session(agent, **{**same, **options})


def check_modes(standing: Standing, opening: Opening) -> None:
    """Raise `LocalProtocolError` if a session would start in a mode that bypasses its policy's
    denials.
    """
    config = opening.options.get("config")
    problems = [standing.mode_problem(opening.mode)] if isinstance(opening.mode, str) else []
    if isinstance(config, dict):
        problems += [standing.option_problem(name, value) for name, value in config.items()]
    for problem in filter(None, problems):
        raise LocalProtocolError(problem)


def new_id() -> str:
    """Return an id that cannot be guessed and does not look like a command line option."""
    while (id := secrets.token_urlsafe()).startswith("-"):
        pass
    return id


def _start_storing(persist: Persist, agent: Agent, host: SessionHost) -> LogPersister:
    """Start storing the log of a session."""
    from .stored import SessionDescriber

    return persist(host, SessionDescriber(agent, host))


@asynccontextmanager
async def serve_session(
    agent: Agent,
    setup: ProtocolSetup,
    permissions: Policy | None,
    limits: Limits,
    *,
    ids: Callable[[], str] = new_id,
    now: Callable[[], float] = time.time,
    store: StoreService | None = None,
    again: ClaimedSession | None = None,
    telemetry: Telemetry | None = None,
    checkpoints: bool = False,
    budgets: tuple[Budget, ...] = (),
    wait: WaitForLimits | None = None,
    fork_factory: partial[Any] | None = None,
    worktree: Worktree | None = None,
) -> AsyncIterator[Session]:
    """Run a session from these parts; with `again`, one from `store`.

    `fork_factory` opens another session of the same agent with the same arguments, except for its
    folder, settings and store. Tests pass `ids` and `now` to know them in advance.
    """
    own_tools = setup.own_tools(permissions, agent)
    standing = Standing(permissions, agent, own_tools)
    if again is None:
        check_modes(standing, setup.opening)
    clock = trio.lowlevel.current_clock().current_time  # a third of the cost of Trio's own call
    conversing: AbstractAsyncContextManager[tuple[Conversation, Persist | None]]
    if store is None:
        state = AgentState(agent.name, agent.protocol)
        log = Log(ids(), ids(), limits, SessionState(state))
        spoken = Conversation(log, agent=state, now=now, limits=limits, clock=clock)
        conversing = nullcontext((spoken, None))
    else:
        from .stored import open_conversation

        conversing = open_conversation(
            agent,
            limits,
            setup.opening,
            store=store,
            again=again,
            ids=ids,
            now=now,
            clock=clock,
        )
    async with conversing as (conversation, persist), open_service_nursery() as services:
        observation = None
        if telemetry is not None:
            if store is not None:
                telemetry.keeps(store)
            observation = telemetry.observe(agent.name, conversation.log)
        host = SessionHost(
            conversation,
            limits=limits,
            opening=setup.opening,
            make_driver=setup.make_driver,
            connect=setup.connect,
            policy=for_agent(permissions, agent) if permissions is not None else None,
            own_tools=own_tools,
            standing=standing,
            wall=now,
            clock=clock,
            persist=None if persist is None else partial(_start_storing, persist, agent),
            observer=observation,
            tap=setup.tap,
            sandbox=None if setup.offer.wall is None else setup.offer.wall.status,
            shadow=_shadow(setup.opening.cwd, limits) if checkpoints else None,
            budgets=budgets,
            wait=wait,
            fork_factory=fork_factory,
            gate=setup.gate,
            worktree=worktree,
        )
        session = make_session(host)
        finished = _Finished(host)
        try:
            async with (
                finished,  # also if the services cannot be entered
                setup.around_session(host, session) as opening,
                finished,
            ):
                with host.scope.entered():
                    if again is None:
                        if await host.prepare(services, opening):
                            await host.start(services, opening)
                    else:
                        about = again.stored.about
                        host.restore(services, opening, about.agent_session, about.capabilities)
                    if host.keeper is not None:
                        await host.keeper.wait_until_stored()  # viewers then see the stored state
                    services.start_soon(host.run)
                    if setup.offer.wall is not None:
                        from .sandboxed import serve_access

                        services.start_soon(serve_access, host, setup.offer.wall)
                host.scope.say(logging.INFO, "the session is open")
                yield session
                await wait_for_rest(session)
        finally:
            host.scope.say(logging.INFO, "the session is closed")
            if observation is not None:
                observation.close()


class _Finished:
    """End the session's process after the block, however the block ends.

    What serves the agent lives longer: an agent that is alive can always ask for more of it.
    """

    __slots__ = ("_host",)

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *raised: object) -> None:
        with trio.CancelScope(shield=True):  # bounded by the limits for ending a process
            await self._host.finish()


LIVE = frozenset({"pending", "running"})


async def wait_for_rest(session: Session, limit: float | None = None) -> None:
    """Wait until the agent has no work left, at most `limit` or `limits.drain_timeout_s` seconds.

    Some background work never ends, such as a server that the agent has started. Notices therefore
    report the tasks that are waited for, and those that are abandoned.
    """
    host = host_of(session)
    limit = host.limits.drain_timeout_s if limit is None else limit
    with trio.move_on_after(limit) as scope:
        if host.core.turn is None and (live := _live(host)):
            text = f"waiting for background work, {limit:g} s at most"
            _add_notice(host, "info", "waiting", text, live)
        await host.drained()
    if scope.cancelled_caught and (live := _live(host)):
        text = f"background work took over {limit:g} s"
        _add_notice(host, "warning", "not_waited_for", text, live)


def _live(host: SessionHost) -> list[Task]:
    """Return the background tasks that have not ended."""
    return [task for task in host.log.state.open_tasks() if task.status in LIVE]


def _add_notice(
    host: SessionHost, level: Literal["info", "warning"], code: str, what: str, tasks: list[Task]
) -> None:
    """Add a notice with the titles of these tasks, and their ids as data."""
    titles = listed(task.title or task.id for task in tasks)
    data = {"tasks": [task.id for task in tasks]}
    host.core.add_notice(Notice(level, code, f"{what}: {titles}", data))


def _shadow(cwd: str, limits: Limits) -> FolderCheckpoints:
    """Return the object that saves the files of the working folder around each turn.

    The import is made only here, because most sessions have no checkpoints.
    """
    from ..files.shadow import FolderCheckpoints

    return FolderCheckpoints(cwd, limits)
