"""The session as a state machine.

Its inputs are commands, the agent's effects and the clock; its outputs are events for the log and
actions for the `CoreHost`. It never waits and does not use Trio. Each command and each batch of
effects is one step. The end of a step logs a changed state and wakes the readers.

**Ownership.** `SessionCore` decides; its parts keep the details. `Conversation` has the turn that
runs, the items and the life cycle of the process, and writes most events. `PromptQueue` orders the
prompts that wait. `OpenQuestions` and `OpenRequests` track the requests of the agent until they are
answered. `UnsentUntilStored` delays messages to the agent until the store has the events they
follow from. `SessionBudgets` ends turns that cost too much, and `RateLimitWait` delays the
repetition of prompts that a rate limit has ended.

**A prompt** becomes a turn in `_begin`, either directly from `send_or_queue` or from the queue by
the host's task (`begin_next`). The turn ends in `end_turn` only: by the driver's `TurnFinished`, by
the end of the process or of the session, by a deadline, or by a cancel before the prompt was sent.
A queued prompt that is never sent does not become a turn (`_fail`). An outcome that agentrt has
decided (`turn.verdict`, set by `cancel_turn`) overrides the agent's.

**A cancel** has three stages: the driver's cancel message; the same message again at
`turn.resend_at`; and at `turn.grace_at` the end of the turn and the replacement of the process. The
log has the end of the turn in bounded time, even if the agent never answers.

**Deadlines** are computed anew from the state whenever it changes (`next_deadline`). No timer
object can be forgotten: the host sleeps until that time and calls `on_deadline`. The hard limit of
a turn stands still while a person is asked (`pause`) and while the turn waits for the end of a rate
limit; `_end_step` starts its clock again.

**Steps nest.** `_depth` counts them. A nested step does nothing at its end, so that a command made
of several others still writes one batch of events.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Literal

from msgspec import structs

from ..errors import (
    AgentrtError,
    AgentStartError,
    Busy,
    LimitExceeded,
    LocalProtocolError,
    SessionClosed,
)
from ..limits import Limits
from ..logging import LogScope, get_logger
from ..model.after_cancel import REASONS, AfterCancel, PromptEnd, prompt_end
from ..model.content import Block, JsonObject, Text
from ..model.conversation import Conversation
from ..model.deadlines import NEVER, Deadline, DueDeadline, next_deadline
from ..model.driver import (
    CallReturned,
    DecisionRequested,
    Driver,
    Effect,
    EndsBySilence,
    ModesSet,
    Opening,
    RequestWithdrawn,
    SecretsSent,
    ServiceRequested,
    Signal,
    Started,
    StartFailed,
    Steers,
    TaskSet,
    TextReceived,
    ToolCalled,
    ToolCheckRequested,
    TurnBegan,
    TurnFinished,
    UsageSet,
    UserContentReceived,
    Write,
)
from ..model.events import (
    NO_ORIGIN,
    AnswerOrigin,
    CancelledBy,
    ErrorInfo,
    Item,
    Notice,
    Outcome,
    PermissionOpened,
    TurnEnded,
    Usage,
)
from ..model.life import ProcessLife, ProcessLifeInput
from ..model.log import Log
from ..model.prompt_queue import PromptQueue
from ..model.remembered import RepeatedPrompts, count_remembered, prompts_to_remember
from ..model.repeats import history_effects
from ..model.result import Failure
from ..model.turn import FINAL, TurnMachine, TurnMachineInput, TurnMachineState
from ..permissions.policies import Policy
from ..permissions.standing import OwnTools, Standing
from ..wire.json import encode_line
from .budget import Budget, SessionBudgets
from .interfaces import CoreHost, SessionObserver, ViewerAction
from .questions import PROGRAM, OpenQuestions, current_origin
from .rate_limits import RateLimitWait, WaitForLimits
from .requests import OpenRequests
from .tripwire import Tripwire
from .unsent import UnsentUntilStored

When = Literal["queue", "interrupt", "reject"]
"""The behaviour of a new prompt while a turn is running; see `Session.prompt`."""


_logger: Final = get_logger("session")
_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""The logging levels of notices."""
_BAD_ENDS: Final = frozenset({"failed", "timed_out", "agent_died"})
_NO_PROMPTS: Final[frozenset[str]] = frozenset()
_WITHOUT_STATE: Final = frozenset({TextReceived, ServiceRequested})
"""The effects on which no state of the session and no deadline of a turn depends."""


def unsendable(error: Exception) -> AgentrtError:
    """Return the exception for a prompt that its driver cannot encode."""
    if isinstance(error, AgentrtError):
        return error
    return LocalProtocolError(f"the prompt cannot be sent: {type(error).__name__}: {error}")


def _ignored(grace: float) -> Notice:
    """Return the notice about an agent that did not end a cancelled turn in `grace` seconds."""
    return Notice(
        "warning",
        "cancel_ignored",
        f"the agent did not end its turn within {grace:g} s of the cancel and is being ended",
    )


PROMPT_KEPT: Final = (
    "the session ended while the prompt waited; it stays in the stored queue, paused, until the"
    " session is opened again and its queue resumed"
)
"""The reason why a submitted prompt was not sent by this process."""


_TURN_LIMITS: Final = {
    "hard": "turn_timeout_s",
    "idle": "idle_timeout_s",
    "hang": "busy_silence_timeout_s",
}
"""The field of `Limits` for each limit of a turn, by its name in errors (`data.limit`)."""

_UNEXPECTED: Final = Notice(
    "warning",
    "unexpected_history",
    "the agent repeated a conversation in a new session, without being asked to load it: it may"
    " remember an earlier session",
)


def _shorter(n: int, prompts: int) -> Notice:
    """Return the notice about an agent that repeats fewer prompts than the session has had.

    `n` of the last `prompts` prompts were found in the history that the agent repeated when its
    conversation was resumed; see `prompts_to_remember` for the prompts that count.
    """
    return Notice(
        "warning",
        "memory_shorter",
        f"the agent remembers {n} of the last {prompts} prompts of this session; send it the"
        " history (`Session.send_history`, `/retell`, or the page's button)",
        {"remembered": n, "prompts": prompts},
    )


def _stuck(end: PromptEnd) -> Notice:
    """Return the notice about an agent that does not answer prompts properly after a cancelled one.

    `end` is the symptom; see `AfterCancel` for the faults that are recognized.
    """
    return Notice(
        "warning",
        "cancel_stuck",
        f"the agent {REASONS[end]}, after one that was cancelled: its process is being replaced;"
        " send the prompt again",
        {"end": end.value},
    )


