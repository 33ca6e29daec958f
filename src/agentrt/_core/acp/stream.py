"""The updates of a session: every `session/update`, routed and converted to neutral effects.

Updates are routed by the session they name, never by the running turn: they come before the
response to `session/new`, after the response to a prompt, for children of the session, and for
unrelated sessions.

A stream has three phases. While `opening`, content is kept (`_early`), because its session's id or
the end of the handshake is not known yet; `open` reports it. In `replay`, which `session/load`
begins, content is the history of a loaded conversation and is marked as such. In `open`, content
belongs to the running turn, or shows that the agent works by itself. Updates about the session
itself, such as modes and commands, are reported in every phase.

The updates of a sub-agent's child session come under the child's own id. Its content is shown below
a card that this module makes up (`_card`), because the protocol reports no tool call for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, ValidationError, structs, to_builtins

from ..model.content import Block, Diff, Text, plain_text
from ..model.driver import (
    BlockReceived,
    DecisionRequested,
    ModesSet,
    TaskSet,
    TextReceived,
    TitleSet,
    ToolCalled,
    UserContentReceived,
)
from ..model.events import ItemStatus, Notice, Task, Usage, compacted
from ..wire.channel import Channel
from ..wire.json import lenient
from .messages import (
    AcpMessage,
    AcpPlan,
    AcpPlanEntry,
    AcpToolCall,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    KnownUpdate,
    NoticeUpdate,
    PlanItems,
    PlanRemoved,
    PlanUpdate,
    SessionInfoUpdate,
    SessionMessage,
    SubagentUpdate,
    ToolCallUpdate,
    ToolFields,
    UnknownUpdate,
    UsageUpdate,
    UserMessageChunk,
    sub_agent_of,
)
from .settings import AcpSettings
from .translate import (
    TOOL_STATUS,
    commands_set,
    plan_set,
    tool_called,
    tool_name,
    usage_set,
    with_usage,
)

MAX_EARLY_UPDATES = 10_000
"""Limit of updates that are kept because they come too early to be reported. Real agents send
three."""

Content: TypeAlias = (
    UserMessageChunk | AgentMessageChunk | AgentThoughtChunk | AcpToolCall | ToolCallUpdate
)
"""The updates that make up the conversation; all others are about the session."""

_LEVELS: dict[str | None, Literal["info", "warning", "error"]] = {
    "warning": "warning",
    "error": "error",
}


OVER: dict[str, ItemStatus] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "failed": "failed",
}
"""Status of a child session's card when it ends, by the status of its task."""


class _ChildSession(Struct):
    """A child session that the agent announced."""

    task: Task
    can_stop: bool = False
    answer: str = ""
    """The last message to its parent."""


class WorkCancel(Struct, frozen=True):
    """A request that cancels background work by itself."""

    method: str
    request: Struct
    refused: Callable[[], None]
    """Called if the agent refuses it: the work may then be cancelled again."""


class OpenAcpTool(Struct, gc=False):
    """The last reported state of a tool call: permission requests often contain only its id."""

    title: str | None = None
    name: str | None = None
    kind: str | None = None
    input: Any = None
    changes: Sequence[str] = ()
    created: Sequence[str] = ()
    locations: Sequence[str] = ()


