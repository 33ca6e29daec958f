"""A view on a screen: finished items are printed once, ongoing ones are drawn with each frame.

Blocks of the answer, a thought as one line and a tool call as a card are printed. The unfinished
block, calls with a spinner and the plan are drawn. The first lines of an opened
session show its agent, directory and history.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ..._version import __version__
from ...events import Image, Item, PlanEntry, Task, TurnEnded, TurnRecord, TurnStarted, plain_text
from ..console import quoted
from ..repl.conversation import SHOWN_ITEMS
from ..repl.view import (
    SUB_AGENT_CHARS,
    THOUGHT_CHARS,
    CallView,
    View,
    how_it_ended,
    how_it_failed,
    task_text,
    tool_title,
)
from ..session_view import SessionView
from ..setup import Setup
from ..text import folded, one_line, plain, safe
from .cards import SPINNER, drawn, full, has_more, printed
from .markdown import Blocks, Renderer
from .pictures import PictureProtocol, picture
from .status import last_lines
from .style import Fragments, Painter, ScrollingText, rendered

PICTURE_ROWS: Final = 16
"""Rows of the terminal that an image takes at most."""
UNFOLDABLE: Final = 50
"""Shortened texts that can be shown in full."""
UNFOLDED_CHARS: Final = 100_000
"""Characters of a thought that can be shown."""
UNFINISHED_LINES: Final = 8
"""Lines of the unfinished block that are drawn."""
DRAWN_CALLS: Final = 6
"""Running calls that are drawn."""
PLAN_ENTRIES: Final = 8
"""Entries of the plan that are drawn."""

_PLAN: Final = {"completed": ("good", "✓"), "in_progress": ("busy", "▸")}


class Drawing:
    """A `Display` that writes to a page."""

    def __init__(self, page: ScrollingText, pictures: PictureProtocol | None = None) -> None:
        """`pictures`: the protocol for images of the terminal."""
        self.page = page
        self._pictures: PictureProtocol | None = pictures
        self.shortened: deque[Callable[[], str]] = deque(maxlen=UNFOLDABLE)
        """The texts that were shortened, newest last; each call returns the complete text."""
        self._inside: CallView | None = None
        """The sub-agent whose steps are being printed."""
        self._render = Renderer(colour=page.paint.colour)
        self._texts: dict[str, Blocks] = {}

    # --- drawn text

    def live(self, view: View, now: float, rows: int) -> Fragments:
        """Return the ongoing work, for a terminal of `rows` rows.

        The unfinished block takes at most a third of them: content for which a window that became
        smaller has no room stays in the scrollback.
        """
        width, shown = self.page.width(), Fragments()
        for blocks in self._texts.values():
            # Use the renderer of finished blocks, so that nothing moves when the block is printed.
            if tail := blocks.unfinished(2 * UNFINISHED_LINES, UNFINISHED_LINES * width):
                shown += last_lines(rendered(self._render(tail, width)), UNFINISHED_LINES, width)
        shown = last_lines(shown, rows // 3, width)
        for since, parts in view.thoughts.values():
            words = one_line("".join(parts[-200:])[-400:], 10_000)[-max(10, width - 24) :]
            mark = SPINNER[int(now * 8) % len(SPINNER)]
            shown += [("busy", f"{mark} "), ("dim", f"thinking {now - since:.0f} s  ")]
            shown += [("italic", f"{words}\n")]
        running = [call for call in view.calls.values() if call.item.parent is None]
        for call in running[-DRAWN_CALLS:]:
            shown += drawn(call, now, self.page.paint, width)
            for step in [each for each in view.calls.values() if each.parent is call][-1:]:
                shown.append(("dim", f"  ▸ {one_line(step.title, max(10, width - 5))}\n"))
        if len(running) > DRAWN_CALLS:
            shown.append(("dim", f"  … {len(running) - DRAWN_CALLS} more\n"))
        if any(entry.status != "completed" for entry in view.plan):
            shown += _plan_lines(view.plan, width)
        for task in view.tasks.values():
            text = one_line(task_text(task), max(10, width - 20))
            shown += [("busy", "⚙ "), ("dim", f"in the background: {text}\n")]
        return shown

    # --- printed text

    def prompt(self, text: str) -> None:
        """Print a prompt, shortened if it is long."""
        text = safe(text).rstrip("\n")
        brief = folded(text, "ctrl-o shows all of it")
        if brief != text:
            self.shortened.append(lambda: text + "\n")
        first, *more = brief.split("\n")
        lines = [f"❯ {first}", *(f"  {line}" for line in more)]
        self.page.write(self.page.paint(("you", "\n".join(lines))) + "\n", "you", apart=True)

    def answer(self, text: str) -> None:
        """Print a complete answer."""
        blocks = Blocks()
        self._print(blocks.feed(text))
        self._print(blocks.end())

    def _print(self, blocks: list[tuple[str, bool]]) -> None:
        """Print finished blocks of an answer, each rendered at the present width."""
        width = self.page.width()
        for block, apart in blocks:
            if text := self._render(block, width):  # the end of a folded part is not drawn
                self.page.write(text, "text", apart=apart)

    # --- display of a view

    def prompted(self, event: TurnStarted, text: str) -> None:
        self.prompt(text)

    def answer_text(self, item: str, text: str) -> None:
        """Print the blocks that this piece finishes; the unfinished one is drawn by `live`."""
        self._print(self._texts.setdefault(item, Blocks()).feed(text))

    def answer_complete(self, item: str) -> None:
        """Print the remaining blocks of an item."""
        if (blocks := self._texts.pop(item, None)) is not None:
            self._print(blocks.end())

    def thought(self, text: str, seconds: float) -> None:
        """Print a thought as one line, and keep its text for Ctrl-O."""
        took = f" for {seconds:.0f} s" if seconds >= 1 else ""
        brief, whole = one_line(text, THOUGHT_CHARS), plain(text[:UNFOLDED_CHARS]).strip()
        self.page.line(("dim", f"✻ thought{took}: "), ("italic", brief), kind="card")
        if brief != whole:
            self.shortened.append(lambda: self.page.paint(("italic", whole)) + "\n")

    def image(self, image: Image) -> None:
        """Print the size of an image, and the image itself in a terminal that can show it."""
        kilobytes = len(image.data) * 3 // 4096
        label = f"[image: {one_line(image.mime_type, 40)}, {kilobytes:,} kB]"
        self.page.line(("dim", f"  {label}"), kind="card")
        if self._pictures is not None:
            columns = max(10, self.page.width() - 4)
            if shown := picture(image, self._pictures, columns, PICTURE_ROWS):
                self.page.write(shown, "card")

    def call_began(self, call: CallView) -> None:
        pass  # running calls are drawn

    def call_ended(self, call: CallView) -> None:
        """Print a call as a card, indented below its sub-agent, and keep the full one for
        Ctrl-O.
        """
        width = self.page.width()
        indent = self._enter(call.parent)
        self.page.write(printed(call, self.page.paint, width, indent=indent), "card")
        if has_more(call, width):
            self.shortened.append(lambda: full(call, self.page.paint))

    def _enter(self, sub_agent: CallView | None) -> str:
        """Name the sub-agent whose steps follow, unless the last ones were its own.

        Returns the indentation of the steps.
        """
        if sub_agent is None:
            self._inside = None
            return ""
        if sub_agent is not self._inside:
            self._inside = sub_agent
            indent = "  " * sub_agent.depth
            self.page.line(("dim", f"{indent}▸ "), ("", sub_agent.title), kind="card")
        return "  " * (sub_agent.depth + 1)

    def planned(self, plan: list[PlanEntry]) -> None:
        """Print a plan once it is done; until then it is drawn by `live`."""
        if plan and all(entry.status == "completed" for entry in plan):
            text = self.page.paint(("good", "✓ "), ("", f"plan {len(plan)}/{len(plan)} done"))
            self.page.write(text + "\n", "card")

    def sub_agent_message(self, text: str, call: CallView | None) -> None:
        indent = self._enter(call) or "  "
        self.page.line(("dim", f"{indent}{one_line(text, SUB_AGENT_CHARS)}"), kind="card")

    def task_changed(self, task: Task, *, over: bool) -> None:
        """Print the end of background work, with its report; its beginning is not printed."""
        if over:
            text = f"⚙ in the background: {plain(task.status)}: {task_text(task)}"
            self.page.line(("dim", text), kind="card")

    def remark(self, level: str, text: str) -> None:
        if level == "info":
            self.page.line(("dim", text))
        else:
            look = "bad" if level == "error" else "warn"
            self.page.line((look, f"{level}: "), ("", text))

    def answered(self, kind: str, origin: str) -> None:
        """Print an answer, with the user and the client if it was not given here."""
        look = "good" if kind.startswith("allow") else "warn"
        by = ("dim", f" ({one_line(origin)})" if origin else "")
        self.page.line(("dim", "  → "), (look, kind.replace("_", " ")), by, kind="ask")

    def ended(self, event: TurnEnded | TurnRecord, words: str, stderr: str) -> None:
        """Print an unexpected end of a turn, with the agent's standard error."""
        look = "warn" if event.outcome == "cancelled" else "bad"
        self.page.line((look, f"— {words}"), kind="end")
        for line in quoted(stderr):
            self.page.line(("dim", line), kind="end")