def start_failure(error: AgentrtError) -> ErrorInfo:
    """Return the error of a session whose agent could not be started, with the agent's cause."""
    cause = error.cause if isinstance(error, AgentStartError) else None
    return ErrorInfo("agent_failed", str(error), cause=cause)


class PromptRemoved(AgentrtError):
    """The prompt was never sent, because it was removed from the queue."""


class SessionCore:
    """A session: its turns, its queue, its questions and the life cycle of its process.

    As a context manager it is a step; see `step`. The core refers to its host weakly, and so do its
    parts to the core: an ended session is freed without the garbage collector.
    """

    __slots__ = (
        "__weakref__",
        "_after_cancel",
        "_asked",
        "_clock",
        "_closed_from",
        "_deadline_changed",
        "_depth",
        "_discards",
        "_ends_by_silence",
        "_host",
        "_mode",
        "_prompted",
        "_rate_limits",
        "_repeated_prompts",
        "_steered",
        "_stepped",
        "_unsent",
        "_wall",
        "active_at",
        "agent_session",
        "budgets",
        "capabilities",
        "conversation",
        "driver",
        "limits",
        "log",
        "observer",
        "opening",
        "questions",
        "queue",
        "requests",
        "scope",
        "standing",
        "start_failed",
        "tripwire",
    )

    def __init__(
        self,
        conversation: Conversation,
        *,
        limits: Limits,
        opening: Opening,
        policy: Policy | None,
        own_tools: OwnTools,
        standing: Standing,
        host: CoreHost,
        wall: Callable[[], float],
        clock: Callable[[], float],
        env: Callable[[], Mapping[str, str]] = dict,
        observer: SessionObserver | None = None,
        budgets: tuple[Budget, ...] = (),
        wait: WaitForLimits | None = None,
    ) -> None:
        """`env` returns the agent's environment, parts of which are secret. `observer`: telemetry,
        if enabled. `budgets` count every turn of the session. `wait` allows turns to wait for the
        end of rate limits.
        """
        self.conversation = conversation
        self.scope: LogScope = LogScope(conversation.log, conversation.agent.name, env)
        """The context of the session's log records."""
        self.log: Log = conversation.log
        self.queue: PromptQueue = conversation.queue
        self.limits = limits
        self.opening: Opening = opening
        self.driver: Driver | None = None
        self.agent_session: str | None = opening.resume
        """The agent's own id of the conversation, for resuming it."""
        self.capabilities: JsonObject = {}
        self.start_failed: StartFailed | None = None
        self.observer = observer
        self.active_at: float = clock()
        """The time of the agent's last output or of the last answer to it."""
        self._host = host
        self._wall = wall
        self._clock = clock
        self._ends_by_silence: EndsBySilence | None = None
        self._depth = 0
        """The number of nested steps in progress."""
        self._deadline_changed = False
        """True if a change affects the next deadline or the host."""
        self._stepped: TurnMachine | None = None
        """The turn that ran at the end of the last step."""
        self._closed_from = NO_ORIGIN
        """The origin of the close, if `ask_close` was called."""
        self._discards = False
        """True if closing drops prompts that a store would keep."""
        self._asked: tuple[PermissionOpened, ...] = ()
        """Questions that were open when the session was closed and that the store keeps."""
        self._steered = _NO_PROMPTS
        """Prompts sent into a running turn that no turn's end has accounted for."""
        self._repeated_prompts = RepeatedPrompts()
        """The prompts that the agent repeats before the handshake is over."""
        self._prompted = False
        """True once this process was sent a prompt, or was found to repeat one without
        being asked.
        """
        self._after_cancel = AfterCancel()
        self._unsent = UnsentUntilStored(self.log)
        self.standing = standing
        """The refusals that apply even if the agent does not ask."""
        self._mode: str | None = None
        """The mode that the agent last reported."""
        me: SessionCore = weakref.proxy(self)
        self.tripwire: Tripwire = Tripwire(me, conversation, standing, cwd=opening.cwd)
        self.questions: OpenQuestions = OpenQuestions(
            me,
            host,
            conversation,
            self._unsent,
            limits=limits,
            policy=policy,
            own_tools=own_tools,
            standing=standing,
            tripwire=self.tripwire,
            cwd=opening.cwd,
            wall=wall,
        )
        self.requests: OpenRequests = OpenRequests(
            me,
            host,
            limits=limits,
            new_id=conversation.new_id,
            standing=standing,
            cwd=opening.cwd,
        )
        self._rate_limits = RateLimitWait(me, wait, state=self.log.state, wall=wall)
        self.budgets: SessionBudgets = SessionBudgets(me, budgets, fresh=opening.resume is None)

    # --- steps

    def receive(self, effects: list[Effect], size: int = 0) -> None:
        """Apply effects from a driver.

        `size` is the byte count of the lines they were made from.
        """
        depth, take, sender = self._depth, self._HANDLERS, self.driver
        if not depth:
            self.log.arrived = size
        self._depth = depth + 1
        try:
            for effect in effects:
                take[type(effect)](self, effect)
                if self.driver is not sender:  # an effect has ended its process
                    break
        finally:
            self._depth = depth
        if depth:
            return
        turn, driver = self.conversation.turn, self._ends_by_silence
        if (
            len(effects) == 1
            and type(effects[0]) in _WITHOUT_STATE
            and turn is self._stepped
            and turn is not None
            and (turn.scope is None or turn.scope.deadline == turn.hard_at)
            and turn.hard_left is None
            and not self._deadline_changed
            and (driver is None or not driver.awaits_silence)
        ):
            self.log.publish()
        else:
            self._end_step()

    def step(self) -> SessionCore:
        """Return a block in which several commands form one step, with one batch of events.

        Steps nest: only the end of the outermost one logs a changed state and wakes the readers.
        """
        return self

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *exc: object) -> None:
        """End the step; the outermost one logs a changed state and publishes the events.

        This also happens if the block raised: the events that were appended before the error are
        true, and readers must see them.
        """
        self._depth -= 1
        if not self._depth:
            self._end_step()

    def _end_step(self) -> None:
        """Finish the outermost step: adjust the clocks, log a changed state and wake the readers.

        Called once per batch of effects and once per outermost block of `step`. It first answers
        requests that closed by themselves, then takes over a deadline that the program has set on
        the turn's cancel scope, and restarts the hard limit if no person is asked any more. The
        host recomputes its sleep only if the state, a deadline or the need for silence has changed:
        a step that only appends text costs no wake-up of the host's task.
        """
        conversation = self.conversation
        if conversation.items.released:
            self._release()
        turn = conversation.turn
        if turn is not None:
            if turn.scope is not None and turn.scope.deadline != turn.hard_at:
                self._set_hard(turn, turn.scope.deadline)  # the program has moved it
                turn.hard_left = None
                turn.moved = True
            if turn.hard_left is not None and not (
                self.questions.asks_person or turn.retry_at < math.inf
            ):
                self._set_hard(turn, self._clock() + turn.hard_left)  # no person is asked any more
                turn.hard_left = None
        driver, self._stepped = self._ends_by_silence, turn
        if (
            conversation.sync()
            or self._deadline_changed
            or (driver is not None and driver.awaits_silence)
        ):
            self._deadline_changed = False
            self._host.reschedule()
        self.log.publish()

    def _release(self) -> None:
        """Answer the agent's requests that the conversation closed by itself."""
        released = self.conversation.items.released
        self._depth += 1  # one batch for all of them
        try:
            while released:
                self.questions.drop(released.pop())
        finally:
            self._depth -= 1

    def show_history(self, items: Iterable[Item]) -> None:
        """Show `items`, the history of the conversation that this one is a copy of."""
        with self.step():
            for effect in history_effects(items):
                self.conversation.take(effect)
            self.conversation.items.replayed()

    def rename(self, title: str) -> None:
        """Set the title that a person has given, also in the agent's own list."""
        self.conversation.rename(title)
        self._send_title()

    def _send_title(self) -> None:
        """Send the agent the title that a person has given, if there is one and it takes titles."""
        title = self.log.state.title
        if not (
            self.conversation.named and title and self.ready and self.capabilities.get("set_title")
        ):
            return

        def returned(answer: CallReturned) -> None:
            if answer.error is not None and self.ready:
                words = f"the agent did not take the title: {answer.error.message}"
                self._noticed(Notice("info", "title_refused", words))

        self.requests.call("set_title", {"title": title}, returned)

    def add_notice(self, notice: Notice) -> None:
        """Append a notice to the log."""
        with self.step():
            self._noticed(notice)

    def _noticed(self, notice: Notice) -> None:
        """Append a notice to the log of the session, and to the log of the program at its level.

        Drivers report notices as effects, so this is also the handler of that effect. A wait for
        rate limits reads them, because some agents announce the end of a limit only in a notice.
        """
        self.log.append(notice)
        self._rate_limits.noticed(notice)
        turn = self.turn
        id = None if turn is None else turn.id
        level = _LEVELS[notice.level]
        self.scope.say(level, "%s", notice.message, turn=id, code=notice.code)

    # --- the process

    @property
    def turn(self) -> TurnMachine | None:
        """The running turn."""
        return self.conversation.turn

    @property
    def ready(self) -> bool:
        """True if the process accepts prompts. False if it has died without a report yet."""
        return self.conversation.life is ProcessLife.READY and self._host.alive

    @property
    def resumes(self) -> bool:
        """True if another process of the agent can resume the conversation."""
        return self.agent_session is not None and bool(self.capabilities.get("resume"))

    @property
    def serving(self) -> bool:
        """True if the agent may be waiting for a handler, a host program or the store."""
        keeper = self.log.persister
        waits = keeper is not None and (keeper.unread or bool(self._unsent))
        return waits or self._host.serving

    @property
    def idle(self) -> bool:
        """True if the agent has no work left and no hook runs that it did not wait for."""
        return (self.driver is None or self.driver.idle) and not self._host.finishing

    def start(self, driver: Driver, opening: Opening) -> None:
        """Record that a process is being started."""
        with self.step():
            self.conversation.apply_life_input(ProcessLifeInput.START)
            self.conversation.error = None
            self.opening = opening
            self.start_failed = None
            self.driver = driver
            self._repeated_prompts = RepeatedPrompts()
            self._prompted = False
            self._ends_by_silence = driver if isinstance(driver, EndsBySilence) else None

    def spawned(self, pid: int | None) -> None:
        """Record that the process runs, and start the handshake."""
        assert self.driver is not None
        self.scope.say(logging.INFO, "the agent runs as process %s", pid, pid=pid)
        conversation = self.conversation
        conversation.agent = structs.replace(conversation.agent, pid=pid, alive=True)
        self.active_at = self._clock()
        self.receive(self.driver.start(self.opening))

    def exited(self, pid: int | None) -> None:
        """Record that a process being replaced has exited. Its child processes may still run."""
        conversation = self.conversation
        if conversation.agent.pid == pid:
            with self.step():
                conversation.agent = structs.replace(conversation.agent, pid=None, alive=False)

    def process_ended(self, how: str, data: Any = None, *, wanted: bool = False) -> None:
        """Record that the process has ended or could not be started.

        `how` describes it in words. `wanted`: it was ended because it is not needed any more, which
        is not an error.
        """
        conversation = self.conversation
        self.scope.say(
            logging.INFO if wanted else logging.WARNING,
            "%s",
            how,
            turn=None if self.turn is None else self.turn.id,
            pid=conversation.agent.pid,
        )
        with self.step():
            self._forget_driver()
            self.requests.process_ended()
            conversation.agent = structs.replace(conversation.agent, pid=None, alive=False)
            conversation.error = None if wanted else ErrorInfo("agent_died", how, data)
            conversation.apply_life_input(ProcessLifeInput.END)
            if conversation.turn is not None:
                died = ErrorInfo("agent_died", f"{how} before the turn was over", data)
                self.end_turn("agent_died", error=died)
            self._deadline_changed = True

    def cannot_start(self, error: AgentrtError) -> None:
        """Record the reason why no process could be started."""
        with self.step():
            self.conversation.error = start_failure(error)
            if self.conversation.life is ProcessLife.STARTING:
                self.conversation.apply_life_input(ProcessLifeInput.END)

    def replace(self) -> None:
        """Have an unusable process ended. The next prompt starts another one."""
        with self.step():
            self.conversation.apply_life_input(ProcessLifeInput.REPLACE)
            self._forget_driver()  # its remaining output is ignored
            self._deadline_changed = True

    def _forget_driver(self) -> None:
        """Drop everything that only makes sense for the process that has just ended.

        Messages that still wait for the store are dropped as well: another process knows nothing of
        the turn or the request that they belong to.
        """
        self.driver = self._ends_by_silence = None
        self._after_cancel = AfterCancel()
        self._steered = frozenset()
        self._unsent.clear()

    def retire(self) -> bool:
        """End the process if it is idle.

        Returns False and does nothing if a turn runs or waits, or without a process.
        """
        if not self.can_start_turn or self.queue.flows or not self.ready:
            return False
        self.replace()
        return True

    def ask_close(self, *, discard: bool) -> int:
        """Note that a person or a program closes the session itself, which must be closed next.

        The caller is the origin of the end of its turn. `discard`: drop the prompts that a store
        would keep. Returns the number of waiting prompts.
        """
        self._closed_from, self._discards = current_origin(), discard
        return len(self.queue)

    def close(self) -> None:
        """Accept no more prompts, and cancel the turn.

        With a store, queued prompts are kept, paused, and open questions are kept if the agent's
        conversation can be resumed. A prompt with a waiting caller is dropped, because the caller
        gets an error. Without a store, or if `ask_close` discards them, everything is dropped.
        """
        keeps = self.log.persister is not None and not self._discards
        with self.step():
            self.conversation.apply_life_input(ProcessLifeInput.CLOSE)
            over = SessionClosed("the session was closed while the prompt waited")
            for turn in list(self.queue):
                if turn.awaited or not keeps:
                    self._remove(turn, over)
                    self._report_dropped(turn)
                else:
                    self._fail(turn, SessionClosed(PROMPT_KEPT))
            if keeps:
                self.queue.pause()
                self._queue_changed()
                self._asked = tuple(self.log.state.permissions.values()) if self.resumes else ()
            if self.turn is not None:
                self.cancel_turn(self.turn, "cancelled", by="caller", origin=self._closed_from)

    def closed(self) -> None:
        """Enter the final state, after the process has ended or was given up on."""
        with self.step():
            if self.turn is not None:
                self.end_turn("cancelled")
            conversation = self.conversation
            conversation.ask_again(self._asked)
            if not self._host.alive:  # given up on before it ended, so its end was not reported
                conversation.agent = structs.replace(conversation.agent, pid=None, alive=False)
            conversation.apply_life_input(ProcessLifeInput.END)

    # --- telemetry

    def acting(
        self, name: str, content: Sequence[Block] | None = None, **about: Any
    ) -> AbstractContextManager[None]:
        """Return a block that makes a change, which telemetry gets if a viewer makes it.

        A change by the program itself is not reported. `about`: its arguments. `content`: the
        content of a prompt.
        """
        origin = current_origin()
        if self.observer is None or origin is PROGRAM:
            return nullcontext()
        if content is not None:
            about["text"] = "\n".join(each.text for each in content if isinstance(each, Text))
        return self._reported(
            ViewerAction(name=name, about=about, who=origin.who, via=origin.via), self.observer
        )

    @contextmanager
    def _reported(self, action: ViewerAction, observer: SessionObserver) -> Iterator[None]:
        outcome: Literal["done", "refused", "interrupted"] = "interrupted"
        reason = ""
        try:
            yield
            outcome = "done"
        except Exception as error:
            outcome, reason = "refused", str(error)
            raise
        finally:
            observer.acted(structs.replace(action, outcome=outcome, reason=reason))

    # --- prompts

    @property
    def can_start_turn(self) -> bool:
        """True if the next turn may start.

        That is: the last turn has ended, its tasks are over, and no process is being ended.
        """
        return (
            self.conversation.turn is None
            and not self._host.occupied
            and self.conversation.life is not ProcessLife.REPLACING
        )

    @property
    def has_prompt_to_send(self) -> bool:
        """True if the next prompt can be processed now."""
        queue = self.queue
        keeper = self.log.persister
        return (
            bool(queue.waiting)
            and queue.flows
            and self.can_start_turn
            and not self.conversation.ended
            and (keeper is None or not keeper.over)
        )

    def send_or_queue(self, turn: TurnMachine, when: When) -> None:
        """Send a prompt now or put it into the queue.

        Raises `Busy`, `LimitExceeded`, `SessionClosed`, `StoreUnavailable` or, if the agent does
        not support such a prompt, `LocalProtocolError`; in each case nothing has changed.
        """
        if self.conversation.ended:
            raise SessionClosed("the session is closed")
        if turn.entry or turn.state is not TurnMachineState.QUEUED:
            raise LocalProtocolError("a turn can be entered once")
        self.budgets.check(turn)
        idle = not self.queue.flows and self.can_start_turn
        if not idle and when == "reject":
            raise Busy("a turn is running")
        if self.log.persister is not None:
            self.log.persister.check()
        if idle and self.ready and not self._host.prepares_turns:
            try:
                self._begin(turn)
            except Exception as error:
                raise unsendable(error) from None
        else:
            with self.step():
                self._enqueue(turn, when)

    def prompt_agent(self, words: str) -> TurnMachine:
        """Send the agent a prompt written by agentrt.

        Raises the same errors as `send_or_queue`.
        """
        turn = TurnMachine("user", self.limits, [Text(f"[agentrt] {words}")])
        self.send_or_queue(turn, "queue")
        return turn

    def _enqueue(self, turn: TurnMachine, when: When) -> None:
        """Put a prompt into the queue, and cancel the running turn if the prompt interrupts it.

        An interrupting prompt becomes the next one, before those that were queued earlier. Raises
        `LimitExceeded` if the queue is full; nothing has changed then.
        """
        if len(self.queue) >= self.limits.queued_prompts:
            raise LimitExceeded(
                f"{len(self.queue)} prompts are already queued (limits.queued_prompts)"
            )
        self._check_size(turn.content or [])
        turn.entry = self.conversation.new_id("q")
        self.queue.put(turn, first=when == "interrupt")
        self._queue_changed()
        if when == "interrupt" and self.turn is not None:
            self.cancel_turn(self.turn, "cancelled", by="caller", origin=current_origin())

    def _check_size(self, content: Sequence[Block], of: TurnMachine | None = None) -> None:
        """Raise `LimitExceeded` if a prompt makes the queue too large. `of`: it replaces this one's
        content.
        """
        others = [each.content for each in self.queue if each is not of]
        most = self.limits.queued_prompts_bytes
        if others and len(encode_line((others, content))) > most:
            raise LimitExceeded(
                f"the queued prompts would take more than {most:,} bytes"
                " (limits.queued_prompts_bytes); send this one when fewer wait"
            )

    def _begin(self, turn: TurnMachine) -> None:
        """Send the prompt. Raises, and changes nothing, if the agent does not support it."""
        assert self.driver is not None
        conversation = self.conversation
        id = conversation.new_id("t")
        prompt = self._prompt(turn, id)
        self._prompted = True
        if turn.attended:
            turn.cursor = self.log.shown.cursor(lossless=True)
        conversation.begin(turn, id)
        self.budgets.turn_began(turn)
        self.active_at = turn.began_at
        self._deadline_changed = True
        if _logger.isEnabledFor(logging.DEBUG):
            self.scope.say(logging.DEBUG, "the turn begins", turn=id)
        if self.log.persister is None:
            self.receive(prompt)
        else:
            with self.step():
                self._send_when_stored("prompt", turn, id, prompt)

    def _prompt(self, turn: TurnMachine, id: str) -> list[Effect]:
        """Return the driver's effects that send the turn's prompt under the id `id`.

        Telemetry, if enabled, adds its trace context to the prompt's metadata, and is informed if
        the driver refuses the prompt, so that its span does not stay open. Raises the driver's
        error for content that the protocol cannot carry.
        """
        assert self.driver is not None
        content, observer = turn.content or [], self.observer
        if observer is None:
            return self.driver.prompt(id, content)
        meta = observer.prompting(id, turn.context)
        try:
            return self.driver.prompt(id, content, meta)
        except Exception:
            observer.unsent(id)
            raise

    def _send_when_stored(
        self, kind: Literal["prompt", "steer"], turn: TurnMachine, id: str, prompt: list[Effect]
    ) -> None:
        """Send a prompt when the store has the events of its turn, so that no work is lost.

        If the process went down in between, the agent would have worked on a prompt that the stored
        session has never heard of. `kind` and `id` identify the message if it must be dropped.
        """
        send, drop = partial(self.receive, prompt), partial(self._unsend, id)
        self._unsent.send_when_stored(kind, id, turn, send, drop)

    def _unsend(self, id: str) -> None:
        """Take back a prompt that was never written; the driver must not wait for its answer."""
        self._steered -= {id}
        if self.driver is not None:
            self.driver.discard_prompt(id)

    def stored(self, seq: int) -> None:
        """Send the messages that waited for the events up to `seq` to be stored."""
        if self._unsent.has_stored(seq):
            with self.step():
                self.reset_idle_timer()
                self._unsent.release(seq)
        elif self.queue.waiting:
            self._host.reschedule()

    def begin_next(self) -> None:
        """Send the first queued prompt, or drop it if it cannot be sent."""
        with self.step():
            turn = self.queue.next
            assert turn is not None
            self.queue.remove(turn)
            self._queue_changed()
            try:
                self.budgets.check(turn)  # it may have been used up while the prompt waited
                self._begin(turn)
            except Exception as error:  # the session survives any prompt content
                self._fail(turn, unsendable(error))
                self._report_dropped(turn)

    def fail(self, turn: TurnMachine, failure: AgentrtError) -> None:
        """Drop a queued prompt that cannot be sent, because the agent does not start."""
        if self._is_waiting(turn):
            turn.unstarted = True
            with self.step():
                self._remove(turn, failure)
                self._report_dropped(turn)

    def withdraw(self, turn: TurnMachine) -> None:
        """Remove a prompt if it is queued; a task waiting for it gets an `AgentrtError`."""
        if self._is_waiting(turn):
            with self.step():
                self._remove(turn, PromptRemoved("the prompt was removed from the queue"))

    def remove(self, entry: str) -> None:
        """Remove a queued prompt; a task waiting for it gets an `AgentrtError`.

        Raises `LocalProtocolError` if the prompt is not queued (any more).
        """
        self.withdraw(self.queue.find(entry))

    def edit(self, entry: str, content: list[Block]) -> None:
        """Replace the content of a queued prompt.

        Raises the same errors as `remove`, and `LimitExceeded`.
        """
        turn = self.queue.find(entry)
        self._check_size(content, of=turn)
        with self.step():
            self.queue.edit(turn, content)
            self._queue_changed()

    def promote(self, entry: str) -> None:
        """Make a queued prompt the next one. Raises the same errors as `remove`."""
        turn = self.queue.find(entry)
        with self.step():
            self.queue.promote(turn)
            self._queue_changed()

    def resume_queue(self) -> None:
        """Resume the paused prompts."""
        with self.step():
            self.queue.resume()
            self._queue_changed()

    def _is_waiting(self, turn: TurnMachine) -> bool:
        """Return True if this process will send the prompt; False if it is kept for another one."""
        return turn.state is TurnMachineState.QUEUED and turn in self.queue

    def _remove(self, turn: TurnMachine, failure: AgentrtError) -> None:
        """Take a prompt out of the queue and end it with `failure`."""
        self.queue.remove(turn)
        self._queue_changed()
        self._fail(turn, failure)

    def _fail(self, turn: TurnMachine, failure: AgentrtError) -> None:
        """Record the reason why a prompt was not sent; a task that waits for the turn raises it.

        The prompt itself may stay in the stored queue (`close`), where another process can send it.
        """
        turn.failure = failure
        turn.apply(TurnMachineInput.DROP)

    def _report_dropped(self, turn: TurnMachine) -> None:
        """Log that a prompt will never be sent, unless a task waits for it."""
        if not turn.awaited:
            data = {"entry": turn.entry}
            self._noticed(Notice("error", "prompt_dropped", str(turn.failure), data))

    def _queue_changed(self) -> None:
        """Log the new queue.

        The deadline may change as well, because a waiting prompt shortens the silence that ends a
        turn of the agent.
        """
        self.conversation.show_queue()
        self._deadline_changed = True

    def steer(self, content: list[Block]) -> None:
        """Send a prompt into the running turn, if the agent supports it.

        Raises `LocalProtocolError` otherwise, or if no turn runs.
        """
        turn, driver = self.turn, self.driver
        if driver is None or turn is None or turn.verdict is not None:
            raise LocalProtocolError("no turn is running that could be steered")
        if not isinstance(driver, Steers):
            raise LocalProtocolError("this agent does not accept a prompt during a turn")
        id = self.conversation.new_id("s")
        effects = driver.steer(id, content)
        with self.step():
            self._steered |= {id}
            self.conversation.items.prompted(content)
            self._send_when_stored("steer", turn, id, effects)

    # --- turns

    def cancel(self, by: CancelledBy, origin: AnswerOrigin = NO_ORIGIN) -> None:
        """Cancel the running turn. A user's Stop also pauses the queued prompts."""
        with self.step():
            if by == "user":  # also if the turn is already being cancelled or none runs yet
                self.queue.pause()
                self._queue_changed()
            if self.turn is not None:
                self.cancel_turn(self.turn, "cancelled", by=by, origin=origin)

    def cancel_turn(
        self,
        turn: TurnMachine,
        verdict: Outcome,
        *,
        by: CancelledBy | None,
        origin: AnswerOrigin = NO_ORIGIN,
    ) -> None:
        """Start cancelling a turn: notify the agent and close everything open. Idempotent."""
        if turn is not self.turn or turn.verdict is not None:
            return
        with self.step():
            turn.verdict = verdict
            if turn.cursor is not None:  # a cancelled turn yields only its end
                turn.cursor.pause()
            if self._unsent.has_prompt_of(turn) or turn.retry_at < math.inf:
                self._end_unsent(turn, by, origin)
                return
            self._send_cancel()  # before work whose cost grows with the answer
            self._unsent.drop(turn)
            now = self._clock()
            grace = turn.limits.cancel_grace_s if turn.explicit else self.limits.end_silence_s
            turn.grace_at = now + grace
            turn.resend_at = now + min(turn.limits.cancel_resend_s, grace)
            self.conversation.cancel(by, self._wall() + grace, origin)
            self._host.turn_cancelled()
            self._deadline_changed = True
            words = f"by {by}" if by is not None else "by agentrt"
            self.scope.say(logging.INFO, "the turn is being cancelled %s", words, turn=turn.id)

    def _end_unsent(self, turn: TurnMachine, by: CancelledBy | None, origin: AnswerOrigin) -> None:
        """End a cancelled turn before its prompt was sent to the agent."""
        self.conversation.cancel(by, None, origin)
        self._host.turn_cancelled()
        self.end_turn("cancelled")

    def time_out(self, turn: TurnMachine, which: str, limit: float | None) -> None:
        """Cancel a turn that has reached one of its limits, which the error names.

        `limit` is None for a deadline set by the program.
        """
        field = _TURN_LIMITS[which]
        what = f"{which} limit of {limit:g} s (limits.{field})" if limit else f"{which} limit"
        turn.timeout = ErrorInfo("timed_out", f"the turn reached its {what}", {"limit": which})
        self.scope.say(logging.WARNING, "the turn reached its %s", what, turn=turn.id, limit=which)
        self.cancel_turn(turn, "timed_out", by=None)

    def _reach_hard(self, turn: TurnMachine) -> None:
        """Cancel a turn at its hard limit.

        The error names no figure if the program moved the deadline.
        """
        self.time_out(turn, "hard", None if turn.moved else turn.limits.turn_timeout_s)

    def store_lost(self, error: AgentrtError) -> None:
        """Fail the turn, because its events could not be stored within the maximum wait."""
        if self.turn is not None and self.turn.verdict is None:
            self.turn.timeout = ErrorInfo("store_unavailable", str(error))
            self.cancel_turn(self.turn, "failed", by=None)

    def scope_cancelled(self, turn: TurnMachine) -> None:
        """Handle a cancelled or expired cancel scope of the turn."""
        assert turn.scope is not None
        if turn.scope.deadline <= self._clock():
            turn.moved |= turn.scope.deadline != turn.hard_at
            self._reach_hard(turn)
        else:
            self.cancel_turn(turn, "cancelled", by="caller")

    def _send_cancel(self) -> None:
        """Send the agent the protocol's cancel, unless its process has ended."""
        if self.driver is not None:
            self.receive(self.driver.cancel())

    def end_turn(
        self,
        outcome: Outcome,
        *,
        stop_reason: str | None = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = None,
        structured_output: Any = None,
    ) -> None:
        """End the turn. An outcome decided by agentrt overrides the agent's."""
        conversation = self.conversation
        turn = conversation.turn
        assert turn is not None
        if turn.verdict is not None:
            outcome = turn.verdict
            error = turn.timeout
        elif outcome == "cancelled" and turn.denied:
            outcome = "completed"  # some agents report a turn with a denial as cancelled
        if self.log.persister is not None:
            self._unsent.drop(turn, ended=True)
        self.tripwire.turn_ended()
        turn.answer = conversation.items.answer()
        turn.ended = conversation.end(
            outcome,
            stop_reason=stop_reason,
            usage=usage,
            error=error,
            structured_output=structured_output,
        )
        turn.ended_seq = self.log.seq
        if turn.verdict is not None and turn.cursor is not None:
            turn.cursor.skip(turn.ended_seq - 1)
        turn.ended_at = self._clock()
        self.budgets.turn_ended(turn, usage)
        self._host.turn_ended(turn)
        self._deadline_changed = True
        level = logging.WARNING if outcome in _BAD_ENDS else logging.INFO
        if _logger.isEnabledFor(level):
            self._log_end(turn, turn.ended, level)

    def _log_end(self, turn: TurnMachine, ended: TurnEnded, level: int) -> None:
        """Log the end of a turn for the program, with the outcome and its length in seconds."""
        seconds = round(turn.ended_at - turn.began_at, 3)
        why = "" if ended.error is None else f": {ended.error.message}"
        self.scope.say(
            level,
            "the turn ended: %s after %g s%s",
            ended.outcome,
            seconds,
            why,
            turn=turn.id,
            outcome=ended.outcome,
            seconds=seconds,
        )

    @property
    def stopped(self) -> bool:
        """True from a turn's cancel until the agent has ended the turn or its process has ended."""
        turn = self.turn
        if turn is None:
            return self.conversation.life is ProcessLife.REPLACING
        return turn.verdict is not None

    # --- deadlines

    def next_deadline(self) -> DueDeadline:
        """Return the next deadline and the action that is due then."""
        driver, limits = self._ends_by_silence, self.limits
        awaits = driver is not None and driver.awaits_silence
        idle_report_s = limits.end_silence_s if awaits else None
        turn = self.conversation.turn
        if turn is None and idle_report_s is None:
            return NEVER
        # Only silence needs it, and most turns have no such limit.
        silent = turn is not None and (turn.limits.idle_timeout_s is not None or not turn.explicit)
        return next_deadline(
            turn,
            active_at=self.active_at,
            idle_report_s=idle_report_s,
            silence_s=limits.end_silence_s,
            tail_s=limits.queued_end_silence_s if silent and self.queue.flows else None,
            serving=silent and self.serving,
        )

    def retire_silent(self, level: Literal["info", "warning"], code: str, limit_s: float) -> None:
        """End the process of an agent that was silent for `limit_s` seconds, and log a notice."""
        if self.retire():
            message = f"the agent was silent for {limit_s:g} s: its process is ended"
            self.add_notice(Notice(level, code, f"{message}, and started again by the next prompt"))

    def end_hung(self, limit_s: float) -> None:
        """End the agent's current work if it has been silent for `limit_s` seconds."""
        turn = self.turn
        if not self.ready or self.serving or self._clock() - self.active_at < limit_s:
            return
        if turn is None and not self.idle:
            self.retire_silent("warning", "hung", limit_s)
        elif turn is not None and turn.state is TurnMachineState.RUNNING:
            if turn.retry_at == math.inf:
                self.time_out(turn, "hang", limit_s)

    def extend_limits(self, gap_s: float) -> None:
        """Move the limits by the seconds during which this program did not run.

        A deadline set by the program is not moved.
        """
        self.active_at += gap_s
        turn = self.conversation.turn
        if turn is None or turn.state in FINAL:
            return
        with self.step():
            self._deadline_changed = True
            turn.grace_at += gap_s
            turn.resend_at += gap_s
            own = turn.scope is None or turn.scope.deadline == turn.hard_at
            if turn.hard_left is None and not turn.moved and own and turn.hard_at < math.inf:
                self._set_hard(turn, turn.hard_at + gap_s)
            message = (
                f"this program did not run for {gap_s:.0f} s: the turn's limits are"
                " extended by that time"
            )
            self._noticed(Notice("info", "stood_still", message))

    def on_deadline(self) -> None:
        """Carry out the action of a deadline that has passed."""
        _, deadline = self.next_deadline()
        turn = self.turn
        with self.step():
            self._deadline_changed = True
            if deadline is Deadline.IDLE_REPORT:
                assert self._ends_by_silence is not None
                self.receive(self._ends_by_silence.end_by_silence())
                return
            assert turn is not None
            match deadline:
                case Deadline.RESEND:
                    turn.resend_at = turn.grace_at
                    self.scope.say(logging.INFO, "the cancel is sent again", turn=turn.id)
                    self._send_cancel()
                case Deadline.GRACE if not turn.explicit:
                    self.end_turn("cancelled")  # no message could have reported its end
                case Deadline.GRACE:
                    self._give_up(_ignored(turn.limits.cancel_grace_s))
                case Deadline.SILENCE:
                    self.end_turn("completed")
                case Deadline.HARD:
                    self._reach_hard(turn)
                case Deadline.RETRY:
                    self._send_again(turn)
                case Deadline.BUDGET:
                    self.budgets.expired()
                case Deadline.IDLE:
                    self.time_out(turn, "idle", turn.limits.idle_timeout_s)

    def _give_up(self, why: Notice) -> None:
        """Give up on the agent's end of a cancelled turn: end the turn and the process."""
        self._noticed(why)
        self.end_turn("cancelled")
        self.replace()

    def end_now(self) -> None:
        """End the process and its cancelled turn, without waiting for the grace period."""
        if self.turn is not None:
            with self.step():
                words = "the agent is being ended, as a user asked"
                self._give_up(Notice("info", "agent_ended", words))

    def reset_idle_timer(self) -> None:
        """Restart the idle timer: the agent was answered, or a wait for it has ended."""
        self.active_at = self._clock()
        turn = self.conversation.turn
        # The other deadlines do not depend on silence, and most turns have no limit of it.
        if turn is None or not turn.explicit or turn.limits.idle_timeout_s is not None:
            self._deadline_changed = True
        if not self._depth:
            self._end_step()

    # --- effects of a driver, one method per effect

    def _modes_set(self, effect: ModesSet) -> None:
        """Show new modes, and warn about a mode in which the agent does not ask for permission.

        The warning is given when a mode begins, not with every report, and also if the agent itself
        has changed the mode.
        """
        mode = effect.modes.mode
        self.conversation.take(effect)
        if mode == self._mode:
            return
        self._mode = mode
        if mode is None:
            return
        label = next((each.name for each in effect.modes.modes if each.id == mode), "")
        if (problem := self.standing.mode_problem(mode, label)) is not None:
            self._noticed(Notice("warning", "mode_does_not_ask", problem, {"mode": mode}))

    def _tool_called(self, effect: ToolCalled) -> None:
        """Show a tool call, and compare it with the rules that apply even to unasked calls.

        The order matters. A call that the agent itself refused by a rule is shown as a denied
        question first. After the call is shown, the tripwire can end the turn for a call that was
        made although a rule forbids it.
        """
        if not self.standing.refuses:  # no rule can apply to it
            self.conversation.items.tool_called(effect)
            return
        if (refused := self.tripwire.refused_by_agent(effect)) is not None:
            self.questions.show_denied(*refused)
        self.conversation.items.tool_called(effect)
        self.tripwire.called(effect)

    def _used(self, effect: UsageSet) -> None:
        """Charge reported usage to the budgets before it is shown, since it can end the turn."""
        self.budgets.used(effect.usage)
        self.conversation.take(effect)

    def _task_reported(self, effect: TaskSet) -> None:
        """Show a background task. Such a report explains a turn that ends without any output."""
        self._after_cancel.reported_task = True
        self.conversation.take(effect)

    def _user_content_received(self, effect: UserContentReceived) -> None:
        """Show user content from the agent, and learn from it which prompts the agent remembers.

        There are three cases. During the handshake of a resumed conversation it is a repeated
        prompt, to be compared with the session's own. In a new session before the first prompt it
        belongs to a conversation that the agent was not asked to load, which is reported once.
        Otherwise it is the echo of a prompt that was sent.
        """
        if effect.replay:
            self._repeated_prompts.add(effect.content)
        elif not self._prompted and self.opening.resume is None:
            self._prompted = True
            self._noticed(_UNEXPECTED)
        else:
            self._after_cancel.echoed(effect.content)
        self.conversation.take(effect)

    def _signal(self, effect: Signal) -> None:
        """Interrupt the agent's process, for protocols in which only a signal cancels a turn."""
        self._host.interrupt()
        self.active_at = self._clock()  # the silence counts from here: the signal may be an answer

    def _withdrawn(self, effect: RequestWithdrawn) -> None:
        """Close a request that the agent does not wait for any more, and stop its handler."""
        self._host.stop(effect.key)
        self.conversation.resolve(effect.key, "cancelled", by="agent")
        self.reset_idle_timer()

    def _turn_began(self, effect: TurnBegan) -> None:
        """Begin a turn that the agent started by itself, or note that the end of one is explicit.

        `effect.explicit` means that the protocol will report the end of the turn. Other turns of
        the agent end by silence.
        """
        turn = self.turn
        if turn is None:
            self.conversation.begin_own(explicit=effect.explicit)
        elif turn.origin == "agent" and effect.explicit:
            turn.explicit = True

    def _turn_finished(self, effect: TurnFinished) -> None:
        """End the running turn, or one of the prompts that were sent into it.

        The agent's outcome is not final. A failure by a rate limit keeps the turn open, to send the
        prompt again later. If the end shows that an earlier cancel has broken the process
        (`AfterCancel`), the process is replaced. An end that belongs neither to the running turn
        nor to a prompt sent into it is logged as `stale` and has no other effect.
        """
        turn = self.conversation.turn
        if effect.folded:
            self._steered = self._steered.difference(effect.folded)
        if turn is not None and (
            turn.id == effect.turn or (effect.turn is None and turn.origin == "agent")
        ):
            wait_s = None
            if effect.outcome == "failed":
                wait_s = self._rate_limits.wait_s(turn, effect.error)
            if wait_s is not None:
                self._wait_for_limit(turn, wait_s, effect.usage)
                return
            end = self._prompt_end(turn, effect.outcome)
            self.end_turn(
                effect.outcome,
                stop_reason=effect.stop_reason,
                usage=effect.usage,
                error=effect.error,
                structured_output=effect.structured_output,
            )
            if turn.origin == "user" and self._after_cancel.ended(end):
                self._noticed(_stuck(end))
                self.replace()
        elif effect.turn in self._steered:
            self._steered -= {effect.turn}  # the agent dropped it
        else:
            self._noticed(
                Notice("info", "stale", "the end of an earlier turn arrived late", effect.turn)
            )

    def _wait_for_limit(self, turn: TurnMachine, wait_s: float, usage: Usage | None) -> None:
        """Keep a turn open that a rate limit has ended, and send its prompt again later."""
        self.budgets.attempt_failed(usage)
        if turn.hard_left is None:
            self.pause(turn)
        turn.retry_at = self._clock() + wait_s
        turn.waits_until = self._wall() + wait_s
        turn.waited_s += wait_s
        self._deadline_changed = True

    def _send_again(self, turn: TurnMachine) -> None:
        """Send the prompt of a turn once more, after the end of the rate limit that has ended it.

        The turn fails if the agent cannot take the prompt now, and ends as `agent_died` if its
        process ended while the turn waited.
        """
        turn.retry_at, turn.waits_until = math.inf, None
        turn.retries += 1
        self.active_at = self._clock()
        if self.driver is None:
            self.end_turn("agent_died")
            return
        try:
            prompt = self._prompt(turn, turn.id)
        except Exception as error:
            self.end_turn("failed", error=ErrorInfo("protocol", str(unsendable(error))))
            return
        self.receive(prompt)

    def _prompt_end(self, turn: TurnMachine, outcome: Outcome) -> PromptEnd:
        """Classify the end of a turn that is still running."""
        if turn.verdict is not None:
            return PromptEnd.STOPPED
        if outcome == "cancelled":
            # Some agents report a turn with a denial as cancelled.
            return PromptEnd.ANSWERED if turn.denied else PromptEnd.CANCELLED_UNASKED
        if not self._after_cancel.watches:
            return PromptEnd.ANSWERED
        return prompt_end(
            self.log.state,
            turn.id,
            outcome,
            self._after_cancel.echoes,
            reported_task=self._after_cancel.reported_task,
        )

    def _opened(self, effect: Started) -> None:
        """Take over the results of the handshake: the agent's session, capabilities and history.

        If the conversation was resumed, the prompts that the agent repeated are compared with the
        last ones of this session; a notice informs the user if the agent has lost some. While the
        log takes over the repeated history (`keep_replay`), there is nothing to compare.
        """
        conversation = self.conversation
        self.agent_session = effect.session
        self.capabilities = effect.capabilities
        if effect.agent_version is not None:
            conversation.agent = structs.replace(conversation.agent, version=effect.agent_version)
        conversation.items.replayed()
        if effect.repeated and not conversation.keep_replay:
            prompts = prompts_to_remember(self.log.state)
            if (n := count_remembered(prompts, self._repeated_prompts.pieces)) < len(prompts):
                self._noticed(_shorter(n, len(prompts)))
        self._repeated_prompts = RepeatedPrompts()
        conversation.apply_life_input(ProcessLifeInput.OPEN)
        self._send_title()
        if (problem := self.standing.agent_problem()) is not None and not effect.resumed:
            self._noticed(Notice("warning", "agent_does_not_ask", problem))

    def _refused(self, effect: StartFailed) -> None:
        """Keep the agent's reason for refusing the start, of which the host makes an error."""
        self.start_failed = effect

    def handler_failed(self, what: str, error: Exception) -> None:
        """Record an exception of the program's own code; its caller gets an error as the answer."""
        words = f"{type(error).__name__}: {error}"
        message = f"{what} failed: {words}"
        turn = None
        if self.turn is not None:
            turn = self.turn.id
            self.turn.failures += (Failure(what=what, error=words),)
        self.scope.say(logging.ERROR, "%s failed", what, turn=turn, exc_info=error)
        with self.step():  # as in the session's log
            self.log.append(Notice("error", "handler_failed", message))

    def pause(self, turn: TurnMachine) -> None:
        """Stop the hard limit's clock while a person is asked."""
        turn.hard_left = turn.hard_at - self._clock()
        self._set_hard(turn, math.inf)

    def _set_hard(self, turn: TurnMachine, at: float) -> None:
        """Set the time of the turn's hard limit on Trio's clock; infinity stops the limit's clock.

        The turn's cancel scope and the deadline shown to viewers, in seconds since 1970, follow it.
        """
        turn.hard_at = at
        if turn.scope is not None:
            turn.scope.deadline = at
        turn.deadline = None if at == math.inf else self._wall() + at - self._clock()
        self._deadline_changed = True

    def _conversed(self, effect: Effect) -> None:
        """Pass on an effect that only changes the transcript."""
        self.conversation.take(effect)

    _HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        **dict.fromkeys(Conversation.EFFECTS, _conversed),
        # The most frequent effect takes the shortest way.
        TextReceived: lambda self, effect: self.conversation.items.text_received(effect),
        Write: lambda self, effect: self._host.write(effect),
        Signal: _signal,
        UserContentReceived: _user_content_received,
        DecisionRequested: lambda self, effect: self.questions.asked(effect),
        ToolCheckRequested: lambda self, effect: self.questions.checking(effect),
        ToolCalled: _tool_called,
        UsageSet: _used,
        TaskSet: _task_reported,
        ModesSet: _modes_set,
        ServiceRequested: lambda self, effect: self.requests.requested(effect),
        RequestWithdrawn: _withdrawn,
        TurnBegan: _turn_began,
        TurnFinished: _turn_finished,
        Started: _opened,
        StartFailed: _refused,
        CallReturned: lambda self, effect: self.requests.returned(effect),
        SecretsSent: lambda self, effect: self._host.hide(effect.values),
        Notice: _noticed,
    }
    """The method for each type of effect, shared by all sessions."""
