"""What there is to be seen of a session: its events, folded once for whatever displays them.

A display gets each thing that can be shown for good; what is still going on is read from the
`View`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import trio
from msgspec import structs

from .._model.content import Diff, JsonObject, ToolText, plain_text
from .._model.events import (
    TERMINAL,
    Command,
    CommandsChanged,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    PermissionClosed,
    PermissionOpened,
    Phase,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    StateChanged,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    Tool,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)
from .._model.result import TurnResult
from .._model.state import TurnRecord
from .attaching import text_of
from .command_output import laid_out
from .console import stderr_of
from .diffs import changes
from .text import one_line, plain

_SHOWN: Final = frozenset({"agent_restarted", "agent_ended", "connected_again"})
"""Notices that are shown though nothing is wrong."""
KEPT: Final = 2000
"""Lines of a call's output that can be shown in full."""
PIECES: Final = 20_000
"""Pieces of output that are kept at least."""
THOUGHT: Final = 160
"""Characters of a thought that are shown."""
SUB_AGENT: Final = 1000
"""Characters of a sub-agent's message that are shown."""

ENDS: Final[dict[ItemStatus, str]] = {
    "completed": "",
    "orphaned": "unknown, the agent's process has ended",
}
"""How a call has ended, where its status does not say it."""


class Call:
    """A tool call."""

    def __init__(self, item: Item, since: float) -> None:
        self.item = structs.replace(item)
        self.since = since
        self.begun = False
        """It was shown that it runs."""
        self.steps = 0
        """Calls that a sub-agent has made in it."""
        self.changes_seen = False
        """What it would change was shown in a question."""
        self._streamed: list[str] = []
        self._forgotten = 0

    @property
    def open(self) -> bool:
        return self.item.status not in TERMINAL

    @property
    def tool(self) -> Tool:
        return self.item.tool or Tool()

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return tool_title(self.item)

    @property
    def took(self) -> float:
        return trio.current_time() - self.since

    def add(self, text: str) -> None:
        """It has written something."""
        self._streamed.append(text)
        if len(self._streamed) > 2 * PIECES:
            self._forgotten += sum(text.count("\n") for text in self._streamed[:PIECES])
            del self._streamed[:PIECES]

    def update(self, patch: JsonObject) -> None:
        """Fields of it are others now."""
        patch = dict(patch)
        tool = patch.pop("tool", None)
        before = self.item.status
        for name, value in patch.items():
            setattr(self.item, name, value)
        if tool is not None:
            self.item.tool = structs.replace(self.tool, **tool)
        if before in ("pending", "waiting") and self.item.status != before:
            self.since = trio.current_time()  # the time in which a person was asked is theirs

    @property
    def latest(self) -> str:
        """The end of what it has written so far."""
        texts = [part for part in self.tool.content if isinstance(part, ToolText)]
        return "".join(self._streamed[-20:]) or (plain_text([texts[-1].content]) if texts else "")

    def output(self) -> tuple[int, list[str]]:
        """How many lines of what came out are left out here, and the others, safe to be shown."""
        parts = [plain_text([p.content]) for p in self.tool.content if isinstance(p, ToolText)]
        forgotten = 0 if parts else self._forgotten
        lines = [line for part in parts or ["".join(self._streamed)] for line in _unfenced(part)]
        return forgotten + len(lines[:-KEPT]), lines[-KEPT:]

    def changes(self) -> list[str]:
        """The lines of what it changes, each with its mark."""
        diffs = [part for part in self.tool.content if isinstance(part, Diff)]
        return [plain(line) for diff in diffs for line in changes(diff)]

    def changed(self) -> str:
        """How many lines it has added and removed."""
        lines = self.changes()
        added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
        return f"+{added} −{removed}" if lines else ""


class Display(Protocol):
    """Where a view is shown. All that an agent says in it is as it came."""

    def prompted(self, event: TurnStarted, text: str) -> None:
        """A turn began with this prompt."""
        ...

    def said(self, item: str, text: str) -> None:
        """A piece of the answer."""
        ...

    def said_all(self, item: str) -> None:
        """That part of the answer is over."""
        ...

    def sub_agent_said(self, text: str) -> None:
        """A sub-agent has finished a message."""
        ...

    def thought(self, words: str, seconds: float) -> None:
        """A thought is over; its beginning, in one line."""
        ...

    def call_began(self, call: Call) -> None:
        """It runs, or somebody is asked about it; its title is known by now."""
        ...

    def call_ended(self, call: Call) -> None: ...

    def planned(self, plan: list[PlanEntry]) -> None:
        """The plan is another one."""
        ...

    def task_changed(self, task: Task, *, over: bool) -> None:
        """Background work began, or has another status."""
        ...

    def remark(self, level: str, text: str) -> None:
        """Something in a line, of the level of a notice."""
        ...

    def answered(self, kind: str, origin: str) -> None:
        """A question was answered by an option of this kind. `origin`: the one who answered, and
        from where; empty if it was this terminal."""
        ...

    def ended(self, event: TurnEnded, words: str, stderr: str) -> None:
        """A turn ended otherwise than one expects. `stderr`: what the agent wrote there last."""
        ...


