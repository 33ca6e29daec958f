"""A view of a session: its events, folded once for all displays.

A display receives everything that can be shown permanently; the ongoing items are read from the
`View`. Changes of files are shown as text for a person who has to allow them.

`View` is the only place that interprets events for people: both displays, the screen and the lines,
are driven by the same calls of `Display`, so they cannot disagree on whether a call failed or a
turn has ended. It keeps only the items that are still open. A finished one is passed on, and is
then the display's.

Times are those of this process (`trio.current_time`), not of the log: they are for showing
durations. The time that a call has waited for a person does not count for it.

Three kinds of events are deliberately not shown: items that are replayed when a session is resumed,
prompts as items (their turn shows them), and informational notices other than those in `_SHOWN`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final, Protocol

import trio
from msgspec import structs

from ..._public import TurnResult
from ...display import reveal
from ...events import (
    TERMINAL,
    Block,
    Command,
    CommandsChanged,
    Diff,
    ErrorInfo,
    Event,
    Image,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemUpdated,
    JsonObject,
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
    Resource,
    ResourceLink,
    StateChanged,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolText,
    TurnEnded,
    TurnRecord,
    TurnStarted,
    Usage,
    UsageChanged,
    plain_text,
)
from ...lowlevel import updated_item
from ..command_output import CommandOutput, Run
from ..console import stderr_of
from ..printing import as_date
from ..session_view import text_of
from ..text import one_line, plain

COMPARED_LINES: Final = 2000
"""Lines above which a line-by-line comparison could take seconds."""


NO_NEWLINE: Final = "  ⟨no newline at the end⟩"
"""Follows a last line without a newline, if the last line of the other version has one."""
UNCHANGED_LINES: Final = 40
"""Lines up to which a question also shows the unchanged ones."""


def changes(diff: Diff) -> list[str]:
    """Return the lines of a unified diff after its head, each with its mark.

    They are the agent's own text.
    """
    return _compared(diff.old_text, diff.new_text, around=2)


def _compared(old_text: str | None, new_text: str, *, around: int) -> list[str]:
    """Compare two texts line by line. `around`: the number of unchanged lines to show around a
    change.

    Beyond `COMPARED_LINES` only the equal beginning and end are left out; everything between counts
    as replaced. A newline that only one version has at its end is shown as such.
    """
    old, new = _split(old_text or ""), _split(new_text)
    if old and new and old_text is not None and old_text[-1:] != new_text[-1:]:
        for lines, text in ((old, old_text), (new, new_text)):
            lines[-1] += "" if text.endswith("\n") else NO_NEWLINE
    if len(old) + len(new) <= COMPARED_LINES:
        return list(difflib.unified_diff(old, new, lineterm="", n=around))[2:]
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    return [f"@@ line {start + 1} @@", *(f"-{x}" for x in removed), *(f"+{x}" for x in added)]


def show_diff(path: str, new: str, old: str | None) -> list[str]:
    """Return a change for a person who decides on it: its file and lines, with all characters
    visible.
    """
    small = len(_split(new)) + len(_split(old or "")) <= UNCHANGED_LINES
    lines = _compared(old, new, around=UNCHANGED_LINES if small else 2)
    if not lines and new:
        lines = ["  (nothing changes)", *(f" {line}" for line in _split(new))]
    what = "new file" if old is None else "change of"
    first, *rest = reveal(path).expandtabs(4).split("\n")
    shown = [line for each in lines for line in [reveal(each).expandtabs(4)]]
    return [f"{what} {first}", *(f"    {line}" for line in rest), *shown]


def _split(text: str) -> list[str]:
    """Return the lines of a text.

    Only a newline ends a line; splitting at Python's other line ends would lose those characters.
    """
    return text.removesuffix("\n").split("\n") if text else []


def _common(one: list[str], other: list[str]) -> int:
    """Return the number of lines with which both begin."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


_SHOWN: Final = frozenset(
    {
        "agent_restarted",
        "agent_ended",
        "connected_again",
        "files_changed",
        "files_restored",
        "permission_denied",
        "hook_prompt",
        "compacting",
        "compacted",
        "conversation_reset",
        "local_command",
        "informational",
        "notification",
    }
)
"""Codes of informational notices that are shown."""
KEPT_LINES: Final = 2000
"""Lines of a call's output that can be shown in full."""
LAST_LINE_CHARS: Final = 4096
"""Characters of a running command's output that are searched for its last line."""
INPUT_CHARS: Final = 400
"""Characters of the input of a call that the agent is still writing."""
REPEATING: Final = frozenset({"execute", "read", "edit"})
"""Kinds of calls whose structured result repeats their output."""
THOUGHT_CHARS: Final = 160
"""Characters of a thought that are shown."""
TASK_CHARS: Final = 300
"""Characters of the report of background work that are shown."""
SUB_AGENT_CHARS: Final = 1000
"""Characters of a sub-agent's message that are shown."""

