"""The task of a session that owns its nurseries and carries out the core's decisions.

It sleeps in a cancel scope until the session's next deadline. A turn that needs no handler and
reaches no deadline starts and ends without waking it.

`SessionCore` decides and never waits; `SessionHost` waits and decides nothing about turns. It
implements `CoreHost`, through which the core writes to the agent, starts and stops handlers and
asks for another look at its deadlines. In the other direction the `Link` reports output and the end
of the process here (`received`, `gone`), each already with the driver that it belongs to: reports
for a driver that is not the core's current one are ignored.

There are three kinds of tasks. `run` is the session's own task; it does everything that must happen
in sequence: replacing a process, starting one, taking a checkpoint, sending the next queued prompt.
`Link.run` serves one process. Handlers, which answer the agent's requests, run in the nursery of
the turn (`TurnTasks`) if they must end with it, else in the session's nursery. A `TurnTasks` is
opened before it is needed, so that a turn can begin without a checkpoint.

`run` is a loop with one action per iteration, in order of priority. Anything that may change the
choice sets `_wake`, or moves the deadline of `_sleep_scope`. Waiting for an idle agent (`drained`)
has its own waiters, because an agent can become idle without any event in the log.
"""

from __future__ import annotations

import contextvars
import math
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio
from msgspec import structs

from ..._base.nesting import TICK_S, ServiceNursery, on_standstill
from ..errors import AgentrtError, RequestError, SessionClosed, SessionMoved, SessionNotFound
from ..limits import Limits
from ..logging import LogScope
from ..model.content import JsonObject
from ..model.conversation import Conversation
from ..model.deadlines import NEVER, DueDeadline
from ..model.driver import Driver, Effect, Opening, ServiceRequested, Write
from ..model.events import Notice
from ..model.life import ProcessLife, ProcessLifeInput
from ..model.log import Log
from ..model.turn import FINAL, TurnMachine, TurnMachineState
from ..permissions.policies import Decision, Policy
from ..permissions.standing import OwnTools, Standing
from ..process.tap import Tap
from .budget import Budget
from .core import SessionCore
from .handlers import Handlers, TurnTasks
from .interfaces import (
    CANCELLED_CODE,
    AgentSessions,
    ClientServices,
    Lifetime,
    OfferedTool,
    SessionObserver,
    StartGate,
)
from .link import Connect, Link, describe_exit
from .rate_limits import WaitForLimits
from .waiters import CHECK_INTERVAL_S, TenantRateLimit, Waiters

if TYPE_CHECKING:
    from ..files.shadow import FolderCheckpoints
    from ..files.worktree import Worktree
    from ..sandbox.wall import SandboxStatus
    from ..store.persister import LogPersister
    from .checkpoints import TurnCheckpoints

Service: TypeAlias = Callable[[ServiceRequested], Awaitable[Any]]
"""Answers one kind of request; an exception becomes an error answer."""

_ACTS: Final = frozenset({"fs/write_text_file", "terminal/create"})
"""Services that change something on this machine."""

TurnService: TypeAlias = Callable[[ServiceRequested, TurnMachine | None], Awaitable[Any]]
"""Answers hooks. Gets the turn during which the agent asked, which may be over."""