class View:
    """The session, as far as it has to be seen."""

    def __init__(self, display: Display) -> None:
        self.phase: Phase = "starting"
        self.since = trio.current_time()
        """When the turn began, or the last one ended."""
        self.calls: dict[str, Call] = {}
        """Those that are open."""
        self._asked: dict[str, float] = {}
        """When the open questions were asked."""
        self.thoughts: dict[str, tuple[float, list[str]]] = {}
        """The open ones: since when, and their pieces."""
        self.plan: list[PlanEntry] = []
        self.tasks: dict[str, Task] = {}
        """Background work that goes on."""
        self.queue: list[QueueEntry] = []
        self.paused = False
        """Some prompts in the queue are paused."""
        self.modes: Modes | None = None
        self.commands: list[Command] = []
        """The agent's own."""
        self.usage: Usage | None = None
        self._display = display
        self._texts: set[str] = set()
        self._asides: dict[str, list[str]] = {}  # the open messages of sub-agents
        self._tasks_over: dict[str, str] = {}  # the status that was shown last
        self._options: dict[str, dict[str, str]] = {}
        self._silent = True
        self._broken_off = False
        self._take: dict[type, Callable[[Any], None]] = {
            StateChanged: self._state,
            TurnStarted: self._started,
            TurnEnded: self._ended,
            ItemOpened: self._opened,
            TextDelta: self._delta,
            ThoughtDelta: self._delta,
            ItemDelta: self._delta,
            ItemUpdated: self._updated,
            ItemClosed: self._closed,
            PlanChanged: self._planned,
            TaskChanged: self._task,
            ModesChanged: self._modes,
            CommandsChanged: self._commands,
            UsageChanged: self._usage,
            QueueChanged: self._queue,
            Notice: self._notice,
            PermissionOpened: self._asks,
            PermissionClosed: self._answered,
        }

    def take(self, event: Event) -> None:
        """Fold the next event."""
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def asked_about(self, id: str | None) -> Item | None:
        """What a question is about, which shows it now."""
        call = self.calls.get(id) if id is not None else None
        if call is None:
            return None
        call.changes_seen = True
        return call.item

    # --- turns

    def _state(self, event: StateChanged) -> None:
        self.phase = event.state.phase

    def _started(self, event: TurnStarted) -> None:
        self.phase, self.since = "running", trio.current_time()
        self._silent, self._broken_off = True, False
        if event.prompt is not None:
            self._display.prompted(event, text_of(event.prompt))
        elif event.origin == "agent":
            self._display.remark("info", "· the agent goes on by itself")

    def _ended(self, event: TurnEnded) -> None:
        self.since = trio.current_time()
        self._broken_off = event.outcome != "completed"
        if self._broken_off or all(entry.status == "completed" for entry in self.plan):
            self.plan = []
        words = how_it_ended(event)
        if words is not None:
            data = event.error.data if event.error is not None else None
            self._display.ended(event, one_line(words, 1000), stderr_of(data))
        elif self._silent:
            self._display.remark("info", "(the agent has nothing to say)")

    # --- items

    def _opened(self, event: ItemOpened) -> None:
        item = event.item
        if item.replay or item.type == "user":
            return
        over = item.status in TERMINAL
        if item.type == "text":
            if item.parent is None:
                self._texts.add(item.id)
                self._say(item.id, plain_text(item.content))
            else:
                self._asides[item.id] = [plain_text(item.content)]
        elif item.type == "thought":
            if item.parent is None and not over:
                self.thoughts[item.id] = trio.current_time(), []
        elif item.type == "tool":
            self._silent = False
            call = self.calls[item.id] = Call(item, trio.current_time())
            parent = self.calls.get(item.parent) if item.parent is not None else None
            if parent is not None:
                parent.steps += 1
            self._moved(call)
        if over:
            self._closed(ItemClosed(item.id, item.status))

    def _delta(self, event: ItemDelta) -> None:
        if event.item in self._texts:
            self._say(event.item, event.text)
        elif event.item in self._asides:
            self._asides[event.item].append(event.text)
        elif event.item in self.thoughts:
            self.thoughts[event.item][1].append(event.text)
        elif event.item in self.calls:
            self.calls[event.item].add(event.text)

    def _say(self, item: str, text: str) -> None:
        if text:
            self._silent = self._silent and text.isspace()
            self._display.said(item, text)

    def _updated(self, event: ItemUpdated) -> None:
        call = self.calls.get(event.item)
        if call is not None:
            call.update(event.patch)
            self._moved(call)

    def _moved(self, call: Call) -> None:
        if not call.begun and call.item.status in ("running", "waiting"):
            call.begun = True
            call.since = trio.current_time()
            self._display.call_began(call)

    def _closed(self, event: ItemClosed) -> None:
        if event.item in self._texts:
            self._texts.discard(event.item)
            self._display.said_all(event.item)
        elif (pieces := self._asides.pop(event.item, None)) is not None:
            if text := "".join(pieces).strip():
                self._display.sub_agent_said(text)
        elif (thought := self.thoughts.pop(event.item, None)) is not None:
            since, parts = thought
            words = one_line("".join(parts), THOUGHT)
            self._display.thought(words, trio.current_time() - since)
        elif (call := self.calls.pop(event.item, None)) is not None:
            call.item.status = event.status
            self._display.call_ended(call)

    # --- questions, which are shown by whoever asks them

    @property
    def asked_since(self) -> float | None:
        """When the oldest open question was asked."""
        return next(iter(self._asked.values()), None)

    def _asks(self, event: PermissionOpened) -> None:
        self._asked[event.request] = trio.current_time()
        self._options[event.request] = {option.id: option.kind for option in event.options}

    def _answered(self, event: PermissionClosed) -> None:
        self._asked.pop(event.request, None)
        kind = self._options.pop(event.request, {}).get(event.option or "")
        if event.by == "user" and kind is not None:
            here = event.via in ("", "terminal", "program")
            origin = "" if here else ", ".join(filter(None, (event.who, event.via)))
            self._display.answered(kind, origin)

    # --- the rest

    def _planned(self, event: PlanChanged) -> None:
        if self._broken_off:
            return  # the last word of a turn that was stopped
        before, self.plan = self.plan, event.plan
        if before != event.plan:
            self._display.planned(event.plan)

    def _task(self, event: TaskChanged) -> None:
        task = event.task
        over = task.status in TERMINAL or task.status in ("stopped", "killed")
        known = self.tasks.pop(task.id, None)
        before = known.status if known is not None else self._tasks_over.get(task.id)
        if over:
            self._tasks_over[task.id] = task.status
        else:
            self.tasks[task.id] = task
        if before != task.status:  # a report may follow the end
            self._display.task_changed(task, over=over)

    def _modes(self, event: ModesChanged) -> None:
        before = self.modes.mode if self.modes is not None else None
        self.modes = event.modes
        if before is not None and event.modes.mode not in (None, before):
            self._display.remark("info", f"mode: {one_line(event.modes.mode or '')}")

    def _commands(self, event: CommandsChanged) -> None:
        self.commands = event.commands

    def _usage(self, event: UsageChanged) -> None:
        self.usage = event.usage

    def _queue(self, event: QueueChanged) -> None:
        self.queue, self.paused = event.queue, event.paused

    def _notice(self, event: Notice) -> None:
        if event.level != "info" or event.code in _SHOWN:
            self._display.remark(event.level, one_line(event.message, 1000))