def _plan_lines(plan: list[PlanEntry], width: int) -> Fragments:
    """Return the rows of a plan, of a long one those around the first entry that is not done."""
    done = sum(entry.status == "completed" for entry in plan)
    first = max(0, min(done - 1, len(plan) - PLAN_ENTRIES))
    shown: Fragments = [("bold", f"plan {done}/{len(plan)}\n")]
    for entry in plan[first : first + PLAN_ENTRIES]:
        look, mark = _PLAN.get(entry.status, ("dim", "·"))
        words = "" if entry.status == "in_progress" else "dim"
        shown += [(look, f"  {mark} "), (words, f"{one_line(entry.content, width - 6)}\n")]
    return shown


def greet(
    drawing: Drawing,
    session: SessionView,
    setup: Setup,
    earlier: list[Item | TurnRecord],
    width: int,
) -> None:
    """Show the greeting; `earlier` is the history."""
    page, agent = drawing.page, session.agent
    name = f"{one_line(agent.name)} {one_line(agent.version or '')}".strip()
    folder = one_line(_short(setup.cwd), max(20, width - len(name) - 24))
    page.line(
        ("bold", f"agentrt {__version__}"),
        ("dim", " · "),
        ("you", name),
        ("dim", f" · {folder}"),
        kind="head",
    )
    keys = "/help · Ctrl-C stop · Ctrl-D quit · @ files · ! shell"
    page.line(("dim", keys), kind="head")
    if setup.note:
        page.line(("warn", setup.note), kind="head")
    _show_history(drawing, earlier)


