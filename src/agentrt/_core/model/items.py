"""The visible content of a conversation: texts, tool calls and questions, opened and closed.

`Items` keeps the open ones and appends the events. The conversation decides whether content is
shown at all, and in which turn (`ItemsOwner.admit`).

**Texts.** At most one text or thought grows per parent: the session itself (None) and each
sub-agent. A piece with another kind, another message id or another origin (live or repeated) closes
it and opens a new item, as does any other content of the same parent. The answer of a turn
(`answer`) is the list of its text items outside sub-agents; the log has their texts.

**Tool calls.** Agents reuse call ids and report calls late. `_calls` therefore has every call ever
shown or hidden, with the turn it was made in, and `_is_same` decides whether a report opens a new
item. A report about a call of a turn that is over is dropped, with one notice per call. The item's
status is the agent's, except while a question about the call is open: it is then `waiting`.

**Questions** are requests for permission and for input. A question about a call that is not shown
yet shows it. `released` collects the questions that end because their call or their turn has ended;
the session answers the agent for them.

**Background work.** The steps of a sub-agent that works in the background belong to no turn. After
`detach` was called with the tool call that started it, everything below that call opens without a
turn, even if one runs, and no turn's end closes it. `close_detached` closes it when the work is
over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct, structs

from .content import Block, JsonObject, TerminalRef
from .driver import (
    BlockReceived,
    DecisionRequested,
    Retracted,
    TextEnded,
    TextReceived,
    ToolCalled,
    UserContentReceived,
)
from .events import (
    NO_ORIGIN,
    TERMINAL,
    AnswerOrigin,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemType,
    ItemUpdated,
    Notice,
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    TextDelta,
    ThoughtDelta,
    ToolCall,
)
from .log import Log

ORPHAN_OPTIONS: Final = [
    PermissionOption("allow", "Allow once", "allow_once"),
    PermissionOption("reject", "Reject", "reject_once"),
]
"""The answers to a question of an ended process. None of them outlasts the question."""

UNPLACED_CHARS: Final = 64 * 1024
"""Characters of a terminal's output that are kept until a tool call shows the terminal."""


class _OpenText(Struct):
    """The text or thought item that is growing now."""

    item: str
    thought: bool
    message: str | None
    replay: bool
    turn: str | None


class _AnswerPart(Struct, gc=False):
    """Items with one text of the answer, in the agent's message of that id."""

    message: str | None
    items: tuple[str, ...]


class _ShownCall(Struct, gc=False):
    """A tool call of the agent and the item that shows it."""

    id: str
    item: str
    """Empty for a call that was never shown, because its turn was being cancelled."""
    turn: str | None
    """None for a call repeated from the conversation of an earlier process."""
    status: ItemStatus
    """The status that the agent reported, even while a question shows the item as `waiting`."""
    parent: str | None = None
    """The tool call of the sub-agent that made this call."""
    root: str | None = None
    """The call given to `detach`, if this call is a step of its background work."""
    asks: int = 0
    late_reported: bool = False


class _OpenQuestion(Struct):
    """A question that has no answer yet.

    `decided` is true if its answer follows in the same step, so that the call is never shown as
    waiting.
    """

    request: PermissionOpened
    call: _ShownCall | None
    decided: bool


class ItemsOwner(Protocol):
    """The conversation of the items."""

    def new_id(self, kind: str, /) -> str:
        """Return an id that is unique in the session, with this prefix."""
        ...

    def admit(self, replay: bool, /) -> bool:
        """Return True if content is shown now. `replay`: it repeats an earlier conversation.

        Begins an agent-started turn if the content needs one.
        """
        ...