class SessionHost:
    """The internals of a `Session`: the core, the agent's process, and the tasks of both."""

    __slots__ = (
        "__weakref__",
        "_charged_seq",
        "_connect",
        "_files_due",
        "_first",
        "_gate",
        "_hang_checked_at",
        "_idle_waiters",
        "_make_driver",
        "_notified",
        "_replaced",
        "_restart",
        "_restarted",
        "_services",
        "_sleep_scope",
        "_spare_tasks",
        "_start_due",
        "_tasks",
        "_ticks",
        "_wake",
        "_wakes_at",
        "checkpoints",
        "clients",
        "clock",
        "closed",
        "completion_callbacks",
        "core",
        "exit_callbacks",
        "fork_factory",
        "handlers",
        "keeper",
        "limits",
        "link",
        "log",
        "nursery",
        "own_tools",
        "program_counts",
        "rate_limit",
        "reading_paused",
        "sandbox",
        "scope",
        "set_tools",
        "stored_sessions",
        "tap",
        "turn_end_callbacks",
        "turn_services",
        "unloaded",
        "waiters",
        "wall_time",
        "worktree",
    )

    def __init__(
        self,
        conversation: Conversation,
        *,
        limits: Limits,
        opening: Opening,
        make_driver: Callable[[], Driver],
        connect: Connect,
        policy: Policy | None,
        own_tools: OwnTools,
        standing: Standing,
        wall: Callable[[], float],
        clock: Callable[[], float],
        persist: Callable[[SessionHost], LogPersister] | None = None,
        observer: SessionObserver | None = None,
        tap: Tap | None = None,
        sandbox: SandboxStatus | None = None,
        shadow: FolderCheckpoints | None = None,
        budgets: tuple[Budget, ...] = (),
        wait: WaitForLimits | None = None,
        fork_factory: partial[Any] | None = None,
        gate: StartGate[SessionHost] | None = None,
        worktree: Worktree | None = None,
    ) -> None:
        """`gate` decides before each start about the project's files. `worktree`: the separate
        working tree that the session runs in. `sandbox`: the sandbox around the agent. `persist`
        starts storing the conversation's log, if given; see `StoreService.keeping`. `observer`: the
        telemetry of the session. `tap` also gets
        the reports of the process's start. `shadow` receives checkpoints of the files around each
        turn. `budgets` count every turn. `wait` allows turns to wait for the end of rate limits.
        """
        tap = Tap() if tap is None else tap
        me: SessionHost = weakref.proxy(self)
        """For the parts, so that an ended session is freed without the garbage collector."""
        self.tap: Tap = tap
        self.tap.agent = conversation.agent.name
        self.tap.protocol = conversation.agent.protocol
        self.tap.begin(conversation.log.session, wall, clock)
        self.sandbox = sandbox
        self.worktree = worktree
        self.limits = limits
        self.own_tools = own_tools
        self.wall_time = wall
        self.clock = clock
        """The current time of Trio's clock, in seconds."""
        self.waiters: Waiters = Waiters()
        """Tasks waiting for new log events; woken once per batch."""
        self.closed: trio.Event = trio.Event()
        self._services: dict[str, Service] = {}  # by method, or by the part before its slash
        self.set_tools: Callable[[Iterable[OfferedTool]], None] | None = None
        """Replaces the tools of the session's tool server; None if it has none."""
        self.stored_sessions: Callable[[], AgentSessions] | None = None
        """The sessions that the agent keeps, if the agent process is not asked for them."""
        self.turn_services: dict[str, TurnService] = {}
        """Services that also get the turn that ran when the agent asked."""
        self.clients: list[ClientServices] = []
        """Clients that provide their files and terminals to the agent. The last one is
        asked first.
        """
        self._notified = ""
        """The key of the last notification that was served."""
        self.exit_callbacks: tuple[Callable[[], None], ...] = ()
        """Called when the agent's process has ended, so that its leftovers here are of no use any
        more.
        """
        self.completion_callbacks: tuple[Callable[[], None], ...] = ()
        """Called when the turn of a prompt has completed."""
        self.turn_end_callbacks: tuple[Callable[[TurnMachine], None], ...] = ()
        """Called with each turn that has ended."""
        self.fork_factory = fork_factory
        """Opens another session of the same agent with the same arguments, except for its folder,
        settings and store. None if unknown.
        """
        self.program_counts: tuple[Callable[[], int], ...] = ()
        """Each returns a number of running programs that the agent has had started here."""
        self.nursery: ServiceNursery
        """The nursery of the tasks that outlive turns."""
        self.link: Link | None = None
        self.keeper: LogPersister | None = None if persist is None else persist(self)
        """Stores the log; None if the session is not stored."""
        self.core: SessionCore = SessionCore(
            conversation,
            limits=limits,
            opening=opening,
            policy=policy,
            own_tools=own_tools,
            standing=standing,
            host=me,
            wall=wall,
            clock=clock,
            env=lambda: tap.env,
            observer=observer,
            budgets=budgets,
            wait=wait,
        )
        self.scope: LogScope = self.core.scope
        self.checkpoints: TurnCheckpoints | None = None
        """Takes checkpoints of the session's folder around each turn."""
        if shadow is not None:
            from .checkpoints import TurnCheckpoints

            session = conversation.log.session
            self.checkpoints = TurnCheckpoints(shadow, session, self.core.add_notice)
        self.log: Log = conversation.log
        if observer is not None:
            self.log.observe(observer.events)
        self.log.shown.listen(self.waiters.wake)
        self.handlers: Handlers = Handlers(
            self.core.reset_idle_timer,  # the agent could not work while it waited for the handler
            self.core.step(),
        )
        self.rate_limit: TenantRateLimit | None = None
        """Limits the rate of reading, shared with other sessions."""
        self.reading_paused: bool = False
        """True if reading from the agent is paused by `rate_limit`."""
        self._charged_seq = self.log.seq
        self._idle_waiters = (
            Waiters()
        )  # tasks waiting for an idle agent, which may come without an event
        self.unloaded = False
        """True if this object ends but the stored session does not: its end is not logged."""
        self._gate = gate
        self._files_due = False  # a turn has ended, so the project's files may have changed
        self._first: Opening | None = None  # of a session whose agent was not started yet
        self._start_due = False
        self._make_driver = make_driver
        self._connect = connect
        self._spare_tasks: TurnTasks | None = None  # for the next turn that needs one
        self._tasks: tuple[TurnTasks, ...] = ()  # those that belong to a turn
        self._restart: trio.CancelScope | None = None
        """Around the restart in progress."""
        self._restarted: trio.Event | None = None  # of the restart in progress
        self._replaced: trio.Event | None = None  # of the process that is being ended
        self._sleep_scope: trio.CancelScope | None = None
        self._wakes_at = math.inf
        self._ticks = False
        """True if the sleep ends after a tick at the latest."""
        self._hang_checked_at = -math.inf
        """The time at which a silent agent's work was last ended, or could not be ended."""
        self._wake = trio.Event()

    def provide(self, method: str, service: Service) -> None:
        """Serve the agent's requests for a method, or for all that begin with this and a slash."""
        self._services[method] = service

    def provide_tools(self, set_tools: Callable[[Iterable[OfferedTool]], None]) -> None:
        """Replace the tools of the session with this function from now on."""
        self.set_tools = set_tools

    def provide_stored_sessions(self, stored: Callable[[], AgentSessions]) -> None:
        """Use another source than the agent process for the sessions that the agent keeps.

        `stored` is called each time the sessions are asked for.
        """
        self.stored_sessions = stored

    def limit_rate(self, limit: TenantRateLimit) -> None:
        """Limit the rate of reading from the agent, together with other sessions."""
        self.rate_limit = limit

    # --- actions requested by the core

    def write(self, lines: Write) -> None:
        """Queue whole lines for the agent."""
        if self.link is not None:
            self.link.write(lines.data, urgent=lines.urgent)

    def hide(self, secrets: tuple[str, ...]) -> None:
        """Replace these values in all traces and log records of what follows."""
        self.tap.hide(secrets)
        self.core.scope.redaction.add_secrets(secrets)

    def interrupt(self) -> None:
        """Send the agent SIGINT."""
        if self.link is not None:
            self.link.interrupt()

    def offers(self, method: str) -> bool:
        """Return True if there is a service for such requests."""
        return self._service(method) is not None

    def _service(self, method: str) -> Service | None:
        """Return the service for a method, or None.

        A service for the exact method wins over one for all methods with the same first part, such
        as `fs`. A turn service is bound to the turn that runs now, not when it is called.
        """
        if method in self.turn_services:
            return partial(self._serve_turn, self.turn_services[method], self.core.turn)
        return self._services.get(method) or self._services.get(method.partition("/")[0])

    async def _serve_turn(
        self, service: TurnService, turn: TurnMachine | None, asked: ServiceRequested
    ) -> Any:
        """Call a turn service with the turn of the request; None if it is background work."""
        # A turn may begin in the same batch as the request; none runs yet in that case.
        return await service(asked, None if asked.background else turn or self.core.turn)

    def serve(self, request: ServiceRequested, until: Lifetime) -> None:
        """Start the handler that answers the request."""
        service = self._service(request.method)
        assert service is not None
        if request.method in _ACTS:
            self._served()
        core, key = self.core, request.key
        run: Callable[[], Awaitable[Any]] = partial(service, request)
        if request.notification:
            if (before := self.handlers.end_of(self._notified)) is not None:
                run = partial(_run_after, before, run)
            self._notified = key
        self._start(
            key,
            run,
            partial(core.requests.reply, key),
            partial(core.requests.refuse, key),
            partial(self.handler_failed, request.method),
            until,
        )

    def decide(self, key: str, decision: Awaitable[Decision], until: Lifetime) -> None:
        """Start a handler that waits for a policy's decision."""
        questions = self.core.questions

        async def wait() -> Decision:
            """Wait for the policy.

            An error of the policy becomes a decision, so that the agent is answered.
            """
            try:
                return questions.policy_decided(await decision)
            except Exception as error:
                return questions.policy_failed(error)

        def give_up(*refusal: object) -> None:
            """Close the question without an answer from the policy, which may not have begun."""
            if isinstance(decision, Coroutine):
                decision.close()  # it may never have been awaited
            questions.given_up(key)

        failed = partial(self.handler_failed, "the permission policy")
        self._start(key, wait, partial(questions.decided, key), give_up, failed, until)

    def expire(self, key: str, seconds: float, until: Lifetime) -> None:
        """Start a handler that expires the question after that many seconds."""

        async def wait() -> None:
            """Sleep, then let the core answer the question by its rule for expired ones."""
            await trio.sleep(seconds)
            self.core.questions.expired(key)

        failed = partial(self.handler_failed, "a question's limit")
        self._start(f"{key}:limit", wait, _nothing, _nothing, failed, until)

    def stop(self, key: str) -> None:
        """Cancel the handlers of one request, if any are running."""
        if self.handlers.running:
            self.handlers.cancel(f"{key}:limit")
            self.handlers.cancel(key)

    def turn_cancelled(self) -> None:
        """Stop every handler and task that the running turn has caused."""
        if self.handlers.running:
            self.handlers.cancel_turn()
        for tasks in self._tasks:
            if tasks.turn is self.core.turn:
                tasks.cancel_scope.cancel()

    def turn_ended(self, turn: TurnMachine) -> None:
        """Stop the turn's handlers and tasks, except for those that it did not wait for."""
        if self.handlers.running:
            self.handlers.end_turn()
        for tasks in self._tasks:
            if tasks.turn is turn:
                tasks.close()
        for ended in self.turn_end_callbacks:
            ended(turn)
        if turn.origin == "user" and turn.ended is not None and turn.ended.outcome == "completed":
            for check in self.completion_callbacks:
                check()
        if self.checkpoints is not None:
            self.checkpoints.turn_ended(turn.id)
            self._wake.set()
        if self._gate is not None and self._gate.watches:
            self._files_due = True
            self._wake.set()

    @property
    def handlers_open(self) -> int:
        """The number of running handlers."""
        return len(self.handlers.running)

    @property
    def alive(self) -> bool:
        """True if the process has not exited, whether or not the exit has been reported."""
        return self.link is None or self.link.returncode is None

    @property
    def serving(self) -> bool:
        """True if a handler or a host program is working for the agent, or reading is paused."""
        return (
            self.reading_paused
            or bool(self.handlers.running)
            or any(count() for count in self.program_counts)
        )

    @property
    def finishing(self) -> bool:
        """True if a handler has outlived its turn."""
        return self.handlers.finishing

    @property
    def occupied(self) -> bool:
        """True if the tasks of the last turn are not over yet."""
        if self.checkpoints is not None and self.checkpoints.occupied:
            return True
        if not self._tasks and not self.handlers.running:
            return False
        turn = self.core.turn
        return any(tasks.turn is not turn for tasks in self._tasks) or (
            turn is None and self.handlers.of_turn
        )

    @property
    def prepares_turns(self) -> bool:
        """True if each prompt waits until a checkpoint has been made."""
        return self.checkpoints is not None

    def reschedule(self) -> None:
        """Re-read the next deadline and the work for this task: they may have changed."""
        core = self.core
        if (
            core.queue.waiting or core.conversation.life is ProcessLife.REPLACING
        ) and self._has_work():
            self._wake.set()
        elif self._sleep_scope is not None:
            # A deadline later than before is not moved: that costs more than one spurious wake-up,
            # and turns are frequent while limits are long.
            alarm = core.next_deadline()
            # The end of a tick is near already: only the alarm can be earlier.
            if alarm[0] < self._wakes_at or not (self._ticks or alarm is NEVER):
                self._sleep_scope.deadline = self._set_wake_time(alarm)
        if self._idle_waiters.tasks:
            self._idle_waiters.wake()

    def turns_may_start(self) -> None:
        """Take note that a turn may start which could not before."""
        self.reschedule()
        self.waiters.wake()

    # --- handlers

    def _start(
        self,
        key: str,
        service: Callable[[], Awaitable[Any]],
        reply: Callable[[Any], None],
        refuse: Callable[[int, str, Any], None],
        on_error: Callable[[Exception], None],
        until: Lifetime,
    ) -> None:
        """Start a handler in the nursery and context of the turn or of the session.

        A handler that only watches a turn being cancelled does not run in the turn's nursery.
        """
        turn = self.core.turn
        nursery: trio.Nursery | ServiceNursery = self.nursery
        context, id = None, None
        if turn is not None and until in ("turn", "cancel"):
            context, id = turn.context, turn.id
            if until == "turn" and turn.state is not TurnMachineState.CANCELLING:
                tasks = self.tasks_of(turn)
                nursery = self.nursery if tasks is None else tasks.nursery
        if context is None:
            context = contextvars.copy_context()
        context.run(self.scope.of(id).enter)
        self.handlers.start(
            nursery, key, service, reply, refuse, on_error, until=until, context=context
        )

    def tasks_of(self, turn: TurnMachine) -> TurnTasks | None:
        """Return the nursery and scope of the running turn.

        Returns None only while the next ones are being opened.
        """
        for tasks in self._tasks:
            if tasks.turn is turn:
                return tasks
        spare, self._spare_tasks = self._spare_tasks, None
        if spare is not None:
            spare.assign(turn)
            self._tasks += (spare,)
            self._wake.set()
        return spare

    def spawn_tool(self, call: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Run a tool call, which sends its own answer. Raises `RequestError` if none is allowed.

        The call comes over a separate channel. Whether it was made before or after the turn's end,
        or in the background, is unknown. For this reason only a cancel of the turn ends it.
        """
        self.begin_tool()
        until: Lifetime = "session" if self.core.turn is None else "cancel"
        key = self.core.conversation.new_id("tool")
        failed = partial(self.handler_failed, "a tool call")
        self._start(key, lambda: call(*args), _nothing, _nothing, failed, until)

    def begin_tool(self) -> None:
        """Record that a tool runs. Raises `RequestError` if none may be called any more."""
        if self.core.stopped:
            raise RequestError(CANCELLED_CODE, "the turn was cancelled")
        self._served()

    def _served(self) -> None:
        """Note that the turn has changed something here or has called a tool of the program.

        After a rate limit, such a turn is not repeated automatically.
        """
        if (turn := self.core.conversation.turn) is not None:
            turn.served = True

    def handler_failed(self, what: str, error: Exception) -> None:
        """Log a failed handler; its caller gets an error answer."""
        self.core.handler_failed(what, error)

    def program_ended(self) -> None:
        """Record the end of a program in a terminal that the agent started here."""
        self.core.reset_idle_timer()

    def terminal_output(self, terminal: str, text: str) -> None:
        """Show output of a program that the agent had started here."""
        with self.core.step():
            self.log.arrived = len(text)
            self.core.conversation.items.append_output(terminal, text)

    async def wait_until_stored(self) -> None:
        """Wait until everything that has happened so far is stored.

        Raises `StoreUnavailable` if the store has been given up on.
        """
        keeper = self.keeper
        if keeper is not None and not await keeper.wait_until_kept(self.log.seq):
            keeper.check()

    async def wait_read(self) -> None:
        """Wait until the agent can take a large answer."""
        if self.link is not None:
            await self.link.wait_read()

    async def _wait_for_room(self) -> None:
        """Wait until more may be read from the agent. Not a checkpoint if it may be read now."""
        if self.keeper is not None:
            await self.keeper.wait_for_room()
        if self.rate_limit is None:
            return
        now = self.clock()
        self.rate_limit.charge(self.log.seq - self._charged_seq, now)
        self._charged_seq = self.log.seq
        if not self.rate_limit.wait_s(now):
            return
        self.reading_paused = True
        try:
            # A turn that must end is not delayed: its remaining output is bounded.
            while not self.core.stopped and (left := self.rate_limit.wait_s(self.clock())) > 0:
                step = min(left, CHECK_INTERVAL_S)
                await trio.sleep(step)
                self.rate_limit.waited_s += step
        finally:
            self.reading_paused = False
        self.core.reset_idle_timer()

    # --- the process

    async def start(self, nursery: ServiceNursery, opening: Opening) -> None:
        """Start a process and complete the handshake within `limits.startup_timeout_s`.

        Time during which this program does not run does not count.
        Raises `AgentStartError`. Cancellation or an error ends the process again.
        """
        self.nursery = nursery
        if self.keeper is not None and self.keeper.moved is not None:
            raise self.keeper.moved  # moved since it was opened
        if self._gate is not None:
            await self._gate.admit(self)
        core = self.core
        wait = None if self.keeper is None else self.keeper.wait_for_room
        me: SessionHost = weakref.proxy(self)
        link = self.link = Link(
            me,
            self._make_driver(),
            self.limits,
            wait_for_room=(lambda: me._wait_for_room()) if opening.tenant else wait,
            watcher=self.tap.next_process(),
        )
        core.start(link.driver, opening)
        ready = False
        try:
            patience = trio.CancelScope()
            patience.deadline = trio.current_time() + self.limits.startup_timeout_s
            with on_standstill(partial(_extend, patience)), patience:
                await nursery.start(link.run, self._connect, opening)
                if not link.gone:
                    core.spawned(link.pid)
                    self._check_started(link)  # one protocol has no handshake
                    await link.wait_started()
            ready = core.ready and not link.gone
            if not ready:
                name, resumes = core.conversation.agent.name, opening.resume is not None
                raise link.start_error(name, core.start_failed, resumes=resumes)
        finally:
            if not ready:
                await link.close()  # noqa: ASYNC102 - shields itself, with a deadline
        if self._spare_tasks is None:
            await self._open_tasks()

    async def prepare(self, nursery: ServiceNursery, opening: Opening) -> bool:
        """Look at the project's files before the first start.

        Returns True if the agent can be started now. Otherwise a person is asked first: the agent
        starts after the answer, and prompts wait until then.
        """
        self.nursery = nursery
        if self._gate is None or await self._gate.prepare(self):
            return True
        self._first, self._start_due = opening, True
        return False

    def restore(
        self,
        nursery: ServiceNursery,
        opening: Opening,
        agent_session: str | None,
        capabilities: JsonObject,
    ) -> None:
        """Continue a conversation of an earlier process without starting an agent.

        Call it instead of `start`. The next prompt starts an agent.
        """
        self.nursery = nursery
        core = self.core
        core.opening = opening
        core.agent_session = agent_session
        core.capabilities = capabilities
        with core.step():
            core.conversation.orphan(resumes=core.resumes)

    def _check_started(self, link: Link) -> None:
        """Wake the task that waits for the handshake, once it has succeeded or was refused.

        Called after each batch of effects until then, and directly after the start, because one
        protocol has no handshake.
        """
        core = self.core
        if core.ready or core.start_failed is not None:
            link.opened = core.ready
            link.started.set()

    async def _open_tasks(self) -> None:
        """Open the nursery and cancel scope of the next turn in advance, which may take a
        moment.
        """
        run = TurnTasks().run
        self._spare_tasks = await self.nursery.start(
            run, self.core.scope_cancelled, self._tasks_ended
        )

    def _tasks_ended(self) -> None:
        """Drop the nurseries that are over. The next turn may have waited for one of them."""
        self._tasks = tuple(tasks for tasks in self._tasks if not tasks.finished)
        self.turns_may_start()  # and the turn's block waits for them

    def received(
        self, link: Link, effects: list[Effect], size: int = 0, *, alive: bool = True
    ) -> None:
        """Pass effects of the current process to the core."""
        core = self.core
        if link.driver is core.driver:  # else it is output of a process that was given up on
            if alive:
                core.active_at = self.clock()
            if effects or size:  # else the end of a line has not come
                core.receive(effects, size)
            if not link.opened:
                self._check_started(link)
            if self._idle_waiters.tasks:
                self._idle_waiters.wake()

    def closing(self, link: Link, reason: str) -> None:
        """End a process that can no longer be reached."""
        if link.driver is self.core.driver:
            self.core.add_notice(Notice("error", "agent_unreachable", reason))
            self.nursery.start_soon(link.close)

    def gone(self, link: Link) -> None:
        """Record the end of a process."""
        if link.driver is not self.core.driver:
            self.core.exited(link.pid)  # it was given up on, and its child processes may still run
            return
        how = link.unreachable or f"the agent's process ended ({describe_exit(link.returncode)})"
        self._process_ended(how, _exit_data(link), wanted=link.ended_on_purpose)

    def _process_ended(self, how: str, data: Any = None, *, wanted: bool) -> None:
        """Stop everything that served the ended process, then report its end to the core.

        `how` describes the end in words. The handlers go first: an answer to a process that does
        not exist any more must not reach the driver of the next one.
        """
        self.handlers.cancel_all()
        for forget in self.exit_callbacks:
            forget()
        self.core.process_ended(how, data, wanted=wanted)
        self._idle_waiters.wake()

    async def _replace(self) -> None:
        """End an unusable process."""
        link, self.link = self.link, None
        self._replaced = over = trio.Event()
        try:
            data = None
            if link is not None:
                await link.close()
                data = _exit_data(link)
            self._process_ended("the agent's process was ended", data, wanted=True)
        finally:
            self._replaced = None
            over.set()

    async def restart(self) -> None:
        """Start the agent again and resume its conversation if possible.

        An empty conversation begins only if the agent reports that it does not know the old one,
        and this is logged. Any other refusal is an error for the prompt's caller, since the
        conversation may still exist. Raises `AgentStartError`, or `SessionClosed` if the session is
        closed in the meantime. Cancellation ends the started process.
        """
        self._restarted = over = trio.Event()
        try:
            with trio.CancelScope() as self._restart:
                await self._start_again()
                return
            raise SessionClosed("the session was closed while its agent was started again")
        finally:
            self._restart = self._restarted = None
            over.set()

    async def _start_again(self) -> None:
        """Start a process for a conversation that had one before, or for a start that was put off.

        The previous process is closed first, with its children. A session whose project files had
        to be approved has never had a process: its original opening is used, and an error leaves it
        in place for the next attempt. Otherwise the conversation is resumed if the agent can do
        that. The notice `agent_restarted` is a warning if the agent has lost a conversation that
        had turns.
        """
        core = self.core
        if self.link is not None:
            await self.link.close()  # its leftovers
        if self._first is not None:
            try:
                await self.start(self.nursery, self._first)
            except AgentrtError as error:
                core.cannot_start(error)
                raise
            self._first = None
            return
        core.conversation.keep_replay = False
        resume = core.agent_session if core.resumes else None
        try:
            try:
                await self._start_on(resume)
            except SessionNotFound:
                if resume is None:
                    raise
                resume = None
                await self._start_on(None)
        except AgentrtError as error:
            core.cannot_start(error)
            raise
        resumed = resume is not None or not self.log.state.turns
        message = "the agent was started again"
        if not resumed:
            message += " and does not remember the conversation"
        level: Any = "info" if resumed else "warning"
        core.add_notice(Notice(level, "agent_restarted", message, {"resumed": resume is not None}))

    async def _start_on(self, resume: str | None) -> None:
        """Start a process with the session's opening, changed to resume the session `resume`.

        The history is not repeated: the log has it already. A fork is not made again.
        """
        opening = self.core.opening
        options = {**opening.options, "replay": False}
        again = structs.replace(opening, resume=resume, fork=False, options=options)
        await self.start(self.nursery, again)

    async def restarted(self) -> None:
        """Wait for the end of the restart in progress, if any.

        Always a checkpoint. Cancelling it changes nothing.
        """
        await trio.lowlevel.checkpoint()
        while self._restarted is not None:
            await self._restarted.wait()

    # --- the task

    async def run(self) -> None:
        """Serve turns for as long as the session lives.

        Run it once, in the session's service nursery.
        """
        core = self.core
        with on_standstill(core.extend_limits):
            while True:
                if self._spare_tasks is None:
                    await self._open_tasks()
                elif core.conversation.life is ProcessLife.REPLACING:
                    await self._replace()
                elif self._start_due:
                    self._start_due = False
                    try:
                        await self.restart()
                    except AgentrtError as error:  # the next prompt tries again
                        core.add_notice(Notice("error", "agent_not_started", str(error)))
                elif self._files_due and self._gate is not None:
                    self._files_due = False
                    await self._gate.after_turn(self)
                elif self.checkpoints is not None and self.checkpoints.is_due:
                    await self.checkpoints.take_due()
                    self.turns_may_start()
                elif core.has_prompt_to_send and core.ready:
                    await self._begin_next()
                elif core.has_prompt_to_send:
                    turn = core.queue.next
                    assert turn is not None
                    try:
                        await self.restart()
                    except AgentrtError as error:
                        core.fail(turn, error)
                else:
                    await self._sleep()

    async def _begin_next(self) -> None:
        """Send the first queued prompt, after a checkpoint if the session makes them."""
        core, checkpoints = self.core, self.checkpoints
        if checkpoints is None:
            core.begin_next()
            return
        await checkpoints.before_turn()
        if core.has_prompt_to_send and core.ready:  # else something has changed in the meantime
            core.begin_next()
            if core.turn is not None:
                await checkpoints.turn_began(core.turn.id)

    def _has_work(self) -> bool:
        """Return True if there is work that only this task can do."""
        core = self.core
        return core.has_prompt_to_send or core.conversation.life is ProcessLife.REPLACING

    async def _sleep(self) -> None:
        """Wait until the task is woken or a clock that is due has been handled."""
        core = self.core
        wakes_at = self._set_wake_time(core.next_deadline())
        with trio.CancelScope(deadline=wakes_at) as self._sleep_scope:
            await self._wake.wait()
        self._sleep_scope = None
        self._wake = trio.Event()
        due = core.next_deadline()
        if trio.current_time() >= due[0]:
            # The whole program may have been too busy to read the agent's output in time: let the
            # pipes be read and the reader run first.
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            if core.next_deadline() == due:
                core.on_deadline()
        if (limit_s := self.limits.busy_silence_timeout_s) is not None:
            now = self.clock()
            if now >= self._hang_time(limit_s):
                self._hang_checked_at = now
                core.end_hung(limit_s)

    def _hang_time(self, limit_s: float) -> float:
        """Return the time at which the agent has been silent for too long.

        Some time after the last check, even if nothing could be ended then.
        """
        return max(self.core.active_at + limit_s, self._hang_checked_at + limit_s / 8)

    def _set_wake_time(self, alarm: DueDeadline) -> float:
        """Set and return the end of the sleep.

        It ends at the alarm, when the agent has been silent for too long, or, with an alarm, at the
        next check for a standstill of the program.
        """
        wakes_at, limit_s = alarm[0], self.limits.busy_silence_timeout_s
        self._ticks = alarm is not NEVER
        if self._ticks:
            wakes_at = min(wakes_at, self.clock() + TICK_S)
        if limit_s is not None:
            wakes_at = min(wakes_at, self._hang_time(limit_s))
        self._wakes_at = wakes_at
        return wakes_at

    async def drained(self) -> None:
        """Wait until no turn runs or waits and the agent reports no remaining work.

        Always a checkpoint.
        """
        core = self.core
        await trio.lowlevel.checkpoint()
        while not (core.can_start_turn and not core.queue.flows and core.idle):
            await self._idle_waiters.wait()

    def over(self, turn: TurnMachine) -> bool:
        """Return True if a turn and its tasks have ended and its end is shown.

        Also true if the end is not shown but is not waited for any more.
        """
        if turn.state not in FINAL:
            return False
        if self._tasks and any(tasks.turn is turn for tasks in self._tasks):
            return False
        return self.keeper is None or self.shows(turn) or self.keeper.over

    def shows(self, turn: TurnMachine) -> bool:
        """Return True if the end of a turn is shown; with a store, if it is stored."""
        return self.log.shown.seq >= turn.ended_seq

    def lacks_its_end(self, turn: TurnMachine) -> bool:
        """Return True if a turn is over and its last events will never be shown."""
        return self.over(turn) and not self.shows(turn)

    # --- calls from the log's persister

    def store_failed(self, error: AgentrtError) -> None:
        """Handle that the session cannot be stored any more: see `PersistedSession`."""
        self.core.store_lost(error)
        self.waiters.wake()
        nursery: ServiceNursery | None = getattr(self, "nursery", None)  # not set before the start
        if isinstance(error, SessionMoved) and nursery is not None and not self.closed.is_set():
            nursery.start_soon(self._end)

    def batch_hidden(self) -> None:
        """Wake the waiting tasks, which get an error instead of the batch."""
        self.waiters.wake()

    def events_stored(self, last: int) -> None:
        """Send the messages that waited until the events up to `last` are stored."""
        self.core.stored(last)

    def reading_resumed(self) -> None:
        """Count the agent's silence from now on."""
        self.core.reset_idle_timer()

    async def _end(self) -> None:
        """End a session that another server has taken over.

        Shielded, because it runs in the session's own nursery, which may be ending as well.
        """
        with trio.CancelScope(shield=True):  # bounded by the shutdown ladder
            await self.finish()

    @property
    def can_unload(self) -> bool:
        """True if the session matches its stored form, with nothing open and no waiting tasks."""
        core, state = self.core, self.log.state
        return (
            core.conversation.life is ProcessLife.DEAD
            and core.turn is None
            and not (core.queue.waiting or state.permissions or self.handlers_open or self._tasks)
            and not (
                self._restarted
                or self.waiters.tasks
                or self.waiters.callbacks
                or self._idle_waiters.tasks
            )
            and bool(state.turns)
            and self.keeper is not None
            and not self.log.behind
        )

    @property
    def complete(self) -> bool:
        """True if all events are shown, or are not waited for any more."""
        return self.keeper is None or not self.log.behind or self.keeper.over

    async def wait_for_end(self, turn: TurnMachine) -> None:
        """Wait until a turn and its tasks are over."""
        while not self.over(turn):
            await self.waiters.wait(partial(self.over, turn))

    async def finish(self) -> None:
        """End the session: cancel the turn, end the process and set the state to `closed`.

        Bounded. A second call waits for the first.
        """
        if self.core.conversation.ended:
            await self.closed.wait()
            return
        if self.unloaded:
            self.core.conversation.apply_life_input(ProcessLifeInput.CLOSE)
        else:
            self.core.close()
        try:
            if self._restart is not None:
                self._restart.cancel()
                await self.restarted()
            if self._replaced is not None:
                with trio.CancelScope(shield=True):  # bounded by the shutdown ladder
                    await self._replaced.wait()
            if self.link is not None:
                await self.link.close()
        finally:  # tasks may wait for the end, even after an error
            if self.checkpoints is not None:
                self.checkpoints.close()
            if not self.unloaded:
                self.core.closed()
            self.closed.set()
            self.tap.close()
            self.waiters.wake()
            self._idle_waiters.wake()
            self._drop_services()

    def _drop_services(self) -> None:
        """Forget the services of an ended session, which refer to this object."""
        for services in (self._services, self.turn_services):
            services.clear()
        self.exit_callbacks = self.completion_callbacks = self.program_counts = ()
        if self.set_tools is not None:
            self.set_tools = _nothing


def _extend(scope: trio.CancelScope, gap_s: float) -> None:
    scope.deadline += gap_s


def _nothing(*args: object) -> None:
    """Do nothing; the callback for the result of a handler without an answer."""


async def _run_after(before: trio.Event, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a handler of a notification after the previous one, so that they keep their order.

    Requests may be answered in any order, but two reports about one subject must not overtake each
    other.
    """
    await before.wait()
    return await run()


def _exit_data(link: Link) -> JsonObject:
    """Return how a process has ended, for the error of the turn that it ends."""
    return {"returncode": link.returncode, "stderr": link.stderr[-4096:]}