def tool_title(item: Item) -> str:
    """What a tool call is, in one line."""
    tool = item.tool or Tool()
    return one_line(tool.title or tool.name or tool.kind)


def how_it_failed(item: Item) -> str:
    """How a tool call of earlier ended, if not as one expects; else empty."""
    status = item.status
    return "" if status is None or status not in TERMINAL else ENDS.get(status, status)


def how_it_ended(end: TurnEnded | TurnRecord | TurnResult) -> str | None:
    """The end of a turn in words; None if it is what one expects."""
    why = end.error.message if end.error is not None else None
    said = end.stop_reason
    match end.outcome:
        case "completed":
            return None
        case "cancelled":
            return "cancelled by the agent" if end.by == "agent" else "cancelled"
        case "refused":
            return f"the agent refused: {why}" if why else "the agent refused"
        case "limit":
            return f"the agent stopped at a limit ({said})" if said else "stopped at a limit"
        case "failed":
            return f"the turn failed: {why or said or 'the agent did not say why'}"
        case "timed_out" | "agent_died":
            return why or end.outcome
        case None:
            return None


def _unfenced(text: str) -> list[str]:
    """The lines of some output, without the fence that some agents put around it."""
    lines = [line.rstrip() for line in plain(laid_out(text)).splitlines()]
    if len(lines) > 1 and lines[0].startswith("```") and lines[-1] == "```":
        return lines[1:-1]
    return lines