ENDS: Final[dict[ItemStatus, str]] = {
    "completed": "",
    "orphaned": "interrupted; the agent's process has ended",
}
"""The text for the end of a call, for statuses that do not explain themselves."""


class CallView:
    """A tool call."""

    def __init__(self, item: Item, since: float, parent: CallView | None = None) -> None:
        self.item = structs.replace(item)
        self.since = since
        self.parent = parent
        """The call of the sub-agent that makes this one."""
        self.begun = False
        """True once the display has shown that it runs."""
        self.steps = 0
        """The number of calls that a sub-agent has made in it."""
        self.changes_seen = False
        """True if a question has shown its changes."""
        self._streamed = CommandOutput(rows=KEPT_LINES)

    @property
    def depth(self) -> int:
        """The number of calls that it is inside of."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def tool(self) -> ToolCall:
        """The call's own data; empty if the agent has sent none."""
        return self.item.tool or ToolCall()

    @property
    def title(self) -> str:
        """A one-line title."""
        return tool_title(self.item)

    @property
    def took(self) -> float:
        """Seconds since the call began to run."""
        return trio.current_time() - self.since

    def add(self, text: str) -> None:
        """Add a piece of output."""
        self._streamed.feed(text)

    def update(self, patch: JsonObject) -> None:
        """Apply changed fields of the item."""
        before = self.item.status
        self.item = updated_item(self.item, patch)
        if before in ("pending", "waiting") and self.item.status != before:
            self.since = trio.current_time()  # the time spent waiting for a person does not count

    @property
    def last_line(self) -> list[Run]:
        """The last line of its output so far, without fences."""
        texts = self._texts()
        if not texts and self.tool.input_text:  # the agent is still writing the call
            return [("", one_line(self.tool.input_text, INPUT_CHARS))]
        screen = CommandOutput(texts[-1][-LAST_LINE_CHARS:]) if texts else self._streamed
        lines = (line for line in reversed(screen.tail) if line)
        return next((line for line in lines if not text_of_line(line).startswith("```")), [])

    def output(self) -> tuple[int, list[list[Run]]]:
        """Return the number of omitted lines of output, and the other lines, safe to display."""
        texts = self._texts()
        if not texts:
            screen = self._streamed
            forgotten, lines = screen.forgotten, _unfenced(screen.lines)
        else:
            ends = [_end_of(text) for text in texts]
            forgotten = sum(left_out for left_out, _ in ends)
            screens = [CommandOutput(end) for _, end in ends]
            lines = [line for each in screens for line in _unfenced(each.lines)]
        return forgotten + len(lines[:-KEPT_LINES]), lines[-KEPT_LINES:]

    def _texts(self) -> list[str]:
        """Return the texts of the call's result. Until there are some, streamed output is shown."""
        return [shown_text(p.content) for p in self.tool.content if isinstance(p, ToolText)]

    def links(self) -> list[str]:
        """Return the links of its result, each as a line."""
        parts = [p.content for p in self.tool.content if isinstance(p, ToolText)]
        return [plain(shown_text(each)) for each in parts if isinstance(each, ResourceLink)]

    @property
    def structured(self) -> object:
        """The structured result, unless it only repeats the output; None without one."""
        return None if self.tool.kind in REPEATING else self.tool.output

    def changes(self) -> list[str]:
        """Return the lines of its changes, each with its mark."""
        diffs = [part for part in self.tool.content if isinstance(part, Diff)]
        return [plain(line) for diff in diffs for line in changes(diff)]

    def changed(self) -> str:
        """Return how many lines it has added and removed, as text; empty if it has no changes."""
        lines = self.changes()
        added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
        return f"+{added} −{removed}" if lines else ""


