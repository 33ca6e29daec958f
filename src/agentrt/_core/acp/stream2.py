"""The updates of a session in version 2 of ACP, converted to the effects of version 1.

Messages and terminals come as pieces or as a whole, tool calls as patches in which null clears a
field, diffs as git patches, and the agent lists its background work.

The effects are append-only, but the protocol is not: a whole message or a whole terminal output
replaces the pieces before it. If the whole begins with the pieces, only the new part is appended.
Otherwise the text is closed and retracted from the answer, or the content of the tool call is
replaced.

Terminals are independent of tool calls on the wire. A terminal's output is appended to the call
that refers to it (`_place`), even if the reference comes after the output. Output that no call
refers to gets a separate card at the end of the turn. A terminal that the agent lists as background
work is a task; its latest output is the task's report.

Updates may arrive after their turn. `AcpTurns` knows which messages belong to the running turn:
text of an earlier turn is dropped with a notice, and updates of calls that were opened in an
earlier turn do not count as a sign of life of the running one (`_turn` numbers the turns).
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, field, to_builtins

from ..model.content import Block, Diff, JsonObject, TerminalRef, Text, ToolContent, ToolText, hunks
from ..model.driver import (
    DecisionRequested,
    Retracted,
    TaskSet,
    TextEnded,
    ToolCalled,
    UserContentReceived,
)
from ..model.events import TERMINAL, ItemStatus, Task
from ..wire.channel import Channel
from .messages import (
    AgentMessageChunk,
    AgentThoughtChunk,
    RequestPermissionRequest,
    SubagentUpdate,
    UserMessageChunk,
)
from .messages2 import (
    BackgroundItem,
    CancelCapabilities,
    CancelTerminalRequest,
    CancelToolCallRequest,
    DiffChange,
    FilesDiff,
    PermissionRequest2,
    StateUpdate,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolChange,
    ToolChangeUpdate,
    ToolContentChunk,
    ToolPart,
    TypedConfigUpdate,
    WholeAgentThought,
    WholeMessage,
    WholeUserMessage,
)
from .settings import AcpSettings
from .stream import AcpStream, WorkCancel, speech_of
from .translate import TOOL_STATUS, tool_name
from .turn import AcpTurns

T = TypeVar("T")

_FILE = re.compile(r"^diff --git ", re.MULTILINE)
_NAMED = re.compile(r"(?:--- (?:a/)?|\+\+\+ (?:b/)?|rename to |copy to )(.+)")
"""A line in the header of a git patch that names the file."""

MAX_UNPLACED_CHARS: Final = 100_000
"""Limit of the output of a terminal that is kept until a tool call shows the terminal."""
MAX_DETAIL_CHARS: Final = 2000
"""Limit of the output in the report of background work."""
KNOWN_STATES: Final = frozenset({"running", "requires_action", "idle", "unknown"})
STATUS_2: Final[dict[str, ItemStatus]] = {**TOOL_STATUS, "paused": "running"}
"""Status of a tool call; every other one counts as running."""

Content2: TypeAlias = (
    WholeMessage
    | UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolChangeUpdate
    | ToolContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
)
"""The updates that make up the conversation."""


class _ToolCallState(Struct):
    """A tool call, as last reported."""

    content: list[ToolPart] = field(default_factory=list)
    over: bool = False
    parent: str | None = None
    can_cancel: bool = False
    has_output: bool = False
    """True if the agent has reported the raw output."""
    turn: int = 0
    """Number of the turn in which it was opened."""


class _AgentTerminal(Struct):
    """A terminal of the agent's."""

    decoder: codecs.IncrementalDecoder
    command: str = ""
    call: str | None = None
    """The tool call that shows it."""
    text: str = ""
    """The end of its output."""
    size_chars: int = 0
    """Length of its whole output."""
    unplaced: str = ""
    """Output that no tool call has shown yet."""
    can_cancel: bool = False
    exit: dict[str, Any] | None = None


