"""What happens in a session, told line by line: for a person who watches, without a screen.

Nothing that was written is ever changed again, so it reads the same in a terminal, in a file and
to a screen reader. The answer streams; a tool call gets a line when it runs, and another one if
there is something to say about its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio
from msgspec import structs

from .._model.content import Diff, ToolText, plain_text
from .._model.events import (
    TERMINAL,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    PlanChanged,
    PlanEntry,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    Tool,
    TurnEnded,
    TurnStarted,
)
from .._model.result import TurnResult
from .diffs import changes
from .output import Output
from .text import one_line, plain

LONG: Final = 2.0
"""Seconds from which on the end of a tool call gets a line of its own."""
TAIL: Final = 5
"""Lines of a tool's output that are shown."""
THOUGHT: Final = 160
"""Characters of a thought that are shown."""


class _Shown:
    """An open item, as far as it was told."""

    __slots__ = ("item", "output", "since", "told")

    def __init__(self, item: Item, since: float) -> None:
        self.item = item
        self.since = since
        self.told = False
        self.output: list[str] = []


class Transcript:
    """Writes the events it is given to an `Output`.

    `answer`: the answer's text, too (elsewhere it goes somewhere of its own). `progress`: also what
    is of no use to someone who only reads errors.
    """

    def __init__(self, out: Output, *, answer: bool = True, progress: bool = True) -> None:
        self.out = out
        self._answer = answer
        self._progress = progress
        self._open: dict[str, _Shown] = {}
        self._tasks: dict[str, str] = {}
        self._mode: str | None = None
        self._plan = ""
        self._text: str | None = None  # the item of the answer that was written last
        self._tail = ""  # its last characters
        self._blank = True
        self._take: dict[type, Callable[..., None]] = {
            ItemOpened: self._opened,
            TextDelta: self._delta,
            ThoughtDelta: self._delta,
            ItemDelta: self._delta,
            ItemUpdated: self._updated,
            ItemClosed: self._closed,
            TurnStarted: self._started,
            PlanChanged: lambda event: self._planned(event.plan),
            TaskChanged: lambda event: self._task(event.task),
            ModesChanged: lambda event: self._modes(event.modes),
            Notice: self._notice,
        }

    def take(self, event: Event) -> None:
        """Tell one event."""
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def item(self, id: str | None) -> Item | None:
        """An open item, as it is now."""
        shown = self._open.get(id) if id is not None else None
        return shown.item if shown is not None else None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        return self.out.size

    def line(self, text: str) -> None:
        """A line that is no part of the answer."""
        if self._text is not None:
            self._text = None
            self._gap()
        self.out.line(text)
        self._blank = False

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """Something to be answered in the same line; `again`: the answers that there are have been
        shown."""
        if not again:
            for line in offered:
                self.line(line)
        if self._text is not None:
            self._text = None
            self._gap()
        if not self.out.at_line_start:
            self.out.write("\n")
        self.out.write(self.out.bold(prompt))
        self._blank = False

    def entered(self) -> None:
        """The terminal has echoed an Enter."""
        self.out.at_line_start = True

    def over(self) -> None:
        """What was asked has been answered."""

    def _gap(self) -> None:
        """An empty line, unless there is one."""
        if not self.out.at_line_start:
            self.out.write("\n")
        if not self._blank:
            self.out.write("\n")
            self._blank = True

    def _hint(self, text: str) -> None:
        if self._progress:
            self.line(self.out.dim(text))

    # --- items

    def _opened(self, event: ItemOpened) -> None:
        item = event.item
        if item.replay or item.type == "user":
            return
        shown = _Shown(structs.replace(item), trio.current_time())
        if item.status not in TERMINAL:
            self._open[item.id] = shown
        if item.type == "text":
            self._speak(item, plain_text(item.content))
        elif item.type == "tool":
            self._tool_moved(shown)

    def _delta(self, event: ItemDelta) -> None:
        shown = self._open.get(event.item)
        if shown is None:
            return
        if shown.item.type == "text":
            self._speak(shown.item, event.text)
        elif shown.item.type != "thought" or sum(map(len, shown.output)) < 2 * THOUGHT:
            shown.output.append(event.text)

    def _speak(self, item: Item, text: str) -> None:
        """A piece of the answer; what sub-agents say among themselves is none."""
        if text and item.parent is None and self._answer:
            if self._text != item.id:
                self._gap()
                self._text = item.id
                self._tail = ""
            self.out.say(text)
            self._tail = (self._tail + text)[-2:]
            self._blank = self._tail == "\n\n"

    def _updated(self, event: ItemUpdated) -> None:
        shown = self._open.get(event.item)
        if shown is None:
            return
        item = shown.item
        patch = dict(event.patch)
        tool = patch.pop("tool", None)
        for name, value in patch.items():
            setattr(item, name, value)
        if tool is not None:
            item.tool = structs.replace(item.tool or Tool(), **tool)
        if item.type == "tool":
            self._tool_moved(shown)

    def _closed(self, event: ItemClosed) -> None:
        shown = self._open.pop(event.item, None)
        if shown is None:
            return
        shown.item.status = event.status
        if shown.item.type == "tool":
            self._tool_closed(shown)
        elif shown.item.type == "thought" and shown.item.parent is None:
            self._hint(f"· {one_line(''.join(shown.output), THOUGHT)}")

    # --- tool calls

    def _tool_moved(self, shown: _Shown) -> None:
        """A line as soon as it runs, or somebody is asked about it: its title is known by then."""
        if not shown.told and shown.item.status in ("running", "waiting"):
            shown.told = True
            shown.since = trio.current_time()
            self._hint(f"{_indent(shown.item)}→ {tool_title(shown.item)}")

    def _tool_closed(self, shown: _Shown) -> None:
        item = shown.item
        indent, title, changed = _indent(item), tool_title(item), _changed(item)
        took = trio.current_time() - shown.since
        if item.status != "completed":
            self._hint(f"{indent}✗ {title}: {_ENDS.get(item.status, item.status)}")
        elif not shown.told:
            self._hint(f"{indent}→ {title}" + (f" ({changed})" if changed else ""))
        elif took >= LONG or changed:
            notes = [changed] * bool(changed) + [f"{took:.0f} s"] * (took >= LONG)
            self._hint(f"{indent}✓ {title} ({', '.join(notes)})")
        kind = item.tool.kind if item.tool is not None else ""
        if item.status == "failed" or (kind == "execute" and item.status == "completed"):
            output = _output(item) or "".join(shown.output)
            for line in output.splitlines()[-TAIL:]:
                self._hint(f"{indent}  │ {one_line(line)}")

    # --- the rest

    def _started(self, event: TurnStarted) -> None:
        if event.origin == "agent":
            self._hint("· the agent goes on by itself")

    def _planned(self, plan: list[PlanEntry]) -> None:
        done = sum(entry.status == "completed" for entry in plan)
        now = next((entry for entry in plan if entry.status == "in_progress"), None)
        if plan and (now is not None or done == len(plan)):
            said = one_line(now.content) if now is not None else "done"
            line = f"plan {done}/{len(plan)}: {said}"
            if line != self._plan:
                self._plan = line
                self._hint(line)

    def _task(self, task: Task) -> None:
        if self._tasks.get(task.id) != task.status:
            self._tasks[task.id] = task.status
            self._hint(f"background: {one_line(task.title or task.id)}: {plain(task.status)}")

    def _modes(self, modes: Modes) -> None:
        if modes.mode is not None:
            if self._mode not in (None, modes.mode):
                self._hint(f"mode: {one_line(modes.mode)}")
            self._mode = modes.mode

    def _notice(self, event: Notice) -> None:
        if event.level != "info":
            self.line(f"{event.level}: {one_line(event.message, 1000)}")
        elif event.code == "agent_restarted":
            self._hint(one_line(event.message))


_ENDS: Final = {"orphaned": "unknown, the agent's process has ended"}


def _indent(item: Item) -> str:
    return "  " if item.parent is not None else ""


def tool_title(item: Item) -> str:
    """What a tool call is, in one line."""
    tool = item.tool or Tool()
    return one_line(tool.title or tool.name or tool.kind)


def _changed(item: Item) -> str:
    """How many lines a tool call has added and removed."""
    content = item.tool.content if item.tool is not None else []
    lines = [line for part in content if isinstance(part, Diff) for line in changes(part)]
    added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
    return f"+{added} −{removed}" if lines else ""


def _output(item: Item) -> str:
    """The text of a tool call's result."""
    content = item.tool.content if item.tool is not None else []
    text = "\n".join(plain_text([part.content]) for part in content if isinstance(part, ToolText))
    return "\n".join(line for line in text.splitlines() if not line.startswith("```"))


def how_it_ended(end: TurnEnded | TurnResult) -> str | None:
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