def _short(folder: str) -> str:
    """Return a folder with `~` for the home directory."""
    path, home = os.path.abspath(folder), os.path.expanduser("~")
    if path == home or path.startswith(home + "/"):
        return "~" + path[len(home) :]
    return path


def _show_history(drawing: Drawing, earlier: list[Item | TurnRecord]) -> None:
    """Show the end of a resumed conversation."""
    if len(earlier) > SHOWN_ITEMS:
        drawing.page.line(("dim", f"… {len(earlier) - SHOWN_ITEMS} more before this"), kind="head")
    for each in earlier[-SHOWN_ITEMS:]:
        if isinstance(each, TurnRecord):
            drawing.ended(each, one_line(how_it_ended(each) or "", 1000), "")
        elif each.type == "user":
            drawing.prompt(plain_text(each.content))
        elif each.type == "tool":
            failed = how_it_failed(each)
            mark = ("bad", "✗ ") if failed else ("good", "✓ ")
            title = tool_title(each)
            drawing.page.line(mark, ("dim", f"{title}: {failed}" if failed else title), kind="card")
        elif each.type == "text":
            drawing.answer(each.text or plain_text(each.content))


def unfolded(items: Iterable[Item], paint: Painter, width: int) -> str:
    """Return a conversation in full: thoughts, and the input and output of calls."""
    page = ScrollingText(paint, lambda: width)
    drawing = Drawing(page)
    calls: dict[str, CallView] = {}
    for item in items:
        text = item.text or plain_text(item.content)
        if item.type == "user":
            page.write(paint(("you", f"❯ {safe(text)}")) + "\n", "you", apart=True)
        elif item.type == "thought":
            page.write(paint(("italic", f"✻ {plain(text).strip()}")) + "\n", "thought", apart=True)
        elif item.type == "tool":
            call = calls[item.id] = CallView(item, 0.0, calls.get(item.parent or ""))
            call.add(item.text)
            indent = "  " * call.depth
            lines = full(call, paint).splitlines()
            page.write("".join(f"{indent}{line}\n" for line in lines), "card", apart=True)
        elif item.type == "text":
            drawing.answer(text)
    return page.take()