class Display(Protocol):
    """The destination of a view. Texts from an agent are passed unchanged."""

    def prompted(self, event: TurnStarted, text: str) -> None:
        """A turn started with this prompt."""
        ...

    def answer_text(self, item: str, text: str) -> None:
        """A piece of the answer arrived."""
        ...

    def answer_complete(self, item: str) -> None:
        """This part of the answer is complete."""
        ...

    def sub_agent_message(self, text: str, call: CallView | None) -> None:
        """The sub-agent of `call` has finished a message."""
        ...

    def thought(self, text: str, seconds: float) -> None:
        """A thought is complete."""
        ...

    def image(self, image: Image) -> None:
        """The answer or a call contains an image."""
        ...

    def call_began(self, call: CallView) -> None:
        """A call runs, or a question about it is open; its title is known."""
        ...

    def call_ended(self, call: CallView) -> None: ...

    def planned(self, plan: list[PlanEntry]) -> None:
        """The plan has changed."""
        ...

    def task_changed(self, task: Task, *, over: bool) -> None:
        """Background work started, or its status has changed."""
        ...

    def remark(self, level: str, text: str) -> None:
        """A one-line message with the level of a notice."""
        ...

    def answered(self, kind: str, origin: str) -> None:
        """A question was answered with an option of this kind.

        `origin`: the user who answered and the client they used; empty if it was this terminal.
        """
        ...

    def ended(self, event: TurnEnded, words: str, stderr: str) -> None:
        """A turn ended in an unexpected way.

        `stderr`: the end of the agent's standard error.
        """
        ...