class AcpStream2(AcpStream):
    """The updates of one session."""

    content_types = Content2

    def __init__(
        self,
        channel: Channel,
        settings: AcpSettings,
        turns: AcpTurns,
        stated: Callable[[StateUpdate], None],
    ) -> None:
        """Create a stream. `stated` takes the states of the session."""
        super().__init__(channel, settings)
        self._turns = turns
        self._stated = stated
        self._said: dict[str, list[str]] = {}
        """Text of the messages of the running turn."""
        self._call_states: dict[str, _ToolCallState] = {}
        self._turn = 0
        self._terminals: dict[str, _AgentTerminal] = {}
        self._background: dict[str, Task] = {}
        self._last_state: StateUpdate | None = None
        """The state that came before the session was open."""

    # --- events of the driver

    def open(self) -> None:
        """Note the end of the handshake, and report the updates that came too early."""
        super().open()
        state, self._last_state = self._last_state, None
        if state is not None:
            self._state(state)

    def begin_turn(self) -> None:
        """Note that a turn begins: of a prompt, or of the agent's own work."""
        super().begin_turn()
        self._said.clear()
        self._turn += 1

    def end_turn(self) -> None:
        """Note the end of a turn, and show the output that no tool call has shown."""
        for id, terminal in self._terminals.items() if self.live is not None else ():
            if terminal.unplaced and id not in self._background:
                change = ToolChange(id, title=terminal.command or "Terminal", kind="execute")
                change.status = "completed"
                self._channel.out.append(self._called(change, None, False))
                self._place(id, id)
        super().end_turn()

    def cancel_work(self, task: Any) -> WorkCancel | None:
        """Return the request that cancels a terminal or a tool call; None if there is none.

        There is none again until the agent has refused it.
        """
        terminal, call = self._terminals.get(task), self._call_states.get(task)
        assert self.session is not None
        request: Struct
        if terminal is not None and terminal.can_cancel:
            method, request = "terminal/cancel", CancelTerminalRequest(self.session, task)
        elif call is not None and call.can_cancel:
            method, request = "tool_call/cancel", CancelToolCallRequest(self.session, task)
        else:
            return None
        self._set_can_cancel(task, False)
        return WorkCancel(method, request, partial(self._set_can_cancel, task, True))

    def _set_can_cancel(self, task: str, can_cancel: bool) -> None:
        """Note whether a terminal or a tool call can be cancelled."""
        if (terminal := self._terminals.get(task)) is not None:
            terminal.can_cancel = can_cancel and terminal.exit is None
        if (call := self._call_states.get(task)) is not None:
            call.can_cancel = can_cancel and not call.over

    # --- routing

    def update(self, session: str, update: Any) -> None:
        """Take an update: route it by its session, then convert it."""
        if isinstance(update, StateUpdate):
            if session == self.session:
                if self._phase == "open":
                    self._state(update)
                else:
                    self._last_state = update
                return
            if session in self._children:
                child = SubagentUpdate(session, state=to_builtins(update))
                self._subagent(child, None)
                return
        super().update(session, update)

    def _about_session(self, update: Any) -> None:
        """Take an update about the session; in this version, options have another form."""
        if isinstance(update, TypedConfigUpdate):
            self._settings.options = [each.as_option() for each in update.config_options]
            self.show_settings()
        else:
            super()._about_session(update)

    def _state(self, update: StateUpdate) -> None:
        """Take the state of the session, which may begin or end a turn.

        The background work is listed before an idle state is passed on, so that the end of the turn
        does not show its terminals as cards (`end_turn`).
        """
        if update.state not in KNOWN_STATES:
            self._channel.unknown_value("state", update.state, {"state": update.state})
        if update.background is not None and update.state == "idle":
            self._list_background(update.background)
        self._stated(update)
        if update.background is not None and update.state != "idle":
            self._list_background(update.background)

    # --- messages

    def text(self, text: str, thought: bool, message: str | None) -> None:
        """Take text of the running turn, perhaps from many pieces."""
        if self._is_late(message):
            return
        if message is not None:
            self._said.setdefault(message, []).append(text)
        super().text(text, thought, message)

    def _is_late(self, message: str | None) -> bool:
        """Return True if text belongs to a message whose turn is over, and report it."""
        if self._turns.output(message):
            return False
        self._channel.notice(
            "info",
            "late_message",
            "the agent sent text of a message whose turn is over: dropped",
            {"message": message},
        )
        return True

    def _content(self, update: Any, parent: str | None, replay: bool) -> None:
        """Convert an update of the conversation; late text of the session itself is dropped."""
        live = parent is None and not replay
        match update:
            case UserMessageChunk(content=block, message_id=message):
                self._user([block], message, parent, replay)
            case WholeUserMessage(content=content, message_id=message):
                self._user(content or [], message, parent, replay)
            case AgentMessageChunk() | AgentThoughtChunk():
                if not live or self._spoken(update):
                    super()._content(update, parent, replay)
            case WholeMessage(content=content):
                if content is not UNSET and not (live and self._is_late(update.message_id)):
                    self._whole(update, content or [], parent, replay)
            case _:
                self._work(update, parent, replay)

    def _work(self, update: Any, parent: str | None, replay: bool) -> None:
        """Take an update of a tool call or a terminal."""
        match update:
            case ToolChangeUpdate():
                self._tool(update, parent, replay)
            case ToolContentChunk():
                call = self._call_states.setdefault(update.tool_call_id, _ToolCallState())
                change = ToolChange(update.tool_call_id, content=[*call.content, update.content])
                self._tool(change, parent, replay)
            case TerminalUpdate():
                self._terminal(update)
            case TerminalOutputChunk():
                self._terminal_chunk(update)

    def _spoken(self, update: AgentMessageChunk | AgentThoughtChunk) -> bool:
        """Note a piece of a message. Returns False if it is late."""
        message = update.message_id
        if self._is_late(message):
            return False
        if message is not None and isinstance(update.content, Text):
            self._said.setdefault(message, []).append(update.content.text)
        return True

    def _user(
        self, content: Sequence[Block], message: str | None, parent: str | None, replay: bool
    ) -> None:
        """Show a user message, unless it repeats one of a turn that is over.

        Its id also shows `AcpTurns` which of the agent's messages come after the prompt.
        """
        late = not replay and message is not None and self._turns.user_message(message)
        if parent is None and content and not late:
            self._channel.out.append(
                UserContentReceived(content=list(content), message=message, replay=replay)
            )

    def _whole(
        self, update: WholeMessage, content: list[Block], parent: str | None, replay: bool
    ) -> None:
        """Show a message that came as a whole: what follows the pieces, or in their place."""
        out, id = self._channel.out, update.message_id
        said = "".join(self._said.pop(id, ()))
        whole = "".join(each.text for each in content if isinstance(each, Text))
        self._said[id] = [whole]
        thought = isinstance(update, WholeAgentThought)
        if said and whole.startswith(said):
            content = [Text(rest)] if (rest := whole[len(said) :]) else []
        elif said:
            out += [TextEnded(parent=parent), Retracted(frozenset({id}))]
        for block in content:
            out.append(speech_of(block, thought, id, parent, replay))

    # --- tool calls

    def _tool(self, change: ToolChange, parent: str | None, replay: bool) -> None:
        """Report a new tool call, or a change of one."""
        id = change.tool_call_id
        called = self._called(change, parent, replay)
        if parent is None and not replay and self._call_states[id].turn == self._turn:
            self._turns.output(None)  # late updates of earlier calls do not count
        self._channel.out.append(called)
        for part in change.content or ():
            if isinstance(part, TerminalRef):
                self._place(part.terminal_id, id)

    def _called(self, change: ToolChange, parent: str | None, replay: bool) -> ToolCalled:
        """Convert a change of a tool call to an effect, and remember its fields.

        A field that is null on the wire is cleared: text becomes empty, lists become empty lists. A
        field that is missing does not change.
        """
        id = change.tool_call_id
        status = self._status(change)
        opens = self._opens(id, status)
        if opens and status is UNSET:
            status = "pending"
        self._keep_call(change, status, parent)
        if opens:
            self._call_states[id].turn = self._turn
        self._remember_change(change)
        content = change.content
        return ToolCalled(
            id=id,
            opens=opens,
            name=_cleared(change.name, ""),
            title=_cleared(change.title, ""),
            kind=_cleared(change.kind, "other"),
            status=status,
            input=change.raw_input,
            output=change.raw_output,
            content=UNSET if content is UNSET else neutral_content(content or []),
            locations=(UNSET if change.locations is UNSET else to_builtins(change.locations or [])),
            parent=parent,
            replay=replay,
        )

    def _opens(self, id: str, status: ItemStatus | UnsetType) -> bool:
        """Return True if this is a new call: an unknown id, or one that is used again in a later
        turn than that of its end."""
        known = self._call_states.get(id)
        if known is None or id not in self._calls:
            return True
        return known.over and status in ("pending", "running") and known.turn != self._turn

    def _keep_call(
        self, change: ToolChange, status: ItemStatus | UnsetType, parent: str | None
    ) -> None:
        """Remember the fields of a call that its later updates and its terminals depend on."""
        call = self._call_states.setdefault(change.tool_call_id, _ToolCallState())
        if status is not UNSET:
            call.over = status in TERMINAL
        call.parent = parent
        if change.content is not UNSET:
            call.content = change.content or []
        if change.capabilities is not UNSET:
            call.can_cancel = _can_cancel(change.capabilities)
        call.has_output = change.raw_output is not UNSET or call.has_output

    def _status(self, change: ToolChange) -> ItemStatus | UnsetType:
        """Return the neutral status of a change; unset if it has none.

        A status that ACP does not define is reported and counts as running.
        """
        given = change.status
        if given is UNSET:
            return UNSET
        if given is not None and given not in STATUS_2:
            about = {"call": change.tool_call_id, "status": given}
            self._channel.unknown_value("tool call status", given, about)
            return "running"
        return STATUS_2[given] if given is not None else "pending"

    def _remember_change(self, change: ToolChange) -> None:
        """Keep the fields of a tool call that decide about a permission request."""
        tool = self._open_tool(change.tool_call_id)
        tool.title = _given(change.title, tool.title)
        tool.kind = _given(change.kind, tool.kind)
        if change.name is not UNSET or change.meta:
            tool.name = tool_name_of(change) or tool.name
        if change.raw_input is not UNSET:
            tool.input = change.raw_input
        if change.content is not UNSET:
            tool.changes, tool.created = _changed_files(change.content or [])
        if change.locations is not UNSET:
            tool.locations = tuple(each.path for each in change.locations or ())

    def about_permission(
        self, request: RequestPermissionRequest | PermissionRequest2
    ) -> DecisionRequested:
        """Convert a permission request to a question; the caller adds the key and the options."""
        assert isinstance(request, PermissionRequest2)
        subject = request.subject
        parent = request.session_id if request.session_id in self._children else None
        asked = DecisionRequested(key="", kind="permission", title=request.title)
        if subject is None:
            pass
        elif subject.type == "tool_call" and subject.tool_call is not None:
            self._about_call(subject.tool_call, parent, asked)
        elif subject.type == "command" and subject.command is not None:
            if subject.tool_call_id in self._calls:
                asked.tool_call = subject.tool_call_id
            asked.tool_kind = "execute"
            asked.input = {"command": subject.command, "cwd": subject.cwd}
            where = f"\n(in {subject.cwd})" if subject.cwd else ""
            asked.detail = [_as_detail(f"{subject.command}{where}")]
        else:
            self._channel.unknown_value("permission subject", subject.type, to_builtins(subject))
        if request.description:
            asked.detail = [_as_detail(request.description), *(asked.detail or ())]
        return asked

    def _about_call(self, change: ToolChange, parent: str | None, asked: DecisionRequested) -> None:
        """Report the fields of a request about its tool call, because no update may follow with
        them, and add them to the question."""
        id = change.tool_call_id
        known = id in self._tools
        called = self._called(change, parent or self._sub_agent(change, False), False)
        called.opens = not known  # a call of an earlier turn does not ask: the id is used again
        if known:
            called.status = UNSET
        elif called.status is UNSET:
            called.status = "pending"
        self._channel.out.append(called)
        tool = self._open_tool(id)
        asked.tool_call, asked.name, asked.tool_kind = id, tool.name, tool.kind
        asked.input = tool.input
        asked.changes, asked.created = list(tool.changes), list(tool.created)
        asked.locations = list(tool.locations)
        if change.content:
            asked.detail = to_builtins(neutral_content(change.content))

    # --- terminals

    def _terminal_of(self, id: str) -> _AgentTerminal:
        """Return the record of a terminal. Its output may come before it is announced."""
        terminal = self._terminals.get(id)
        if terminal is None:
            terminal = self._terminals[id] = _AgentTerminal(_decoder())
        return terminal

    def _bytes(self, data: str, raw: Struct) -> bytes | None:
        """Decode base64, or return None with a notice if it is invalid."""
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self._channel.notice(
                "warning",
                "unusable_update",
                "the agent sent terminal output that is not base64",
                to_builtins(raw),
            )
            return None

    def _terminal_chunk(self, update: TerminalOutputChunk) -> None:
        """Append a piece of output; a character may be split between two pieces."""
        data = self._bytes(update.data, update)
        if data is not None:
            terminal = self._terminal_of(update.terminal_id)
            self._output(update.terminal_id, terminal, terminal.decoder.decode(data))

    def _terminal(self, update: TerminalUpdate) -> None:
        """Take a change of a terminal: its command, its whole output, its end."""
        id = update.terminal_id
        terminal = self._terminal_of(id)
        terminal.command = _given(update.command, terminal.command) or ""
        if update.capabilities is not UNSET:
            terminal.can_cancel = _can_cancel(update.capabilities)
        output = update.output
        if output is None:
            self._replace(id, terminal, "")
        elif output is not UNSET:
            data = self._bytes(output.data, update)
            if data is not None:
                terminal.decoder = _decoder()
                self._replace(id, terminal, terminal.decoder.decode(data))
        if update.exit_status is not UNSET and update.exit_status is not None:
            rest = terminal.decoder.decode(b"", True)
            if rest:
                self._output(id, terminal, rest)
            self._exited(id, terminal, to_builtins(update.exit_status))

    def _replace(self, id: str, terminal: _AgentTerminal, whole: str) -> None:
        """Show the whole output of a terminal: what follows the earlier output, or in its place."""
        before = terminal.text
        if terminal.size_chars == len(before) and whole.startswith(before):
            self._output(id, terminal, whole[len(before) :])
            return
        terminal.text, terminal.size_chars = whole[-MAX_UNPLACED_CHARS:], len(whole)
        terminal.unplaced = ""
        call = self._call_states.get(terminal.call) if terminal.call is not None else None
        if terminal.call is None or call is None:
            terminal.unplaced = terminal.text
        elif id in self._background:
            self._show_output(id)
        elif not call.over:
            content = [*neutral_content(call.content), ToolText(Text(terminal.text))]
            self._channel.out.append(
                ToolCalled(
                    id=terminal.call,
                    content=content,
                    parent=call.parent,
                    replay=self._phase == "replay",
                )
            )

    def _output(self, id: str, terminal: _AgentTerminal, text: str) -> None:
        """Append text to a terminal, and show it in its call or its task.

        Only the end of the output is kept.
        """
        if not text:
            return
        terminal.text = (terminal.text + text)[-MAX_UNPLACED_CHARS:]
        terminal.size_chars += len(text)
        call = self._call_states.get(terminal.call) if terminal.call is not None else None
        if terminal.call is None or call is None:
            terminal.unplaced = (terminal.unplaced + text)[-MAX_UNPLACED_CHARS:]
        elif id in self._background:
            self._show_output(id)
        elif not call.over:
            self._append(terminal.call, text)

    def _append(self, call: str, text: str) -> None:
        """Append output to a tool call."""
        replay, state = self._phase == "replay", self._call_states[call]
        if not replay and state.turn == self._turn:
            self._turns.output(None)
        parent = state.parent
        self._channel.out.append(ToolCalled(id=call, append=text, parent=parent, replay=replay))

    def _place(self, id: str, call: str) -> None:
        """Assign a terminal to the tool call that shows it, and show its earlier output."""
        terminal = self._terminal_of(id)
        terminal.call = call
        text, terminal.unplaced = terminal.unplaced, ""
        if text:
            self._append(call, text)

    def _exited(self, id: str, terminal: _AgentTerminal, exit: dict[str, Any]) -> None:
        """Note the end of a program.

        Its exit status becomes the output of the tool call, unless the agent has reported that
        itself.
        """
        terminal.exit, terminal.can_cancel = exit, False
        call = self._call_states.get(terminal.call) if terminal.call is not None else None
        if id in self._background:
            self._finish(id)
        elif exit and call is not None and not (call.over or call.has_output):
            self._channel.out.append(
                ToolCalled(
                    id=terminal.call or "",
                    output=exit,
                    parent=call.parent,
                    replay=self._phase == "replay",
                )
            )

    # --- background work

    def _list_background(self, items: list[BackgroundItem]) -> None:
        """Report work that continues after the turn as tasks, and the end of what is not listed."""
        listed: set[str] = set()
        for item in items:
            match item:
                case BackgroundItem(type="terminal", terminal_id=str(id)):
                    terminal = self._terminal_of(id)
                    title, call, kind = terminal.command or "Terminal", terminal.call, "terminal"
                case BackgroundItem(type="tool_call", tool_call_id=str(id)):
                    tool = self._open_tool(id)
                    title, call, kind = tool.title or "Tool call", id, "tool_call"
                case BackgroundItem(type="subagent"):
                    continue  # `subagent_update` reports its state
                case _:
                    self._channel.unknown_value("background work", item.type, to_builtins(item))
                    continue
            listed.add(id)
            if id not in self._background:
                task = self._background[id] = Task(id=id, title=title, kind=kind)
                self._channel.out.append(TaskSet(task, call=call))
        for id in [id for id in self._background if id not in listed]:
            self._finish(id)

    def _show_output(self, id: str) -> None:
        """Show the latest output of a background terminal."""
        terminal, task = self._terminals[id], self._background[id]
        task = self._background[id] = Task(
            id=id, title=task.title, kind=task.kind, detail=terminal.text[-MAX_DETAIL_CHARS:]
        )
        self._channel.out.append(TaskSet(task, call=terminal.call))

    def _finish(self, id: str) -> None:
        """End a task that the agent does not list any more.

        It has failed if its program has reported a failure.
        """
        task = self._background.pop(id)
        terminal = self._terminals.get(id)
        status, call, detail = "completed", id, task.detail
        if terminal is not None:
            call, detail = terminal.call or id, terminal.text[-MAX_DETAIL_CHARS:] or None
            if terminal.exit and (terminal.exit.get("exitCode") or terminal.exit.get("signal")):
                status = "failed"
        task = Task(id=id, title=task.title, kind=task.kind, status=status, detail=detail)
        self._channel.out.append(TaskSet(task, call=call))


