"""The conversation: turns a driver's effects into events and enforces the rules of a turn.

Items, permission requests and turns are opened and closed only here. The rules:

- each `turn.started` is followed by exactly one `turn.ended`, and nothing of that turn is open
  then;
- an event for a turn that is over is late: it is reported once as a notice and never reopens the
  turn;
- a cancelled turn's items are closed immediately, whatever the agent still sends for it;
- content outside a turn begins an agent-started turn.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from operator import gt, is_
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from ..errors import LocalProtocolError
from ..limits import Limits
from .driver import (
    BlockReceived,
    CommandsSet,
    DecisionRequested,
    Effect,
    ModesSet,
    PlanSet,
    Retracted,
    TaskSet,
    TextEnded,
    TextReceived,
    TitleSet,
    ToolCalled,
    UsageSet,
    UserContentReceived,
)
from .events import (
    NO_ORIGIN,
    TERMINAL,
    AgentState,
    AnswerOrigin,
    CancelledBy,
    CommandsChanged,
    ErrorInfo,
    Event,
    Item,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    Modes,
    ModesChanged,
    Notice,
    Outcome,
    PermissionClosed,
    PermissionOpened,
    Phase,
    PlanChanged,
    QueueChanged,
    RunningTurn,
    State,
    StateChanged,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
    cut,
    cut_commands,
    cut_modes,
    cut_task,
)
from .items import Items
from .life import ENDED, GONE, ProcessLife, ProcessLifeInput, next_life
from .life import PHASES as LIFE_PHASES
from .log import Log
from .prompt_queue import PromptQueue
from .state import left_open
from .turn import PHASES, TurnMachine, TurnMachineInput
from .turn import TurnMachineState as Machine

CLOSING: Final[dict[Outcome, ItemStatus]] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "timed_out": "cancelled",
    "refused": "cancelled",
    "limit": "cancelled",
    "failed": "failed",
    "agent_died": "orphaned",
}
"""The status of an item that the agent left open at the end of its turn, by the turn's outcome."""

CLOSED_WITH_TASK: Final[dict[str, ItemStatus]] = {
    "cancelled": "cancelled",
    "failed": "failed",
    "orphaned": "orphaned",
}
"""The status of an item that background work left open, by the status of that work."""

_COUNTS: Final = Usage.__struct_fields__
_NONES: Final = (None,) * len(_COUNTS)

_DELTAS: Final[dict[str, type[ItemDelta]]] = {"text": TextDelta, "thought": ThoughtDelta}
"""The Python class of a delta, by the type of its item. As JSON they are one kind."""