class View:
    """The state of the session, as far as it is displayed."""

    def __init__(self, display: Display) -> None:
        self.phase: Phase = "starting"
        self.since = trio.current_time()
        """The time at which the turn began or the last one ended."""
        self.calls: dict[str, CallView] = {}
        """The open calls."""
        self._asked: dict[str, float] = {}
        """The times at which the open questions were asked."""
        self.thoughts: dict[str, tuple[float, list[str]]] = {}
        """The open thoughts: the start time and the pieces of each."""
        self.plan: list[PlanEntry] = []
        self.tasks: dict[str, Task] = {}
        """Background work in progress."""
        self.queue: list[QueueEntry] = []
        self.paused = False
        """True if some prompts in the queue are paused."""
        self.modes: Modes | None = None
        self.commands: list[Command] = []
        """The agent's own commands."""
        self.usage: Usage | None = None
        self.turn_usage: Usage | None = None
        """The usage of the last turn."""
        self.sandbox: str = ""
        """The sandbox around the agent, in words; empty without one."""
        self.granted: list[tuple[str, str]] = []
        """Permissions of the sandbox that were given for the session: their kind, such as
        `Network`, and the host, path or program."""
        self.budget: str = ""
        """The spent part of the budgets, once a turn has ended."""
        self._display = display
        self._texts: set[str] = set()
        self._asides: dict[str, tuple[str, list[str]]] = {}
        """The open messages of sub-agents: the call and the pieces of each."""
        self._tasks_over: dict[str, tuple[str, str | None]] = {}
        """The status and the report of the ended work, as they were shown last."""
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
        """Apply the next event."""
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def asked_about(self, id: str | None) -> Item | None:
        """Return the tool call of a question, which is about to show its changes."""
        call = self.calls.get(id) if id is not None else None
        if call is None:
            return None
        call.changes_seen = True
        return call.item

    # --- turns

    def _state(self, event: StateChanged) -> None:
        self.phase = event.state.phase

    def _started(self, event: TurnStarted) -> None:
        """Begin a turn. The agent may begin one by itself, for example when background work has
        ended.
        """
        self.phase, self.since = "running", trio.current_time()
        self._silent, self._broken_off = True, False
        if event.prompt is not None:
            self._display.prompted(event, text_of(event.prompt))
        elif event.origin == "agent":
            self._display.remark("info", "· the agent continues by itself")

    def _ended(self, event: TurnEnded) -> None:
        """End a turn, and report it if the end or the lack of any answer is unexpected.

        The plan is dropped if it is finished or the turn was broken off; otherwise it continues to
        be shown, because the next turn may continue it.
        """
        self.since = trio.current_time()
        self.turn_usage = event.usage
        self._broken_off = event.outcome != "completed"
        if self._broken_off or all(entry.status == "completed" for entry in self.plan):
            self.plan = []
        words = how_it_ended(event)
        if words is not None:
            data = event.error.data if event.error is not None else None
            self._display.ended(event, one_line(words, 1000), stderr_of(data))
        elif self._silent:
            self._display.remark("info", "(no answer)")

    # --- items

    def _opened(self, event: ItemOpened) -> None:
        """Show the start of an item. Replayed items and prompts are left out.

        Text of sub-agents is kept with their call until it ends; a thought is only timed until it
        is closed. An item that is already over is closed immediately.
        """
        item = event.item
        if item.replay or item.type == "user":
            return
        over = item.status in TERMINAL
        if item.type == "text":
            if item.parent is None:
                self._texts.add(item.id)
                shown = [b for b in item.content if not isinstance(b, Image)]
                self._say(item.id, "\n".join(map(shown_text, shown)))
                for block in item.content:
                    if isinstance(block, Image):
                        self._silent = False
                        self._display.image(block)
            else:
                self._asides[item.id] = item.parent, [plain_text(item.content)]
        elif item.type == "thought":
            if item.parent is None and not over:
                self.thoughts[item.id] = trio.current_time(), []
        elif item.type == "tool":
            self._silent = False
            parent = self.calls.get(item.parent or "")
            call = self.calls[item.id] = CallView(item, trio.current_time(), parent)
            if parent is not None:
                parent.steps += 1
            self._moved(call)
        if over:
            self._closed(ItemClosed(item.id, item.status))

    def _delta(self, event: ItemDelta) -> None:
        """Add a piece of text to the open item that it belongs to. Others are not shown."""
        if event.item in self._texts:
            self._say(event.item, event.text)
        elif event.item in self._asides:
            self._asides[event.item][1].append(event.text)
        elif event.item in self.thoughts:
            self.thoughts[event.item][1].append(event.text)
        elif event.item in self.calls:
            self.calls[event.item].add(event.text)

    def _say(self, item: str, text: str) -> None:
        """Pass on a piece of the answer, and note that the turn has one if it is not blank."""
        if text:
            self._silent = self._silent and text.isspace()
            self._display.answer_text(item, text)

    def _updated(self, event: ItemUpdated) -> None:
        """Apply changed fields to a call."""
        call = self.calls.get(event.item)
        if call is not None:
            call.update(event.patch)
            self._moved(call)

    def _moved(self, call: CallView) -> None:
        """Report the beginning of a call, once it runs or a question about it is open.

        Before that its title may change: the agent is still writing the call.
        """
        if not call.begun and call.item.status in ("running", "waiting"):
            call.begun = True
            call.since = trio.current_time()
            self._display.call_began(call)

    def _closed(self, event: ItemClosed) -> None:
        """Report the end of an item, and the images in the result of a call."""
        if event.item in self._texts:
            self._texts.discard(event.item)
            self._display.answer_complete(event.item)
        elif (aside := self._asides.pop(event.item, None)) is not None:
            if text := "".join(aside[1]).strip():
                self._display.sub_agent_message(text, self.calls.get(aside[0]))
        elif (thought := self.thoughts.pop(event.item, None)) is not None:
            since, parts = thought
            self._display.thought("".join(parts), trio.current_time() - since)
        elif (call := self.calls.pop(event.item, None)) is not None:
            call.item.status = event.status
            self._display.call_ended(call)
            for part in call.tool.content:
                if isinstance(part, ToolText) and isinstance(part.content, Image):
                    self._display.image(part.content)

    # --- questions, which are displayed by the asker

    @property
    def asked_since(self) -> float | None:
        """The time at which the oldest open question was asked; None if none is open."""
        return next(iter(self._asked.values()), None)

    def _asks(self, event: PermissionOpened) -> None:
        """Note an open question, with the kinds of its options, which the answer does not
        repeat.
        """
        self._asked[event.request] = trio.current_time()
        self._options[event.request] = {option.id: option.kind for option in event.options}

    def _answered(self, event: PermissionClosed) -> None:
        """Report the answer of a person; decisions of policies and rules are not shown here."""
        self._asked.pop(event.request, None)
        kind = self._options.pop(event.request, {}).get(event.option or "")
        if event.by == "user" and kind is not None:
            here = event.via in ("", "terminal", "program")
            origin = "" if here else ", ".join(filter(None, (event.who, event.via)))
            self._display.answered(kind, origin)

    # --- other events

    def _planned(self, event: PlanChanged) -> None:
        """Replace the plan, and report the change. After a turn that was broken off, a late plan is
        ignored.
        """
        if self._broken_off:
            return  # the last plan of a stopped turn
        before, self.plan = self.plan, event.plan
        if before != event.plan:
            self._display.planned(event.plan)

    def _task(self, event: TaskChanged) -> None:
        """Note background work, and report its beginning, its end, and a report that follows the
        end.
        """
        task = event.task
        over = task.status in TERMINAL or task.status in ("stopped", "killed")
        known = self.tasks.pop(task.id, None)
        before = self._tasks_over.pop(task.id, None)
        if known is not None:
            before = known.status, known.detail
        if over:
            self._tasks_over[task.id] = task.status, task.detail
        else:
            self.tasks[task.id] = task
        if before is None or before[0] != task.status or (over and before[1] != task.detail):
            self._display.task_changed(task, over=over)  # a report may follow the end

    def _modes(self, event: ModesChanged) -> None:
        """Note the modes, and report a change of the mode, which the agent may make by itself."""
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
        """Show a notice, and take over the state of the sandbox and the budget from those that
        carry it.
        """
        if event.code in _SANDBOX and isinstance(event.data, dict):
            self.sandbox = str(event.data.get("summary", ""))
            self.granted = [
                (str(each.get("tool", "")), str(each.get("target", "")))
                for each in event.data.get("granted", ())
                if isinstance(each, dict)
            ]
        if event.code == "budget_spent":
            self.budget = event.message.removeprefix("budget: ")
        if event.level != "info" or event.code in _SHOWN:
            self._display.remark(event.level, one_line(event.message, 1000))