def tool_name_of(change: ToolChange) -> str | None:
    """Return the program's name of a tool."""
    return tool_name(change.name if isinstance(change.name, str) else None, change.meta)


def neutral_content(parts: list[ToolPart]) -> list[ToolContent]:
    """Convert the content of a tool call: each diff becomes one entry per file and hunk."""
    found: list[ToolContent] = []
    for part in parts:
        if isinstance(part, FilesDiff):
            found += _diffs(part)
        else:
            found.append(part)
    return found


def _as_detail(text: str) -> JsonObject:
    """Return a text as a part of a question's detail."""
    part: JsonObject = to_builtins(ToolText(Text(text)))
    return part


def _diffs(diff: FilesDiff) -> list[ToolContent]:
    """Convert a diff.

    A change without a patch that shows it becomes a line of text. The text of a patch that cannot
    be read is shown as it is.
    """
    patches: list[str] = []
    if diff.patch is not None and diff.patch.format == "git_patch":
        patches = _FILE.split(diff.patch.text)[1:]
    found: list[ToolContent] = []
    read = 0
    for index, change in enumerate(diff.changes):
        path = change.path or change.old_path or ""
        patch = _patch_of(change, index, patches, len(diff.changes))
        pairs = hunks(patch[patch.index("\n@@") + 1 :]) if "\n@@" in patch else []
        if not pairs:
            found.append(ToolText(Text(_change_line(change))))
        read += bool(pairs)
        for old, new in pairs:
            found.append(
                Diff(path=path, new_text=new, old_text=None if change.operation == "add" else old)
            )
    if diff.patch is not None and diff.patch.text and read != max(len(patches), 1):
        found.append(ToolText(Text(diff.patch.text)))
    return found


