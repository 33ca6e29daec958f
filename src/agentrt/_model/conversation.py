"""The conversation: what a driver tells becomes events, and the rules of a turn are kept.

Here, and only here, items, permission requests and turns are opened and closed. The rules:

- exactly one `turn.ended` per `turn.started`, and nothing of that turn is open then;
- what arrives for a turn that is over is late: told once as a notice, never a reopening;
- a cancelled turn is closed at once, whatever the agent still sends for it;
- content outside a turn begins a turn of the agent's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from .content import Block, JsonObject, TerminalRef
from .driver import (
    Asked,
    CommandsSet,
    ModesSet,
    PlanSet,
    Said,
    Showed,
    SpeechEnded,
    Spoke,
    TaskSet,
    TitleSet,
    ToolCalled,
    UsageSet,
)
from .events import (
    TERMINAL,
    AgentState,
    CancelledBy,
    CommandsChanged,
    Error,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    Origin,
    Outcome,
    PermissionClosed,
    PermissionOpened,
    PlanChanged,
    QueueChanged,
    QueueEntry,
    State,
    StateChanged,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    Tool,
    TurnEnded,
    TurnStarted,
    TurnState,
    Usage,
    UsageChanged,
)
from .log import Log
from .turn import PHASES, TurnInput, TurnMachine
from .turn import TurnState as Machine

CLOSING: Final[dict[Outcome, ItemStatus]] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "timed_out": "cancelled",
    "refused": "cancelled",
    "limit": "cancelled",
    "failed": "failed",
    "agent_died": "orphaned",
}
"""What becomes of an item that the agent left open at the end of its turn."""


class _Speech(Struct):
    """The text or thought item that grows now."""

    item: str
    thought: bool
    message: str | None
    replay: bool


class _Call(Struct):
    """A tool call of the agent and the item that shows it."""

    item: str
    turn: str | None
    status: ItemStatus
    """The agent's own word, also while a permission request shows the item as `waiting`."""
    asks: int = 0
    told_late: bool = False


class _Ask(Struct):
    request: PermissionOpened
    call: _Call | None


