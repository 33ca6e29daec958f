"""Tool calls as cards: one line for what it is and how it goes, a few more of what came out."""

from __future__ import annotations

from typing import Final

import trio
from msgspec import structs

from ..._model.content import Diff, JsonObject, ToolText, plain_text
from ..._model.events import TERMINAL, Item, ItemStatus, Tool
from ..diffs import changes
from ..text import one_line, plain
from .style import Fragments, Painter

LINES: Final = 5
"""Lines of output that a card shows."""
CHANGED: Final = 16
"""Lines of a change that a card shows."""
KEPT: Final = 2000
"""Lines of output that are kept to be shown in full."""
PIECES: Final = 20_000
"""Pieces of output that are kept at least."""
RECENT: Final = 20
"""Pieces of output in which its last line is looked for while it runs."""
SLOW: Final = 1.0
"""Seconds from which on it is said how long a call took."""

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_MARKS: Final[dict[ItemStatus, tuple[str, str, str]]] = {
    "completed": ("good", "✓", ""),
    "failed": ("bad", "✗", "failed"),
    "denied": ("warn", "⊘", "denied"),
    "cancelled": ("warn", "⊘", "cancelled"),
    "orphaned": ("bad", "?", "unknown, the agent's process has ended"),
}


class Card:
    """One tool call."""

    def __init__(self, item: Item, since: float) -> None:
        self.item = structs.replace(item)
        self.since = since
        self.inside = 0
        """Calls of a sub-agent that it has begun."""
        self.diffs_seen = False
        """The change was shown in a question."""
        self._streamed: list[str] = []

    @property
    def open(self) -> bool:
        return self.item.status not in TERMINAL

    @property
    def tool(self) -> Tool:
        return self.item.tool or Tool()

    @property
    def title(self) -> str:
        """What it is, in one line, with its kind in front."""
        tool = self.tool
        title = one_line(tool.title or tool.name or tool.kind)
        kind = one_line(tool.kind)
        if kind in ("", "other") or title.casefold().startswith(kind.casefold()):
            return title
        return f"{kind} · {title}"

    def add(self, text: str) -> None:
        """It has written something."""
        self._streamed.append(text)
        if len(self._streamed) > 2 * PIECES:
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
        if before == "pending" and self.item.status != before:
            self.since = trio.current_time()

    # --- as it is drawn while it runs

    def live(self, now: float, width: int) -> Fragments:
        """A line, and the last one of its output."""
        took = f" {now - self.since:.0f} s" if now - self.since >= 1 else ""
        inside = f" · {self.inside} steps" if self.inside else ""
        waits = " · waits for you" if self.item.status == "waiting" else ""
        mark = SPINNER[int(now * 8) % len(SPINNER)]
        room = max(10, width - 6 - len(took) - len(inside) - len(waits))
        shown: Fragments = [
            ("busy", f"{mark} "),
            ("", one_line(self.title, room)),
            ("dim", f"{inside}{took}{waits}\n"),
        ]
        if last := self._last_line(width):
            shown.append(("dim", f"  │ {last[: max(10, width - 5)]}\n"))
        return shown

    def _last_line(self, width: int) -> str:
        """The last line of its output, as far as it is known."""
        recent = "".join(self._streamed[-RECENT:])
        if not recent:
            texts = [part for part in self.tool.content if isinstance(part, ToolText)]
            recent = plain_text([texts[-1].content]) if texts else ""
        lines = plain(recent[-2 * width :]).splitlines()
        return next((x for x in reversed(lines) if x.strip() and not x.startswith("```")), "")

    # --- as it is printed when it is over

    def printed(self, paint: Painter, now: float, *, indent: str = "") -> str:
        """What remains of it: whole lines."""
        look, mark, ended = _MARKS.get(self.item.status, ("dim", "·", self.item.status))
        took = now - self.since
        notes = [ended] if ended else []
        changed = self._changed()
        if changed:
            notes.append(changed)
        if self.inside:
            notes.append(f"{self.inside} steps")
        if took >= SLOW:
            notes.append(f"{took:.0f} s" if took >= 10 else f"{took:.1f} s")
        tail = f"  {' · '.join(notes)}" if notes else ""
        text = indent + paint((look, f"{mark} "), ("", self.title), ("dim", tail)) + "\n"
        return text + "".join(f"{indent}{line}\n" for line in self._body(paint))

    def _body(self, paint: Painter) -> list[str]:
        if not self.diffs_seen and self.item.status == "completed":
            shown = [line for diff in self._diffs() for line in changes(diff)]
            if shown:
                return _cut([_coloured(line, paint) for line in shown], CHANGED, paint, end=False)
        if self.item.status == "failed" or self.tool.kind == "execute":
            return _cut([_bar(line, paint) for line in self.output_lines()], LINES, paint, end=True)
        return []

    def full(self, paint: Painter) -> str:
        """All of it."""
        lines = [_bar(line, paint) for line in self.output_lines()]
        for diff in self._diffs():
            lines += [_coloured(line, paint) for line in changes(diff)]
        head = paint(("bold", self.title))
        return "\n".join([head, *(lines or [paint(("dim", "  no output"))])]) + "\n"

    @property
    def has_more(self) -> bool:
        """Whether there is more than its card shows."""
        return len(self.output_lines()) > LINES or any(
            len(changes(diff)) > CHANGED for diff in self._diffs()
        )

    def output_lines(self) -> list[str]:
        """What came out, safe to be shown."""
        parts = [plain_text([p.content]) for p in self.tool.content if isinstance(p, ToolText)]
        text = "\n".join(parts) or "".join(self._streamed)
        lines = plain(text).splitlines()[-KEPT:]
        return [line.rstrip() for line in lines if not line.startswith("```")]

    def _diffs(self) -> list[Diff]:
        return [part for part in self.tool.content if isinstance(part, Diff)]

    def _changed(self) -> str:
        lines = [line for diff in self._diffs() for line in changes(diff)]
        added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
        return f"+{added} −{removed}" if lines else ""


def _cut(lines: list[str], most: int, paint: Painter, *, end: bool) -> list[str]:
    """At most so many of the lines."""
    left = len(lines) - most
    if left <= 0:
        return lines
    what = "1 more line, ctrl-o shows it" if left == 1 else f"{left} more lines, ctrl-o shows them"
    more = paint(("dim", f"  │ … {what}"))
    if end:
        return [more, *lines[-most:]]
    return [*lines[:most], more]


def look_of(line: str) -> str:
    """How a line of a change looks."""
    if line.startswith("@@"):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "dim")


def _coloured(line: str, paint: Painter) -> str:
    return paint(("dim", "  │ "), (look_of(line), plain(line)))


def _bar(line: str, paint: Painter) -> str:
    return paint(("dim", f"  │ {line}"))