def _change_line(change: DiffChange) -> str:
    """Return a line about a change that no patch shows."""
    moved = f"{change.old_path} to " if change.old_path and change.path else ""
    kind = "" if change.file_type in (None, "text") else f" ({change.file_type})"
    return f"{change.operation} {moved}{change.path or change.old_path or ''}{kind}".strip()


def _patch_of(change: DiffChange, index: int, patches: list[str], changes: int) -> str:
    """Return the part of a git patch that is about a change."""
    for patch in patches if change.path else ():
        for line in patch.partition("\n@@")[0].splitlines():
            if named := _NAMED.match(line):
                file = named[1].rstrip()
                if change.path == file or f"{change.path}".endswith(f"/{file}"):
                    return patch
    return patches[index] if len(patches) == changes else ""


def _can_cancel(capabilities: CancelCapabilities | None) -> bool:
    """Return True if the agent offers to cancel this work."""
    return capabilities is not None and capabilities.cancel is not None


def _changed_files(parts: list[ToolPart]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the changed files, with the old paths of moves, and those among them that are new."""
    diffs = [part for part in parts if isinstance(part, FilesDiff)]
    changes = [each for diff in diffs for each in diff.changes]
    changed = [path for each in changes for path in (each.old_path, each.path) if path]
    created = [each.path for each in changes if each.path and each.operation == "add"]
    return tuple(changed), tuple(created)


def _given(value: T | UnsetType | None, before: T) -> T | None:
    """Return a field of a patch, or the value before it if the patch does not have the field."""
    return before if value is UNSET else value


def _cleared(value: str | UnsetType | None, cleared: str) -> str | UnsetType:
    """Return a field of a patch, with the value for a cleared field in place of null."""
    return cleared if value is None else value


def _decoder() -> codecs.IncrementalDecoder:
    """Return a decoder for output in pieces; invalid bytes become replacement characters."""
    return codecs.getincrementaldecoder("utf-8")("replace")