class AcpStream:
    """The updates of one session."""

    content_types: ClassVar[Any] = Content
    """The updates that make up the conversation."""

    def __init__(self, channel: Channel, settings: AcpSettings) -> None:
        """Create a stream for a session whose id is not known yet."""
        self.session: str | None = None
        """The agent's id of the session, as soon as it is known."""
        self.live: str | None = None
        """The id of the turn while a prompt is in flight, else None."""
        self.works_by_itself = False
        """True if the agent has sent content since the last turn that no prompt asked for."""
        self.replayed = 0
        """Number of updates that repeated a loaded conversation."""
        self.spent: Usage | None = None
        """Usage of the running turn so far, if the agent reports it with its messages."""
        self._channel = channel
        self._settings = settings
        self._phase: Literal["opening", "replay", "open"] = "opening"
        self._early: list[tuple[str, KnownUpdate | UnknownUpdate]] = []
        self._children: dict[str, _ChildSession] = {}
        self._tools: dict[str, OpenAcpTool] = {}
        self._calls: dict[str, None] = {}
        """Every tool call that has a card."""
        self._summaries: dict[str, list[str]] = {}
        self._plans: dict[str, list[AcpPlanEntry]] = {}

    # --- events of the driver

    def expect(self, session: str, *, replay: bool) -> None:
        """Set the session's id. `replay`: the following updates are its history."""
        self.session = session
        self._phase = "replay" if replay else "opening"

    def open(self) -> None:
        """Note the end of the handshake, and report the updates that came too early."""
        self._phase = "open"
        self.works_by_itself = False
        early, self._early = self._early, []
        for session, update in early:
            self.update(session, update)

    def begin_turn(self) -> None:
        """Note that a prompt is in flight."""
        self.live = self.session
        self.works_by_itself = False
        self.spent = None
        self._tools.clear()

    def end_turn(self) -> None:
        """Note that no prompt is in flight."""
        self.live = None
        self._phase = "open"

    def can_stop(self, task: Any) -> bool:
        """Return True if `task` is the id of a child session that can be cancelled."""
        child = self._children.get(task) if isinstance(task, str) else None
        return child is not None and child.can_stop

    def cancel_work(self, task: Any) -> WorkCancel | None:
        """Return the request that cancels a terminal or a tool call; None if there is none.

        Version 1 has no such requests.
        """
        return None

    def show_commands(self, commands: list[AvailableCommand] | None) -> None:
        """Report the slash commands, if the result that opened the session has them."""
        if commands is not None:
            self._channel.out.append(commands_set(commands))

    def show_settings(self) -> None:
        """Report the session's settings."""
        self._channel.out.append(ModesSet(self._settings.view()))

    # --- routing

    def text(self, text: str, thought: bool, message: str | None) -> None:
        """Take text of the running turn, perhaps from many pieces."""
        self._channel.out.append(TextReceived(text, thought, message))

    def update(self, session: str, update: Any) -> None:
        """Take an update: route it by its session, then convert it."""
        parent = None
        if session != self.session:
            if session in self._children:
                parent = session
            elif self.session is None:
                self._keep(session, update)
                return
            else:
                self._drop("foreign_session", f"an update of another session, {session!r}", update)
                return
        if isinstance(update, self.content_types):
            if self._phase == "opening":
                self._keep(session, update)
            else:
                self.works_by_itself = self.live is None
                self.replayed += self._phase == "replay"
                replay = self._phase == "replay"
                self._content(update, parent or self._sub_agent(update, replay), replay)
        elif isinstance(update, SubagentUpdate):
            self._subagent(update, parent)
        elif isinstance(update, SessionMessage):
            self._session_message(update)
        elif parent is None:
            self._about_session(update)

    def _keep(self, session: str, update: KnownUpdate | UnknownUpdate) -> None:
        """Keep an update until the session is open; drop it with a notice if there are too many."""
        if len(self._early) < MAX_EARLY_UPDATES:
            self._early.append((session, update))
        else:
            self._drop("early_update", "too many updates before the session was open", update)

    def _drop(self, code: str, what: str, update: KnownUpdate | UnknownUpdate) -> None:
        """Report an update that is not shown, with its content."""
        self._channel.notice("info", code, f"the agent sent {what}: dropped", _raw(update))

    # --- the conversation

    def _content(self, update: Content, parent: str | None, replay: bool) -> None:
        """Convert an update of the conversation. User messages of sub-agents are not shown."""
        out = self._channel.out
        match update:
            case ToolFields():
                self._remember(update)
                out.append(tool_called(update, parent, replay))
            case UserMessageChunk(content=block, message_id=message):
                if parent is None:
                    out.append(UserContentReceived(content=[block], message=message, replay=replay))
            case AgentMessageChunk() | AgentThoughtChunk():
                thought = isinstance(update, AgentThoughtChunk)
                if update.meta is not None and not replay:
                    self.spent = with_usage(self.spent, update.meta.get("usage"))
                out.append(speech_of(update.content, thought, update.message_id, parent, replay))

    def _sub_agent(self, update: AcpMessage, replay: bool) -> str | None:
        """Return the tool call of the sub-agent that sent an update, or None if the agent does not
        name it.

        A call that was not reported yet gets its card now, so that the steps can be shown below it.
        """
        parent = None if update.meta is None else sub_agent_of(update.meta)
        if parent is None or parent == getattr(update, "tool_call_id", None):
            return None
        if parent not in self._calls:
            self._calls[parent] = None
            self._channel.out.append(
                ToolCalled(
                    id=parent,
                    opens=True,
                    title="Sub-agent",
                    kind="think",
                    status="running",
                    replay=replay,
                )
            )
        return parent

    def _open_tool(self, id: str) -> OpenAcpTool:
        """Return the remembered fields of a tool call of this turn, and note that it has a card."""
        tool = self._tools.get(id)
        if tool is None:
            self._calls[id] = None
            tool = self._tools[id] = OpenAcpTool()
        return tool

    def _remember(self, update: ToolFields) -> OpenAcpTool:
        """Keep the fields of a tool call that a permission request for it may leave out, and report
        a status that ACP does not define.

        A diff without old text creates its file.
        """
        if update.status is not None and update.status not in TOOL_STATUS:
            about = {"call": update.tool_call_id, "status": update.status}
            self._channel.unknown_value("tool call status", update.status, about)
        tool = self._open_tool(update.tool_call_id)
        tool.title = update.title or tool.title
        tool.name = tool_name(update.name, update.meta) or tool.name
        tool.kind = update.kind or tool.kind
        tool.input = update.raw_input if update.raw_input is not None else tool.input
        if update.content is not None:
            diffs = [each for each in update.content if isinstance(each, Diff)]
            if diffs or tool.changes:
                tool.changes = tuple(each.path for each in diffs)
                tool.created = tuple(each.path for each in diffs if each.old_text is None)
        if update.locations is not None:
            tool.locations = tuple(each.path for each in update.locations)
        return tool

    def about_permission(self, request: Any) -> DecisionRequested:
        """Convert a permission request to a question; the caller adds the key and the options.

        The request's fields about its tool call are reported first, because no update may follow
        with them.
        """
        update = request.tool_call
        known = update.tool_call_id in self._tools
        tool = self._remember(update)
        parent = request.session_id if request.session_id in self._children else None
        parent = parent or self._sub_agent(update, False)
        called = tool_called(update, parent, False)
        called.opens = not known
        if known:
            called.status = UNSET  # the call continues as it was, below the question
        self._channel.out.append(called)
        return DecisionRequested(
            key="",
            kind="permission",
            title=tool.title or tool.name or tool.kind or "The agent asks for permission",
            tool_call=update.tool_call_id,
            name=tool.name,
            tool_kind=tool.kind,
            input=tool.input,
            changes=list(tool.changes),
            created=list(tool.created),
            locations=list(tool.locations),
            detail=to_builtins(update.content) if update.content else None,
        )

    # --- the session

    def _about_session(self, update: KnownUpdate | UnknownUpdate) -> None:
        """Convert an update about the session; one that changes nothing here becomes a notice."""
        out = self._channel.out
        match update:
            case AcpPlan():
                out.append(plan_set(update.entries))
            case PlanUpdate() | PlanRemoved():
                self._plan_updated(update)
            case AvailableCommandsUpdate():
                out.append(commands_set(update.available_commands))
            case UsageUpdate():
                out.append(usage_set(update))
            case SessionInfoUpdate(title=title):
                if title is not UNSET:
                    out.append(TitleSet(title))
            case CurrentModeUpdate():
                self._settings.mode_is(update.current_mode_id or update.mode_id or "")
                self.show_settings()
            case ConfigOptionUpdate(config_options=options):
                self._settings.options = options
                self.show_settings()
            case CompactionSummaryChunk(compaction_id=id, content=block):
                self._summaries.setdefault(id, []).append(plain_text([block]))
            case CompactionUpdate():
                self._compaction(update)
            case _:
                self._report(update)

    def _plan_updated(self, update: PlanUpdate | PlanRemoved) -> None:
        """Show all lists of steps as one plan. A plan of another kind is only reported."""
        if isinstance(update, PlanRemoved):
            self._plans.pop(str(update.plan_id), None)
        else:
            try:
                plan = lenient(update.plan, PlanItems, [])
            except ValidationError:
                self._report(update)
                return
            if plan.type != "items":
                self._report(update)
                return
            self._plans[plan.plan_id] = plan.entries
        entries = [entry for entries in self._plans.values() for entry in entries]
        self._channel.out.append(plan_set(entries))

    def _report(self, update: KnownUpdate | UnknownUpdate) -> None:
        """Report an update that changes nothing, as a notice."""
        match update:
            case NoticeUpdate(severity=severity, title=title, description=description):
                message = f"{title}: {description}" if description else title
                self._channel.notice(
                    _LEVELS.get(severity, "info"), "agent_notice", message, about=message
                )
            case UnknownUpdate(defect=str() as defect, raw=raw):
                self._channel.notice("warning", "unusable_update", f"the agent sent {defect}", raw)
            case _:
                raw = _raw(update)
                kind = raw["sessionUpdate"]
                self._channel.notice(
                    "info", "unknown_update", f"the agent sent a {kind}", raw, about=kind
                )

    def _compaction(self, update: CompactionUpdate) -> None:
        """Show the compaction of the conversation as a task, with its summary as the report.

        The summary comes as a whole or in earlier pieces.
        """
        status = "running" if update.status == "in_progress" else update.status
        if update.summary is not None:
            detail = plain_text(update.summary)
        else:
            detail = "".join(self._summaries.get(update.compaction_id, ()))
        if status != "running":
            self._summaries.pop(update.compaction_id, None)
        if isinstance(update.error, str):
            detail = update.error
        self._channel.out.append(
            TaskSet(
                Task(
                    id=update.compaction_id,
                    title="Compacting the conversation",
                    status=status,
                    kind="compaction",
                    detail=detail or None,
                )
            )
        )
        if status == "completed":
            self._channel.out.append(compacted())
        elif status == "failed":
            why = detail or "unknown cause"
            self._channel.out.append(Notice("warning", "compact_failed", why))

    def _subagent(self, update: SubagentUpdate, parent: str | None) -> None:
        """Take an announcement or a change of a child session, as a task and as a card.

        Its state `idle` ends the task: as failed or cancelled by its stop reason, else as
        completed.
        """
        child = self._children.get(update.session_id)
        if child is None:
            task = Task(id=update.session_id, title="Sub-agent", kind="subagent")
            child = self._children[update.session_id] = _ChildSession(task)
        task = child.task = Task(
            id=update.session_id,
            title=update.title or child.task.title,
            status=child.task.status,
            kind="subagent",
            detail=child.answer or update.description or child.task.detail,
        )
        if update.capabilities is not None:
            child.can_stop = update.capabilities.get("cancel") is not None
        if update.state is not None:
            idle = update.state.get("state") == "idle"
            ends = {"cancelled": "cancelled", "error": "failed"}
            reason = str(update.state.get("stopReason"))
            task.status = ends.get(reason, "completed") if idle else "running"
        self._card(task, parent)
        self._channel.out.append(TaskSet(task, call=task.id))

    def _session_message(self, update: SessionMessage) -> None:
        """Show what a child session was asked in its card, and its answer as its task's report."""
        said = plain_text(update.content or [])
        if child := self._children.get(update.recipient_session_id or ""):
            if child.task.id in self._calls and self.live is not None:
                asked = ToolCalled(id=child.task.id, input={"prompt": said})
                self._channel.out.append(asked)
        elif child := self._children.get(update.sender_session_id or ""):
            child.answer = said
            child.task = structs.replace(child.task, detail=said)
            self._channel.out.append(TaskSet(child.task, call=child.task.id))
        else:
            self._report(update)

    def _card(self, task: Task, parent: str | None) -> None:
        """Show a child session, which has no tool call, as a card in the running turn.

        Its steps are shown below the card.
        """
        known = task.id in self._calls
        over = task.status != "running"
        if self.live is None or (known and not over) or (over and not known):
            return
        self._calls[task.id] = None
        status = OVER[task.status] if over else "running"
        card = ToolCalled(id=task.id, title=task.title, kind="think", status=status)
        card.opens, card.parent = not known, parent
        self._channel.out.append(card)


def speech_of(
    block: Block, thought: bool, message: str | None, parent: str | None, replay: bool
) -> TextReceived | BlockReceived:
    """Convert a block of a message."""
    if isinstance(block, Text):
        return TextReceived(block.text, thought, message, parent, replay)
    return BlockReceived(
        block=block, thought=thought, message=message, parent=parent, replay=replay
    )


def _raw(update: KnownUpdate | UnknownUpdate) -> Any:
    """Return an update for a notice, as it came if it was not understood."""
    return update.raw if isinstance(update, UnknownUpdate) else to_builtins(update)
