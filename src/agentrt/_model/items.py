"""What is shown of a conversation: texts, tool calls and questions, opened and closed.

`Items` keeps what is open now. It appends the events; whether content is to be shown at all, and
in which turn, is the conversation's to say (`Admit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import UNSET, Struct

from .content import JsonObject, TerminalRef
from .driver import Asked, Said, Showed, SpeechEnded, Spoke, ToolCalled
from .events import (
    TERMINAL,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemUpdated,
    Notice,
    PermissionClosed,
    PermissionOpened,
    TextDelta,
    ThoughtDelta,
    Tool,
)
from .log import Log


class _Speech(Struct):
    """The text or thought item that grows now."""

    item: str
    thought: bool
    message: str | None
    replay: bool


class _Call(Struct):
    """A tool call of the agent and the item that shows it."""

    id: str
    item: str
    turn: str | None
    status: ItemStatus
    """The agent's own word, also while a question shows the item as `waiting`."""
    asks: int = 0
    told_late: bool = False


class _Ask(Struct):
    request: PermissionOpened
    call: _Call | None


class Admit(Protocol):
    """Says whether content is to be shown now; begins a turn of the agent's own if it needs one."""

    def __call__(self, replay: bool, /) -> bool: ...


class Items:
    """What is open in one session's conversation."""

    def __init__(self, log: Log, new_id: Callable[[str], str], admit: Admit) -> None:
        self.turn: str | None = None
        """The id of the running turn; set by the conversation."""
        self.echoes = False
        """True while user content of the agent only repeats the prompt we showed already."""
        self.admits = False
        """True while content of the running turn needs no asking: the common case."""
        self.released: list[str] = []
        """Keys of questions that were closed from here; the runtime stops their handlers and
        tells the agent."""
        self.dropped: Counter[str] = Counter()
        """What was not shown, by reason: `late`, `cancelling`, `echo`, `replay`."""
        self._log = log
        self._append = log.append
        self._new_id = new_id
        self._admit = admit
        self._speech: dict[str | None, _Speech] = {}
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, _Call] = {}  # of the running turn: the calls that are not over
        self._asks: dict[str, _Ask] = {}
        self._answer: list[str] = []  # the text items of the running turn

    def answer_text(self) -> str:
        """The running turn's answer, so far: its text, without thoughts and sub-agents."""
        return "".join(map(self._log.state.text, self._answer))

    def close_all(self, tools: ItemStatus, speech: ItemStatus) -> None:
        """Close what is open of the running turn."""
        for key in list(self._asks):
            self.resolve(key, "cancelled", by="turn")
            self.released.append(key)
        for parent in list(self._speech):
            self._close_speech(parent, speech)
        for call in self._open.values():
            call.status = tools
            self._append(ItemClosed(call.item, tools))
        self._open.clear()

    def forget_answer(self) -> None:
        self._answer = []

    # --- what the agent says

    def spoke(self, effect: Spoke) -> None:
        if not (self.admits and not effect.replay) and not self._admit(effect.replay):
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

    def _open_speech(
        self, parent: str | None, thought: bool, message: str | None, replay: bool
    ) -> _Speech:
        self._close_speech(parent, "completed")
        item = self._new_id("i")
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

    def speech_ended(self, effect: SpeechEnded) -> None:
        self._close_speech(effect.parent, "completed")

    def showed(self, effect: Showed) -> None:
        if not self._admit(effect.replay):
            return
        self._close_speech(effect.parent, "completed")
        self._append(
            ItemOpened(
                Item(
                    id=self._new_id("i"),
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

    def user_said(self, effect: Said) -> None:
        if self.echoes and not effect.replay:
            self.dropped["echo"] += 1
            return
        if effect.replay and not self._admit(True):
            return
        self._close_speech(None, "completed")
        self._append(
            ItemOpened(
                Item(
                    id=self._new_id("i"),
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
        return None if replay else self.turn

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
        call = _Call(effect.id, self._new_id("i"), self._turn_id(effect.replay), status)
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
            self._close_call(call, status)

    def _close_call(self, call: _Call, status: ItemStatus) -> None:
        if call.asks:  # the agent went on without the answer
            for key, ask in list(self._asks.items()):
                if ask.call is call:
                    self.resolve(key, "cancelled", by="agent")
                    self.released.append(key)
        call.status = status
        self._open.pop(call.id, None)
        self._append(ItemClosed(call.item, status))

    def append_output(self, terminal: str, text: str) -> None:
        """Live output of a terminal that a tool call of the running turn shows."""
        for call in self._open.values():
            item = self._log.state.items[call.item]
            if item.tool is not None and any(
                isinstance(part, TerminalRef) and part.terminal_id == terminal
                for part in item.tool.content
            ):
                self._append(ItemDelta(call.item, text))
                return

    # --- questions

    def ask(self, effect: Asked, expires: float | None) -> bool:
        """Show a question. False: its turn is being cancelled, the answer is `cancelled`."""
        if not self._admit(False):
            return False
        call: _Call | None = None
        if effect.tool_call is not None:
            call = self._calls.get(effect.tool_call)
            if call is None or call.turn != self.turn:
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
        return True

    def open_request(self, key: str) -> PermissionOpened | None:
        """The open question of that key, if it is open."""
        ask = self._asks.get(key)
        return ask.request if ask is not None else None

    def open_requests(self) -> Sequence[str]:
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
                    self._close_call(call, "denied")
                else:
                    self._append(ItemUpdated(call.item, {"status": call.status}))
        return True


def _tool_fields(effect: ToolCalled) -> JsonObject:
    """The fields of `Tool` that an effect carries."""
    fields: JsonObject = {}
    for name in ("name", "title", "kind", "owner", "input", "output", "content", "locations"):
        value = getattr(effect, name)
        if value is not UNSET:
            fields[name] = value
    return fields