class Items:
    """The open items of a session's conversation."""

    def __init__(self, log: Log, owner: ItemsOwner) -> None:
        """Create the items of a new conversation.

        `owner` is asked about content outside the usual case (`admits`).
        """
        self.turn: str | None = None
        """The id of the running turn; set by the conversation."""
        self.echoes: bool = False
        """True while user content from the agent only repeats the prompt that is already shown."""
        self.admits: bool = False
        """True while content of the running turn needs no `ItemsOwner.admit`: the usual case.
        """
        self.released: list[str] = []
        """Keys of questions that were closed by this class. The runtime stops their handlers and
        answers the agent.
        """
        self.dropped: Counter[str] = Counter()
        """Counts of content that was not shown, by reason: `late`, `cancelling`,
        `echo`, `replay`.
        """
        self._log = log
        self._append = log.append
        self._owner = owner
        self._open_texts: dict[str | None, _OpenText] = {}
        self._calls: dict[str, _ShownCall] = {}
        self._open: dict[str, _ShownCall] = {}  # the calls that are not over, by item
        self._detached: dict[str, str] = {}
        """Calls with steps that belong to no turn, each with the call given to `detach`."""
        self._waiting: dict[str, None] = {}  # open items that wait for a client, not for an answer
        self._asks: dict[str, _OpenQuestion] = {}
        self._asked: dict[str, None] = {}
        self._terminals: dict[str, str] = {}  # the items that show each terminal, by terminal id
        self._unplaced: dict[str, str] = {}  # output of terminals that no item shows yet
        self._answer: list[_AnswerPart] = []
        """The text items of the running turn, each with the agent's message that it belongs to."""
        self._interrupted_text: _OpenText | None = None  # a text that was interrupted by a prompt

    def begin(self, turn: str, *, echoes: bool) -> None:
        """Assign the following content to this turn."""
        self.turn = turn
        self.admits = True
        self.echoes = echoes

    def end(self) -> None:
        """Record that the turn is over and all its items are closed."""
        self.turn = self._interrupted_text = None
        self.admits = self.echoes = False
        self._answer = []

    def answer(self) -> Callable[[], str]:
        """Return a function that joins the running turn's answer; it may be called after the turn.

        The answer consists of the turn's text items, without thoughts and sub-agents, separated by
        blank lines. A text interrupted by a prompt is joined again; a text that the agent broke off
        or retracted is left out.
        """
        return partial(_answer, self._answer, self._log)

    def close_all(self, tools: ItemStatus, speech: ItemStatus) -> None:
        """Close the open items of the running turn."""
        if not self._open and not self._asks:  # most turns end this way
            self._close_texts(speech)
            self._unplaced.clear()
            return
        self._unplaced.clear()
        calls = [call for call in self._open.values() if call.turn is not None]
        for call in calls:
            call.status = tools  # before its questions close: it must not continue after them
        for key, ask in tuple(self._asks.items()):
            if not ask.request.background:
                self.resolve(key, "cancelled", by="turn")
                self.released.append(key)
        self._close_texts(speech)
        for call in calls:
            del self._open[call.item]
            self._append(ItemClosed(call.item, tools))
        self._waiting.clear()

    def _close_texts(self, status: ItemStatus) -> None:
        """Close the texts that grow, except for those of background work."""
        for parent in tuple(self._open_texts):
            if parent not in self._detached:
                self._close_text(parent, status)

    def close_background(self) -> None:
        """Close everything that no turn's end closes, because the process has ended."""
        for key, ask in tuple(self._asks.items()):
            if not ask.request.orphaned:
                self.resolve(key, "cancelled", by="agent")
        for root in set(self._detached.values()):
            self.close_detached(root, "orphaned")
        self._detached.clear()  # another process may reuse the ids

    # --- sub-agents in the background

    def detach(self, root: str, title: str) -> None:
        """Take the steps below the tool call `root` out of their turn, from now on. Idempotent.

        Open steps leave their turn. A call that is not shown, because its turn was being cancelled,
        is shown now, with `title`.
        """
        detached = self._detached
        if detached.get(root) == root:
            return
        detached[root] = root
        if self.item_of(root) is None:
            tool = ToolCall(call=root, title=title)
            item = self._show("tool", replay=False, status="running", tool=tool, outside=True)
            call = self._calls[root] = _ShownCall(root, item, None, "running", root=root)
            self._open[item] = call
        for call in self._open.values():  # a call comes after its parent
            if call.parent is not None and detached.get(call.parent) == root:
                if call.turn is None and call.root is None:
                    continue  # repeated history
                detached[call.id] = call.root = root
                self._leave_turn(call, call.item)
        for parent, speech in self._open_texts.items():
            if parent is not None and detached.get(parent) == root and not speech.replay:
                self._leave_turn(speech, speech.item)

    def _leave_turn(self, step: _ShownCall | _OpenText, item: str) -> None:
        """Move an open step of background work out of its turn, and let viewers know."""
        if step.turn is not None:
            step.turn = None
            self._append(ItemUpdated(item, {"turn": None}))

    def close_detached(self, root: str, status: ItemStatus) -> None:
        """Close the items left open by the background work of the tool call `root`."""
        for call in [call for call in self._open.values() if call.root == root]:
            if self._open.get(call.item) is call:
                self._close_call(call, status)
        for parent in tuple(self._open_texts):
            if parent is not None and self._detached.get(parent) == root:
                self._close_text(parent, status)

    # --- output of the agent

    def text_received(self, effect: TextReceived) -> None:
        """Append text to the growing text or thought item, or open one."""
        if not effect.text:
            return  # some agents end a message with an empty text, even after the turn's end
        if (effect.replay or not self.admits) and not self._admits(effect):
            return
        speech = self._open_texts.get(effect.parent)
        if (
            speech is None
            or speech.thought is not effect.thought
            or speech.replay is not effect.replay
            or (effect.message is not None and speech.message != effect.message)
        ):
            speech = self._begin_text(effect.parent, effect.thought, effect.message, effect.replay)
        append = self._append
        if effect.thought:
            append(ThoughtDelta(speech.item, effect.text))
        else:
            append(TextDelta(speech.item, effect.text))

    def _admits(self, effect: TextReceived | BlockReceived | ToolCalled) -> bool:
        """Return True if the effect is shown. A step of background work always is."""
        if effect.parent in self._detached and not effect.replay:
            return True
        return self._owner.admit(effect.replay)

    def _begin_text(
        self, parent: str | None, thought: bool, message: str | None, replay: bool
    ) -> _OpenText:
        """Open a text or thought item below `parent`, which becomes the growing one.

        A text of the turn's answer is added to the answer: as a new part, or, if a prompt sent into
        the turn has interrupted the same message of the agent, as the continuation of the last
        part.
        """
        if parent in self._open_texts:
            self._close_text(parent, "completed")
        item = self._show(
            "thought" if thought else "text", replay, parent, status="running", message=message
        )
        turn = None if replay or parent in self._detached else self.turn
        speech = self._open_texts[parent] = _OpenText(item, thought, message, replay, turn)
        if not thought and parent is None and not replay:
            answer, cut = self._answer, self._interrupted_text
            self._interrupted_text = None
            if cut is not None and message is not None and answer and answer[-1].message == message:
                answer[-1].items += (item,)
            else:
                answer.append(_AnswerPart(message, (item,)))
        return speech

    def _close_text(self, parent: str | None, status: ItemStatus) -> None:
        """Close the growing text below `parent`, if there is one."""
        speech = self._open_texts.pop(parent, None)
        if speech is not None:
            self._append(ItemClosed(speech.item, status))

    def text_ended(self, effect: TextEnded) -> None:
        """Close the growing item; a broken one is removed from the answer."""
        speech = self._open_texts.get(effect.parent)
        self._close_text(effect.parent, "failed" if effect.broken else "completed")
        if effect.broken and speech is not None:
            self._answer = [part for part in self._answer if speech.item not in part.items]

    def retracted(self, effect: Retracted) -> None:
        """Remove messages from the answer. Their items stay, because they have been read."""
        self._answer = [part for part in self._answer if part.message not in effect.messages]

    def block_received(self, effect: BlockReceived) -> None:
        """Show a block that is not text."""
        if not self._admits(effect):
            return
        self._close_text(effect.parent, "completed")
        self._show(
            "thought" if effect.thought else "text",
            effect.replay,
            effect.parent,
            content=[effect.block],
            message=effect.message,
        )

    def prompted(self, content: list[Block]) -> None:
        """Show a prompt of the running turn: its first prompt, or one sent into it."""
        speech = self._open_texts.get(None)
        if speech is not None:
            if not speech.thought:
                self._interrupted_text = speech
            self._close_text(None, "completed")
        self._show("user", replay=False, content=content)

    def user_content_received(self, effect: UserContentReceived) -> None:
        """Show user content reported by the agent, unless it is an echo of the prompt."""
        live = not effect.replay
        if live and self.echoes:
            self.dropped["echo"] += 1
            return
        # After the end of a turn it is shown without one: a user's message is not work.
        if not (live and self.turn is None) and not self._owner.admit(effect.replay):
            return
        self._close_text(None, "completed")
        self._show("user", effect.replay, content=effect.content, message=effect.message)

    def replayed(self) -> None:
        """Close everything that the repeated history left open."""
        for parent, speech in list(self._open_texts.items()):
            if speech.replay:
                self._close_text(parent, "completed")
        for call in list(self._open.values()):
            if call.turn is None and call.root is None:
                self._close_call(call, "completed")

    def _show(
        self,
        type: ItemType,
        replay: bool,
        parent: str | None = None,
        *,
        status: ItemStatus = "completed",
        content: list[Block] | None = None,
        tool: ToolCall | None = None,
        message: str | None = None,
        outside: bool = False,
    ) -> str:
        """Open an item and return its id. A completed one is opened with its final status.

        `outside`: the item belongs to no turn.
        """
        id = self._owner.new_id("i")
        outside = outside or replay or parent in self._detached
        item = Item(
            id=id,
            type=type,
            turn=None if outside else self.turn,
            parent=None if parent is None else self.item_of(parent),
            status=status,
            content=tuple(content) if content else (),
            tool=tool,
            message=message,
            replay=replay,
        )
        self._append(ItemOpened(item))
        return id

    def item_of(self, call: str) -> str | None:
        """Return the item that shows a tool call, open or not."""
        known = self._calls.get(call)
        return known.item or None if known is not None else None

    # --- tool calls

    def tool_called(self, effect: ToolCalled) -> None:
        """Open, change or close the item of a tool call."""
        if effect.replay and not self._owner.admit(True):
            return
        call = self._calls.get(effect.id)
        if call is not None and not effect.opens and not self._belongs(call, effect.replay):
            self._report_late(call, effect)
            return
        if call is not None and effect.opens and not self._is_same(call, effect):
            call = None
        if not effect.replay and not self.admits and not self._admits(effect):
            if call is None:
                self._remember_hidden(effect.id)
        elif call is None or not call.item:
            self._open_call(effect)
        else:
            self._update_call(call, effect)

    def _belongs(self, call: _ShownCall, replay: bool) -> bool:
        """Return True if the call belongs to the running turn or to background work.

        With `replay`, return True if it belongs to the history that is being replayed.
        """
        if call.root is not None:
            return not replay
        return call.turn is None if replay else call.turn is not None and call.turn == self.turn

    def _is_same(self, call: _ShownCall, effect: ToolCalled) -> bool:
        """Return True if a call that begins now is the known one.

        The id alone does not tell, because some models restart their call count from zero.
        """
        if not self._belongs(call, effect.replay):
            return False
        over = call.status in TERMINAL and call.status != "denied"  # not reported by the agent
        return not over or effect.status in TERMINAL

    def _remember_hidden(self, id: str) -> None:
        """Remember a call of a turn that is being cancelled, because updates may come later."""
        self._calls[id] = _ShownCall(id, "", self.turn, "cancelled")

    def _report_late(self, call: _ShownCall, effect: ToolCalled) -> None:
        """Count an update for a call of a turn that is over, and report the first one per call."""
        self.dropped["late"] += 1
        if not call.late_reported:
            call.late_reported = True
            self._append(
                Notice(
                    "info",
                    "late",
                    "the agent sent an update for a tool call of a turn that is over",
                    {"item": call.item or None, "turn": call.turn, "call": effect.id},
                )
            )

    def _open_call(self, effect: ToolCalled) -> _ShownCall:
        """Show a new tool call as an item below its parent.

        A call that is reported only when it is over is opened as running and closed in the same
        step, so that every item is seen to open and to close. Output and terminals that were
        reported before the call are added to it.
        """
        self._close_text(effect.parent, "completed")
        status: ItemStatus = effect.status if effect.status is not UNSET else "pending"
        item = self._show(
            "tool",
            effect.replay,
            effect.parent,
            status="running" if status in TERMINAL else status,
            tool=ToolCall(call=effect.id, **_tool_fields(effect)),
        )
        root: str | None = None
        if effect.parent is not None and not effect.replay:
            root = self._detached.get(effect.parent)
        turn = None if effect.replay or root is not None else self.turn
        call = _ShownCall(effect.id, item, turn, status, effect.parent, root)
        self._calls[effect.id] = call
        if root is not None:
            self._detached[effect.id] = root
        elif not effect.replay:
            self._detached.pop(effect.id, None)  # the id is used again
        if effect.content:
            self._place_terminals(call, effect)
        if effect.append is not UNSET:
            self._append(ItemDelta(call.item, effect.append))
        if status in TERMINAL:
            self._append(ItemClosed(call.item, status))
        else:
            self._open[item] = call
            if status == "waiting":
                self._waiting[item] = None
        return call

    def _update_call(self, call: _ShownCall, effect: ToolCalled) -> None:
        """Apply an update to a call that is shown: changed fields, new output, a new status.

        The status does not change after the call is over. While a question about the call is open,
        a new status is only remembered, and shown after the answer. Output of a denied call is
        dropped.
        """
        patch: JsonObject = {}
        tool = _tool_fields(effect)
        if tool:
            patch["tool"] = tool
        status = effect.status
        over = call.status in TERMINAL
        closes = status is not UNSET and not over and status in TERMINAL
        if status is not UNSET and not over and not closes and status != call.status:
            call.status = status
            if status == "waiting":
                self._waiting[call.item] = None
            else:
                self._waiting.pop(call.item, None)
            if not call.asks:
                patch["status"] = status
        if patch:
            self._append(ItemUpdated(call.item, patch))
            self._place_terminals(call, effect)
        if effect.append is not UNSET and call.status != "denied":
            self._append(ItemDelta(call.item, effect.append))
        if closes:
            assert status is not UNSET
            self._close_call(call, status)

    def _close_call(self, call: _ShownCall, status: ItemStatus) -> None:
        """Close the item of a call, the questions about it and the text of its sub-agent.

        The agent can continue without an answer to its question; the question is then cancelled and
        put into `released`.
        """
        call.status = status
        if call.asks:  # the agent continued without the answer
            for key, ask in list(self._asks.items()):
                if ask.call is call:
                    self.resolve(key, "cancelled", by="agent")
                    self.released.append(key)
        if call.id not in self._detached:
            self._close_text(call.id, "completed")  # a sub-agent's
        del self._open[call.item]
        self._waiting.pop(call.item, None)
        self._append(ItemClosed(call.item, status))

    def append_output(self, terminal: str, text: str) -> None:
        """Append live output of a terminal to the tool call that shows it.

        Until a call of the same turn shows it, only the end of the output is kept.
        """
        item = self._terminals.get(terminal)
        if item is None:
            self._unplaced[terminal] = (self._unplaced.get(terminal, "") + text)[-UNPLACED_CHARS:]
        elif item in self._open:
            self._append(ItemDelta(item, text))

    def _place_terminals(self, call: _ShownCall, effect: ToolCalled) -> None:
        """Assign terminals to the tool call that shows them, and append their earlier output."""
        for part in effect.content or ():
            if (
                isinstance(part, TerminalRef)
                and (call.turn is not None or call.root is not None)
                and self._terminals.get(part.terminal_id) not in self._open
            ):
                self._terminals[part.terminal_id] = call.item
                if text := self._unplaced.pop(part.terminal_id, ""):
                    self._append(ItemDelta(call.item, text))

    # --- questions

    def ask(
        self, effect: DecisionRequested, expires: float | None, *, decided: bool = False
    ) -> bool:
        """Show a question. Returns False if its turn is being cancelled.

        The answer is `cancelled` in that case. `decided`: the question will be resolved in the same
        step.
        """
        if not effect.background and not self.admits and not self._owner.admit(False):
            if effect.tool_call is not None and effect.tool_call not in self._calls:
                self._remember_hidden(effect.tool_call)
            return False
        call = self._asked_call(effect)
        if call is not None:
            call.asks += 1
            if call.asks == 1 and call.status not in TERMINAL and not decided:
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
            background=effect.background,
            subject=effect.subject,
        )
        self._asks[effect.key] = _OpenQuestion(request, call, decided)
        self._asked[effect.key] = None
        self._append(request)
        return True

    def _asked_call(self, effect: DecisionRequested) -> _ShownCall | None:
        """Return the call that a question is about, and show it if it is not shown yet."""
        if effect.tool_call is None:
            return None
        call = self._calls.get(effect.tool_call)
        if effect.background:
            return None if call is None or call.root is None else call
        if call is not None and self._belongs(call, False):
            return call
        return self._open_call(
            ToolCalled(
                id=effect.tool_call,
                name=effect.name or UNSET,
                title=effect.title,
                kind=effect.tool_kind or UNSET,
                input=effect.input if effect.input is not None else UNSET,
            )
        )

    def ask_again(self, request: PermissionOpened) -> None:
        """Show the question of an ended process again. It belongs to no turn."""
        if not request.orphaned:
            request = structs.replace(
                request,
                request=self._owner.new_id("o"),
                options=request.options and ORPHAN_OPTIONS,
                expires=None,
                background=True,
                orphaned=True,
            )
            self._append(request)
        self._asks[request.request] = _OpenQuestion(request, None, False)
        self._asked[request.request] = None

    @property
    def waits(self) -> bool:
        """True if the turn has an open question or waits for a client to run a tool."""
        for ask in self._asks.values():
            if not ask.request.background:
                return True
        return bool(self._waiting)

    def open_call(self, id: str) -> str | None:
        """Return the item that shows the agent's call, if it is open."""
        call = self._calls.get(id)
        return call.item if call is not None and self._open.get(call.item) is call else None

    def was_asked(self, key: str) -> bool:
        """Return True if there was such a question, open or not."""
        return key in self._asked

    def open_request(self, key: str) -> PermissionOpened | None:
        """Return the question with this key, if it is open."""
        ask = self._asks.get(key)
        return ask.request if ask is not None else None

    @property
    def questions(self) -> int:
        """The number of open questions."""
        return len(self._asks)

    def open_requests(self) -> Sequence[str]:
        """Return the keys of the open questions."""
        return list(self._asks)

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
        """Close a question. Return False if it is not open. `denied`: also close its tool call."""
        ask = self._asks.pop(key, None)
        if ask is None:
            return False
        self._append(
            PermissionClosed(
                request=key,
                outcome=outcome,
                option=option,
                by=by,
                reason=reason,
                who=origin.who,
                via=origin.via,
                rule=rule,
            )
        )
        call = ask.call
        if call is not None:
            call.asks -= 1
            if call.status not in TERMINAL and not call.asks:
                if denied:
                    self._close_call(call, "denied")
                elif not ask.decided:
                    self._append(ItemUpdated(call.item, {"status": call.status}))
        return True


def _answer(parts: list[_AnswerPart], log: Log) -> str:
    """Join the parts of an answer with blank lines; a part of several items is one text."""
    text = log.state.text
    texts = ["".join([text(item) for item in part.items]) for part in parts]
    return "\n\n".join(filter(None, texts))


_TOOL_FIELDS: Final = (
    "name",
    "title",
    "kind",
    "owner",
    "input",
    "input_text",
    "output",
)
_tool_values: Final = attrgetter(*_TOOL_FIELDS)


def _tool_fields(effect: ToolCalled) -> JsonObject:
    """Return the fields of `ToolCall` that an effect carries."""
    values = _tool_values(effect)
    fields: JsonObject = {
        name: value for name, value in zip(_TOOL_FIELDS, values, strict=True) if value is not UNSET
    }
    if effect.content is not UNSET:
        fields["content"] = tuple(effect.content)
    if effect.locations is not UNSET:
        fields["locations"] = tuple(effect.locations)
    return fields