def shown_text(block: Block) -> str:
    """Return the text of a block; a link with its name, and a file with its text."""
    match block:
        case ResourceLink(uri=uri, name=str(name)) if name and name not in uri:
            return f"{name}: {uri}"
        case ResourceLink(uri=uri):
            return uri
        case Resource(resource={"text": str(text), **about}):
            return f"[{about.get('uri', 'resource')}]\n{text}"
        case _:
            return plain_text([block])


def task_text(task: Task, *, title_chars: int = 256) -> str:
    """Return background work as one line: its title, its progress or report, and its usage."""
    facts = [task.detail and one_line(task.detail, TASK_CHARS)]
    if task.usage is not None and task.usage.total_tokens is not None:
        facts.append(f"{task.usage.total_tokens:,} tokens")
    return " · ".join([one_line(task.title or task.id, title_chars), *filter(None, facts)])


_SANDBOX: Final = ("sandboxed", "sandbox_widened", "sandbox_narrowed")
"""The notices that show the whole sandbox."""


def tool_title(item: Item) -> str:
    """Return a one-line title of a tool call."""
    tool = item.tool or ToolCall()
    return one_line(tool.title or tool.name or tool.kind)


def how_it_failed(item: Item) -> str:
    """Return an unexpected end of a tool call in the history; empty if it ended normally."""
    status = item.status
    return "" if status is None or status not in TERMINAL else ENDS.get(status, status)


_CANCELLED: Final = {
    None: "cancelled",
    "user": "cancelled",
    "caller": "cancelled",
    "agent": "cancelled by the agent",
}
"""The text for a cancelled turn, by the party that cancelled it; for others, the error has it."""


def _reason(error: ErrorInfo | None) -> str | None:
    """Return the message of an error, and the time at which its limit ends."""
    if error is None or error.retry_at is None:
        return error.message if error is not None else None
    return f"{error.message} (possible again {as_date(error.retry_at)})"


def how_it_ended(end: TurnEnded | TurnRecord | TurnResult) -> str | None:
    """Return the end of a turn as text; None if it ended normally."""
    why = _reason(end.error)
    reason = end.stop_reason
    match end.outcome:
        case "completed":
            return None
        case "cancelled":
            return _CANCELLED.get(end.by, why) or "cancelled"
        case "refused":
            return f"the agent refused: {why}" if why else "the agent refused"
        case "limit":
            return f"the agent stopped at a limit ({reason})" if reason else "stopped at a limit"
        case "failed":
            return f"the turn failed: {why or reason or 'the agent gave no reason'}"
        case "timed_out" | "agent_died":
            return why or end.outcome
        case None:
            return None


def _end_of(text: str) -> tuple[int, str]:
    """Return the number of lines to leave out of a long text, and the rest, with its fence."""
    start, *last = text.rsplit("\n", 2 * KEPT_LINES)
    if not last or "\n" not in start:
        return 0, text
    fence = [start.partition("\n")[0]] * start.startswith("```")
    return start.count("\n") + 1 - len(fence), "\n".join([*fence, *last])


def text_of_line(line: list[Run]) -> str:
    """Return a line of output without its looks."""
    return "".join(text for _, text in line)


def _unfenced(lines: list[list[Run]]) -> list[list[Run]]:
    """Return the lines of some output, without the fence that some agents put around it."""
    if lines and not lines[-1]:
        lines = lines[:-1]  # after the last newline
    if len(lines) > 1 and text_of_line(lines[0]).startswith("```"):
        if text_of_line(lines[-1]) == "```":
            return lines[1:-1]
    return lines