class Conversation:
    """One session's conversation: writes the log, and is the only one who does.

    Every method is synchronous. `sync` appends a `state` event if the state changed; call it once
    after each batch, then `log.publish()`.
    """

    def __init__(self, log: Log, *, agent: AgentState, now: Callable[[], float]) -> None:
        self.log = log
        self.turn: TurnMachine | None = None
        self.agent = agent
        self.lifecycle: str = "starting"
        """`starting`, `ready`, `dead` or `closed`; the phase is derived from it and the turn."""
        self.error: Error | None = None
        self.released: list[str] = []
        """Keys of requests that were closed from here; the runtime stops their handlers and tells
        the agent."""
        self.dropped: Counter[str] = Counter()
        """What was not shown, by reason: `late`, `cancelling`, `echo`, `replay`."""
        self.keep_replay = True
        self._now = now
        self._append = log.append
        self._ids: Counter[str] = Counter()
        self._speech: dict[str | None, _Speech] = {}
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, _Call] = {}  # of the running turn: the calls that are not over
        self._asks: dict[str, _Ask] = {}
        self._answer: list[str] = []  # the text items of the running turn
        self._queue: list[QueueEntry] = []
        self._paused = False
        self._said: tuple[object, ...] = ()
        self._apply: dict[type, Callable[[Any], None]] = {
            Spoke: self.spoke,
            Showed: self._showed,
            Said: self._user_said,
            SpeechEnded: self._speech_ended,
            ToolCalled: self.tool_called,
            PlanSet: lambda e: self._append(PlanChanged(e.entries)),
            UsageSet: self._used,
            ModesSet: lambda e: self._append(ModesChanged(e.modes)),
            CommandsSet: lambda e: self._append(CommandsChanged(e.commands)),
            TitleSet: lambda e: self._append(TitleChanged(e.title)),
            TaskSet: lambda e: self._append(TaskChanged(e.task)),
            Notice: self._append,
        }

    def new_id(self, kind: str) -> str:
        """An id that is unique in this log: `t1`, `i1`, `r1`, …"""
        self._ids[kind] += 1
        return f"{kind}{self._ids[kind]}"

    @property
    def handled(self) -> dict[type, Callable[[Any], None]]:
        """The effects that the conversation takes, each with its method."""
        return self._apply

    # --- the turn

    def begin(
        self,
        origin: Origin,
        prompt: list[Block] | None = None,
        *,
        deadline: float | None = None,
        explicit: bool = True,
    ) -> TurnMachine:
        """Start a turn. Illegal while another one runs."""
        assert self.turn is None, "one turn at a time"
        turn = TurnMachine(self.new_id("t"), origin, self._now(), deadline, explicit=explicit)
        self.turn = turn
        self._append(TurnStarted(turn.id, origin, prompt))
        if prompt is not None:
            self._append(
                ItemOpened(
                    Item(
                        id=self.new_id("i"),
                        type="user",
                        turn=turn.id,
                        status="completed",
                        content=prompt,
                    )
                )
            )
        return turn

    def cancel(self, by: CancelledBy | None, deadline: float | None) -> None:
        """Close everything open at once and wait for the agent's end. Idempotent."""
        turn = self.turn
        assert turn is not None
        first = turn.state is not Machine.CANCELLING
        turn.apply(TurnInput.CANCEL)
        if first:
            turn.by = by
            turn.cancel_deadline = deadline
            self._close_all("cancelled", "cancelled")

    def end(
        self,
        outcome: Outcome,
        *,
        stop_reason: str | None = None,
        usage: Usage | None = None,
        error: Error | None = None,
        structured_output: Any = None,
    ) -> TurnEnded:
        """End the running turn: close what is open, then say so."""
        turn = self.turn
        assert turn is not None
        closing = CLOSING[outcome]
        self._close_all(closing, closing if closing != "failed" else "completed")
        turn.apply(TurnInput.END)
        self.turn = None
        self._answer = []
        ended = TurnEnded(
            turn=turn.id,
            outcome=outcome,
            by=turn.by if outcome == "cancelled" else None,
            stop_reason=stop_reason,
            usage=usage,
            error=error,
            structured_output=structured_output,
        )
        self._append(ended)
        return ended

    def answer_text(self) -> str:
        """The running turn's answer, so far: its text, without thoughts and sub-agents."""
        return "".join(map(self.log.state.text, self._answer))

    def _close_all(self, tools: ItemStatus, speech: ItemStatus) -> None:
        for key in list(self._asks):
            self.resolve(key, "cancelled", by="turn")
            self.released.append(key)
        for parent in list(self._speech):
            self._close_speech(parent, speech)
        for call in self._open.values():
            call.status = tools
            self._append(ItemClosed(call.item, tools))
        self._open.clear()

    def _take_turn(self) -> TurnMachine | None:
        """The turn that content belongs to; None: it belongs to nothing any more."""
        turn = self.turn
        if turn is None:
            return self.begin("agent", explicit=False)
        if turn.state is Machine.CANCELLING:
            self.dropped["cancelling"] += 1
            return None
        return turn

    # --- what the agent says

    def spoke(self, effect: Spoke) -> None:
        turn = self.turn
        usual = turn is not None and turn.state is not Machine.CANCELLING and not effect.replay
        if not usual and not self._admit(effect.replay):
            return
        speech = self._speech.get(effect.parent)
        if (
            speech is None
            or speech.thought is not effect.thought
            or (effect.message is not None and speech.message != effect.message)
        ):
            speech = self._open_speech(effect.parent, effect.thought, effect.message, effect.replay)
        if effect.thought:
            self._append(ThoughtDelta(speech.item, effect.text))
        else:
            self._append(TextDelta(speech.item, effect.text))

    def _admit(self, replay: bool) -> bool:
        """Whether content is to be shown; begins a turn of the agent's own if it needs one."""
        if replay:
            if not self.keep_replay:
                self.dropped["replay"] += 1
            return self.keep_replay
        return self._take_turn() is not None

    def _open_speech(
        self, parent: str | None, thought: bool, message: str | None, replay: bool
    ) -> _Speech:
        self._close_speech(parent, "completed")
        item = self.new_id("i")
        self._append(
            ItemOpened(
                Item(
                    id=item,
                    type="thought" if thought else "text",
                    turn=self._turn_id(replay),
                    parent=self._parent(parent),
                    message=message,
                    replay=replay,
                )
            )
        )
        speech = self._speech[parent] = _Speech(item, thought, message, replay)
        if not thought and parent is None and not replay:
            self._answer.append(item)
        return speech

    def _close_speech(self, parent: str | None, status: ItemStatus) -> None:
        speech = self._speech.pop(parent, None)
        if speech is not None:
            self._append(ItemClosed(speech.item, status))

    def _speech_ended(self, effect: SpeechEnded) -> None:
        self._close_speech(effect.parent, "completed")

    def _showed(self, effect: Showed) -> None:
        if not self._admit(effect.replay):
            return
        self._close_speech(effect.parent, "completed")
        self._append(
            ItemOpened(
                Item(
                    id=self.new_id("i"),
                    type="thought" if effect.thought else "text",
                    turn=self._turn_id(effect.replay),
                    parent=self._parent(effect.parent),
                    status="completed",
                    content=[effect.block],
                    message=effect.message,
                    replay=effect.replay,
                )
            )
        )

    def _user_said(self, effect: Said) -> None:
        turn = self.turn
        if turn is not None and turn.origin == "user" and not effect.replay:
            self.dropped["echo"] += 1  # the prompt that we showed when it was sent
            return
        if effect.replay and not self._admit(True):
            return
        self._close_speech(None, "completed")
        self._append(
            ItemOpened(
                Item(
                    id=self.new_id("i"),
                    type="user",
                    turn=self._turn_id(effect.replay),
                    status="completed",
                    content=effect.content,
                    message=effect.message,
                    replay=effect.replay,
                )
            )
        )

    def replayed(self) -> None:
        """The history is complete: whatever it left open is closed."""
        for parent, speech in list(self._speech.items()):
            if speech.replay:
                self._close_speech(parent, "completed")
        for call in self._calls.values():
            if call.turn is None and call.status not in TERMINAL:
                call.status = "completed"
                self._append(ItemClosed(call.item, "completed"))

    def _turn_id(self, replay: bool) -> str | None:
        return None if replay or self.turn is None else self.turn.id

    def _parent(self, call: str | None) -> str | None:
        """The item of the tool call that something belongs to."""
        if call is None:
            return None
        known = self._calls.get(call)
        return known.item if known is not None else None

    # --- tool calls

    def tool_called(self, effect: ToolCalled) -> None:
        """Open, change or close the item of a tool call."""
        call = self._calls.get(effect.id)
        if call is not None and (
            call.turn != self._turn_id(effect.replay) or (call.turn is None and not effect.replay)
        ):
            if not effect.opens:
                self._late(call, effect)
                return
            call = None
        if not self._admit(effect.replay):
            return
        if call is None:
            self._open_call(effect)
        else:
            self._update_call(call, effect)

    def _late(self, call: _Call, effect: ToolCalled) -> None:
        self.dropped["late"] += 1
        if not call.told_late:
            call.told_late = True
            self._append(
                Notice(
                    "info",
                    "late",
                    "the agent sent an update for a tool call of a turn that is over",
                    {"item": call.item, "turn": call.turn, "call": effect.id},
                )
            )

    def _open_call(self, effect: ToolCalled) -> _Call:
        self._close_speech(effect.parent, "completed")
        status: ItemStatus = effect.status if effect.status is not UNSET else "pending"
        call = _Call(self.new_id("i"), self._turn_id(effect.replay), status)
        self._calls[effect.id] = call
        tool = Tool(call=effect.id, **_tool_fields(effect))
        self._append(
            ItemOpened(
                Item(
                    id=call.item,
                    type="tool",
                    turn=call.turn,
                    parent=self._parent(effect.parent),
                    status="running" if status in TERMINAL else status,
                    tool=tool,
                    replay=effect.replay,
                )
            )
        )
        if effect.append is not UNSET:
            self._append(ItemDelta(call.item, effect.append))
        if status in TERMINAL:
            self._append(ItemClosed(call.item, status))
        elif not effect.replay:
            self._open[effect.id] = call
        return call

    def _update_call(self, call: _Call, effect: ToolCalled) -> None:
        patch: JsonObject = {}
        tool = _tool_fields(effect)
        if tool:
            patch["tool"] = tool
        status = effect.status
        over = call.status in TERMINAL
        closes = status is not UNSET and not over and status in TERMINAL
        if status is not UNSET and not over and not closes and status != call.status:
            call.status = status
            if not call.asks:
                patch["status"] = status
        if patch:
            self._append(ItemUpdated(call.item, patch))
        if effect.append is not UNSET:
            self._append(ItemDelta(call.item, effect.append))
        if closes:
            assert status is not UNSET
            self._close_call(effect.id, call, status)

    def _close_call(self, id: str, call: _Call, status: ItemStatus) -> None:
        if call.asks:  # the agent went on without the answer
            for key, ask in list(self._asks.items()):
                if ask.call is call:
                    self.resolve(key, "cancelled", by="agent")
                    self.released.append(key)
        call.status = status
        self._open.pop(id, None)
        self._append(ItemClosed(call.item, status))

    def append_output(self, terminal: str, text: str) -> None:
        """Live output of a terminal that a tool call of the running turn shows."""
        for call in self._open.values():
            item = self.log.state.items[call.item]
            if item.tool is not None and any(
                isinstance(part, TerminalRef) and part.terminal_id == terminal
                for part in item.tool.content
            ):
                self._append(ItemDelta(call.item, text))
                return

    # --- questions

    def ask(self, effect: Asked, expires: float | None) -> bool:
        """Show a question. False: its turn is being cancelled, the answer is `cancelled`."""
        turn = self._take_turn()
        if turn is None:
            return False
        call: _Call | None = None
        if effect.tool_call is not None:
            call = self._calls.get(effect.tool_call)
            if call is None or call.turn != turn.id:
                call = self._open_call(
                    ToolCalled(
                        id=effect.tool_call,
                        name=effect.name or UNSET,
                        title=effect.title,
                        kind=effect.tool_kind or UNSET,
                        input=effect.input if effect.input is not None else UNSET,
                    )
                )
            call.asks += 1
            if call.asks == 1 and call.status not in TERMINAL:
                self._append(ItemUpdated(call.item, {"status": "waiting"}))
        request = PermissionOpened(
            request=effect.key,
            title=effect.title,
            item=call.item if call is not None else None,
            detail=effect.detail,
            options=effect.options,
            expires=expires,
            form=effect.form,
            url=effect.url,
        )
        self._asks[effect.key] = _Ask(request, call)
        self._append(request)
        turn.apply(TurnInput.ASK)
        return True

    def open_request(self, key: str) -> PermissionOpened | None:
        """The open question of that key, if it is open."""
        ask = self._asks.get(key)
        return ask.request if ask is not None else None

    def open_requests(self) -> list[str]:
        """The keys of the open questions."""
        return list(self._asks)

    def resolve(
        self,
        key: str,
        outcome: Any,
        *,
        by: str,
        option: str | None = None,
        denied: bool = False,
    ) -> bool:
        """Close a question. `denied`: the tool call that it was about is over, too. False: no
        such question is open (somebody was faster)."""
        ask = self._asks.pop(key, None)
        if ask is None:
            return False
        self._append(PermissionClosed(request=key, outcome=outcome, option=option, by=by))
        call = ask.call
        if call is not None:
            call.asks -= 1
            if call.status not in TERMINAL and not call.asks:
                if denied:
                    id = next((i for i, c in self._open.items() if c is call), "")
                    self._close_call(id, call, "denied")
                else:
                    self._append(ItemUpdated(call.item, {"status": call.status}))
        turn = self.turn
        if not self._asks and turn is not None and turn.state is Machine.WAITING:
            turn.apply(TurnInput.RESOLVE)
        return True

    # --- values that are replaced whole

    def _used(self, effect: UsageSet) -> None:
        known = self.log.state.usage
        usage = effect.usage
        if known is not None:
            new = {k: v for k, v in msgspec.structs.asdict(usage).items() if v is not None}
            usage = msgspec.structs.replace(known, **new)
        self._append(UsageChanged(usage))

    @property
    def modes(self) -> Modes | None:
        return self.log.state.modes

    def queue(self, entries: list[QueueEntry], *, paused: bool) -> None:
        """The waiting prompts are these."""
        if entries != self._queue or paused != self._paused:
            self._queue, self._paused = entries, paused
            self._append(QueueChanged(entries, paused))

    # --- the state

    def sync(self) -> None:
        """Append a `state` event if the state is another one than was said last."""
        turn = self.turn
        agent = self.agent
        phase = self.lifecycle
        if phase == "ready":
            phase = "idle" if turn is None else PHASES[turn.state]
        now: tuple[object, ...] = (
            phase,
            turn and turn.id,
            turn and turn.cancel_deadline,
            agent.pid,
            agent.alive,
            agent.version,
            agent.name,
            self.error,
        )
        if now == self._said:
            return
        self._said = now
        self._append(
            StateChanged(
                State(
                    phase=phase,  # type: ignore[arg-type]
                    turn=None
                    if turn is None
                    else TurnState(
                        id=turn.id,
                        origin=turn.origin,
                        since=turn.since,
                        deadline=turn.deadline,
                        cancel_deadline=turn.cancel_deadline,
                    ),
                    agent=msgspec.structs.replace(agent),
                    error=self.error,
                )
            )
        )


def _tool_fields(effect: ToolCalled) -> JsonObject:
    """The fields of `Tool` that an effect carries."""
    fields: JsonObject = {}
    for name in ("name", "title", "kind", "owner", "input", "output", "content", "locations"):
        value = getattr(effect, name)
        if value is not UNSET:
            fields[name] = value
    return fields