class Conversation:
    """A session's conversation, and the only writer of its log.

    Every method is synchronous. `sync` appends a `state` event if the state has changed; call it
    once after each batch, then `log.publish()`.
    """

    def __init__(
        self,
        log: Log,
        *,
        agent: AgentState,
        now: Callable[[], float],
        limits: Limits | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Create an empty conversation that writes to `log`.

        `now` is the wall clock, `clock` Trio's, both in seconds. `limits` are those of the turns
        that the agent begins by itself.
        """
        self.log = log
        self.turn: TurnMachine | None = None
        """The running turn; None as soon as it has ended."""
        self.queue: PromptQueue = PromptQueue()
        self.agent = agent
        self.life: ProcessLife = ProcessLife.STARTING
        """The process's life cycle. The phase is derived from it and the turn."""
        self.error: ErrorInfo | None = None
        self.items: Items = Items(log, weakref.proxy(self))
        self.keep_replay: bool = True
        self._now = now
        self._clock = clock
        self._limits = limits or Limits()
        self._append = log.append
        self._ids: dict[str, int] = {}
        self._named = False
        self.modes: Modes = log.state.modes or Modes()
        """The settings shown last."""
        self._unconfirmed: list[str] = []
        """The settings with an unanswered change that is not waited for, one entry per request."""
        self._shown_state: State | None = None
        self._has_ended = False
        """True if a process has ended, perhaps one that came and went since the last state, and its
        work is still open.
        """

    def new_id(self, kind: str) -> str:
        """Return an id that is unique in this log: `t1`, `i1`, `r1`, …"""
        ids = self._ids
        ids[kind] = number = ids.get(kind, 0) + 1
        return f"{kind}{number}"

    def take(self, effect: Effect) -> None:
        """Apply one effect. It must be of a type in `EFFECTS`."""
        self._HANDLERS[type(effect)](self, effect)

    # --- the turn

    def begin(self, turn: TurnMachine, id: str | None = None) -> None:
        """Start a turn. Raises `LocalProtocolError` while another one runs."""
        if self.turn is not None:
            raise LocalProtocolError(f"turn {self.turn.id} is running")
        turn.apply(TurnMachineInput.START)
        turn.id = id = id or self.new_id("t")
        now, clock, append = self._now, self._clock, self._append
        turn.since = now()
        turn.began_at = clock()
        if (hard := turn.limits.turn_timeout_s) is not None:
            turn.deadline = turn.since + hard
            turn.hard_at = turn.began_at + hard
        self.turn = turn
        self.items.begin(id, echoes=turn.origin == "user")
        append(TurnStarted(id, turn.origin, turn.content))
        if turn.content is not None:
            self.items.prompted(turn.content)

    def begin_own(self, *, explicit: bool) -> TurnMachine:
        """Start a turn that the agent began."""
        turn = TurnMachine("agent", self._limits, explicit=explicit)
        self.begin(turn)
        return turn

    def cancel(
        self, by: CancelledBy | None, deadline: float | None, origin: AnswerOrigin = NO_ORIGIN
    ) -> None:
        """Close everything open immediately and wait for the agent to end the turn.

        Idempotent.
        """
        turn = self._running()
        first = turn.state is not Machine.CANCELLING
        turn.apply(TurnMachineInput.CANCEL)
        if first:
            turn.by = by
            turn.cancelled_from = origin
            turn.cancel_deadline = deadline
            self.items.close_all("cancelled", "cancelled")
            self.items.admits = False

    def end(
        self,
        outcome: Outcome,
        *,
        stop_reason: str | None = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = None,
        structured_output: Any = None,
    ) -> TurnEnded:
        """End the running turn: close its open items, then append its `TurnEnded` and return it."""
        turn = self._running()
        by: CancelledBy | None = None
        if outcome == "cancelled":
            by = turn.by if turn.state is Machine.CANCELLING else "agent"
        closing = CLOSING[outcome]
        self.items.close_all(closing, closing if closing != "failed" else "completed")
        self.items.end()
        turn.apply(TurnMachineInput.END)
        self.turn = None
        ended = TurnEnded(
            turn=turn.id,
            outcome=outcome,
            by=by,
            who=turn.cancelled_from.who if by is not None else "",
            via=turn.cancelled_from.via if by is not None else "",
            stop_reason=stop_reason,
            usage=usage,
            error=error,
            structured_output=structured_output,
        )
        self._append(ended)
        return ended

    def _running(self) -> TurnMachine:
        """Return the running turn. Raises `LocalProtocolError`."""
        if self.turn is None:
            raise LocalProtocolError("no turn is running")
        return self.turn

    # --- questions

    def ask(
        self, effect: DecisionRequested, expires: float | None, *, decided: bool = False
    ) -> bool:
        """Show a question. Returns False if its turn is being cancelled.

        The answer is `cancelled` in that case. `decided`: the question will be resolved in the same
        step, so nothing waits for it.
        """
        if not self.items.ask(effect, expires, decided=decided):
            return False
        if not decided and not effect.background:
            assert self.turn is not None  # to which the question was admitted
            self.turn.apply(TurnMachineInput.ASK)
        return True

    def resolve(
        self,
        key: str,
        outcome: Any,
        *,
        by: str,
        option: str | None = None,
        denied: bool = False,
        reason: str = "",
        origin: AnswerOrigin = NO_ORIGIN,
        rule: str = "",
    ) -> bool:
        """Close a question. Return False if it is not open (another answer was faster).

        `denied`: also close the tool call that it was about. `origin` answered it, by this `rule`.
        """
        return self.items.resolve(
            key,
            outcome,
            by=by,
            option=option,
            denied=denied,
            reason=reason,
            origin=origin,
            rule=rule,
        )

    def call_client(self, effect: ToolCalled) -> str | None:
        """Show a tool call that a client must run (its status is `waiting`), and wait for it.

        Returns its item, or None if its turn is being cancelled.
        """
        self.items.tool_called(effect)
        item = self.items.open_call(effect.id)
        if item is not None:
            self._running().apply(TurnMachineInput.ASK)
        return item

    def admit(self, replay: bool) -> bool:
        """Return True if content is shown.

        Begins an agent-started turn if the content needs one.
        """
        dropped = self.items.dropped
        if replay:
            if not self.keep_replay:
                dropped["replay"] += 1
            return self.keep_replay
        if self.turn is None:
            self.begin_own(explicit=False)
        elif self.turn.state is Machine.CANCELLING:
            dropped["cancelling"] += 1
            return False
        return True

    # --- values that are replaced as a whole

    def _used(self, effect: UsageSet) -> None:
        """Show usage. A count that this report omits keeps its last value.

        Agents send some figures at the end of a turn only, and others all the time.
        """
        known = self.log.state.usage
        usage = effect.usage
        if known is not None and _omits_counts(usage, known):
            counts = zip(_COUNTS, astuple(usage), astuple(known), strict=True)
            for name, now, before in counts:
                if now is None and before is not None:
                    setattr(usage, name, before)
            usage.models = usage.models or known.models
        self._append(UsageChanged(usage))

    # --- settings

    def show_modes(self, modes: Modes) -> None:
        """Show these settings, together with the unconfirmed ones."""
        unconfirmed = sorted(set(self._unconfirmed))
        self.modes = msgspec.structs.replace(modes, unconfirmed=unconfirmed)
        self._append(ModesChanged(self.modes))

    def unconfirm(self, setting: str) -> None:
        """Record that the agent's answer to a change of this setting is not waited for any more."""
        self._unconfirmed.append(setting)
        self.show_modes(self.modes)

    def confirm(self, setting: str) -> None:
        """Record that the answer to such a change has come or never will."""
        self._unconfirmed.remove(setting)
        self.show_modes(self.modes)

    def _titled(self, effect: TitleSet) -> None:
        """Show the agent's title, unless a person gave one."""
        if not self._named:
            self._append(TitleChanged(effect.title and cut(effect.title)))

    def _task(self, effect: TaskSet) -> None:
        """Show a background task, and connect it with the tool call that has started it.

        A task that `detaches` takes the steps below its call out of their turn while it works, and
        closes them at its end.
        """
        task, call = cut_task(effect.task), effect.call
        if call is not None:
            if effect.detaches and task.status not in TERMINAL:
                self.items.detach(call, task.title)
            elif effect.detaches:
                self.items.close_detached(call, CLOSED_WITH_TASK.get(task.status, "completed"))
            task = msgspec.structs.replace(task, item=self.items.item_of(call))
        self._append(TaskChanged(task))

    def rename(self, title: str) -> None:
        """Set a title given by a person, which later titles from the agent do not replace."""
        self._named = True
        self._append(TitleChanged(cut(title)))

    def show_queue(self) -> None:
        """Append a `QueueChanged` if the queued prompts have changed."""
        entries, paused, shown = self.queue.entries, self.queue.paused, self.log.state
        if entries != shown.queue or paused != shown.paused:
            self._append(QueueChanged(entries, paused))

    # --- the process

    def apply_life_input(self, input: ProcessLifeInput) -> None:
        """Move the process's life cycle on. Raises `LocalProtocolError` for an illegal input."""
        life, self.life = self.life, next_life(self.life, input)
        self._has_ended |= self.life in GONE and life not in GONE

    @property
    def ended(self) -> bool:
        """True once the session is being closed."""
        return self.life in ENDED

    # --- after a restart of agentrt

    @property
    def ids(self) -> dict[str, int]:
        """The last number given to each kind of id."""
        return dict(self._ids)

    @property
    def named(self) -> bool:
        """True if a person gave the title."""
        return self._named

    def restore(
        self,
        events: Iterable[Event],
        *,
        ids: Mapping[str, int] | None = None,
        named: bool = False,
    ) -> list[Event]:
        """Continue with events logged by an earlier process of agentrt. Call `orphan` next.

        The events follow those in the log's state; `ids` and `named` belong to that state. Returns
        the events as they are in the log.
        """
        self._ids.update(ids or {})
        self._named = named
        restored = []
        for event in events:
            if type(event) is ItemDelta:
                item = self.log.state.items.get(event.item)
                if item is not None:
                    event = _DELTAS.get(item.type, ItemDelta)(event.item, event.text)
            self._append(event)
            restored.append(event)
            for id in _ids(event):
                letter = id.rstrip("0123456789")
                self._ids[letter] = max(self._ids.get(letter, 0), int(id[len(letter) :] or 0))
        self.modes = self.log.state.modes or self.modes
        return restored

    def orphan(self, *, resumes: bool = False) -> None:
        """Close everything that the earlier process left open, because its result is unknown.

        Prompts in its queue stay there, paused. `resumes`: the agent can resume its conversation,
        so people may still answer its questions.
        """
        asked = dict(self.log.state.permissions)
        for event in left_open(self.log.state):
            if isinstance(event, TurnEnded):
                event.error = ErrorInfo(
                    "interrupted", "the program that ran the agent ended during this turn"
                )
            elif isinstance(event, PermissionClosed):
                if resumes and asked[event.request].orphaned:
                    continue
                event.reason = "the program that ran the agent ended before an answer"
                if not resumes:
                    event.reason += ", and the agent cannot resume its conversation"
            self._append(event)
        if resumes:
            self.ask_again(asked.values())
        for entry in self.log.state.queue:  # each is put after the one before
            waiting = TurnMachine("user", self._limits, entry.content)
            waiting.entry = entry.id
            self.queue.put(waiting)
        self.queue.pause()
        self.show_queue()
        if self.modes.unconfirmed:
            self.show_modes(self.modes)  # the process that was asked has ended
        self.apply_life_input(ProcessLifeInput.END)
        self.keep_replay = False
        self.sync()

    def ask_again(self, requests: Iterable[PermissionOpened]) -> None:
        """Show the questions of an ended process again, if the agent can still get their answers.

        These are the ones with options or a form. Questions of agentrt itself are asked anew if
        they still matter.
        """
        for request in requests:
            if request.subject:
                continue
            if request.options or request.form is not None:
                self.items.ask_again(request)

    # --- the state

    def sync(self) -> bool:
        """Append a `state` event if the state differs from the last one. Return True if it did.

        A turn runs on here, if nothing that it waited for is open any more.
        """
        turn = self.turn
        if turn is not None and turn.state is Machine.WAITING and not self.items.waits:
            turn.apply(TurnMachineInput.RESOLVE)
        life = self.life
        phase: Phase | None = LIFE_PHASES.get(life)
        shown: RunningTurn | None = None
        if turn is not None:
            shown = RunningTurn(
                turn.id, turn.origin, turn.since, turn.deadline, turn.cancel_deadline
            )
            if turn.waits_until is not None:
                shown.waits_until = turn.waits_until
            phase = phase or PHASES[turn.state]
        state = State(phase or "idle", shown, self.agent, self.error)
        same = state == self._shown_state
        if life in GONE and (self._has_ended or not same):
            self._has_ended = False
            self._orphan_background()
        if same:
            return False
        self._shown_state = state
        append = self._append
        append(StateChanged(state))
        return True

    def _orphan_background(self) -> None:
        """Close the background work of the process that has ended."""
        self.items.close_background()
        for task in self.log.state.open_tasks():
            self._append(TaskChanged(msgspec.structs.replace(task, status="orphaned")))

    _HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        TextReceived: lambda self, effect: self.items.text_received(effect),
        BlockReceived: lambda self, effect: self.items.block_received(effect),
        UserContentReceived: lambda self, effect: self.items.user_content_received(effect),
        TextEnded: lambda self, effect: self.items.text_ended(effect),
        Retracted: lambda self, effect: self.items.retracted(effect),
        ToolCalled: lambda self, effect: self.items.tool_called(effect),
        PlanSet: lambda self, effect: self.log.append(PlanChanged(effect.entries)),
        UsageSet: _used,
        ModesSet: lambda self, effect: self.show_modes(cut_modes(effect.modes)),
        CommandsSet: lambda self, effect: self.log.append(
            CommandsChanged(cut_commands(effect.commands))
        ),
        TitleSet: _titled,
        TaskSet: _task,
        Notice: lambda self, effect: self.log.append(effect),
    }
    """The method for each type of effect, shared by all conversations."""

    EFFECTS: Final = frozenset(_HANDLERS)
    """The types of the effects that a conversation handles."""


def _omits_counts(usage: Usage, known: Usage) -> bool:
    """Return True if a known count is missing in `usage`. This is rare, so the test runs in C."""
    return any(map(gt, map(is_, astuple(usage), _NONES), map(is_, astuple(known), _NONES)))


def _ids(event: Event) -> list[str]:
    """Return the ids that an event introduces."""
    match event:
        case TurnStarted(turn=id) | ItemOpened(item=Item(id=id)) | PermissionOpened(request=id):
            return [id]
        case QueueChanged(queue=entries):
            return [entry.id for entry in entries]
        case _:
            return []
