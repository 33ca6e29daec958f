"""Tool calls as cards: one line for the call and its state, and a few lines of its output;
and the agent's questions above the prompt, with a separate line for the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...events import ItemStatus
from ..console import laid_out
from ..repl.asking import BAR
from ..repl.view import ENDS, CallView
from ..text import one_line, plain, wrapped
from .interface import Interface
from .style import Fragments, Painter, ScrollingText
from .terminal import Screen

CARD_LINES: Final = 5
"""Lines of output that a card shows."""
CARD_DIFF_LINES: Final = 16
"""Lines of a change that a card shows."""
LAST_LINE_CHARS: Final = 4096
"""Characters of a running command's output that are searched for its last line."""
SLOW_CALL_S: Final = 1.0
"""Seconds after which the duration of a call is shown."""

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_MARKS: Final[dict[ItemStatus, tuple[str, str]]] = {
    "completed": ("good", "✓"),
    "failed": ("bad", "✗"),
    "denied": ("warn", "⊘"),
    "cancelled": ("warn", "⊘"),
    "orphaned": ("bad", "?"),
}


def drawn(call: CallView, now: float, width: int) -> Fragments:
    """Return a running call: a line, and the last line of its output."""
    took = f" {now - call.since:.0f} s" if now - call.since >= 1 else ""
    inside = f" · {call.steps} steps" if call.steps else ""
    waits = " · needs your answer" if call.item.status == "waiting" else ""
    mark = SPINNER[int(now * 8) % len(SPINNER)]
    room = max(10, width - 6 - len(took) - len(inside) - len(waits))
    shown: Fragments = [
        ("busy", f"{mark} "),
        ("", one_line(_title(call), room)),
        ("dim", f"{inside}{took}{waits}\n"),
    ]
    lines = plain(laid_out(call.latest[-LAST_LINE_CHARS:])).splitlines()
    last = next((x for x in reversed(lines) if x.strip() and not x.startswith("```")), "")
    if last:
        shown.append(("dim", f"  │ {last[: max(10, width - 5)]}\n"))
    return shown


def printed(call: CallView, paint: Painter, width: int, *, indent: str = "") -> str:
    """Return a finished call as complete lines."""
    status, took = call.item.status, call.took
    look, mark = _MARKS.get(status, ("dim", "·"))
    notes = [ENDS.get(status, status), call.changed()]
    if call.steps:
        notes.append(f"{call.steps} steps")
    if took >= SLOW_CALL_S:
        notes.append(f"{took:.0f} s" if took >= 10 else f"{took:.1f} s")
    note = " · ".join(filter(None, notes))
    tail = f"  {note}" if note else ""
    text = indent + paint((look, f"{mark} "), ("", _title(call)), ("dim", tail)) + "\n"
    return text + "".join(f"{indent}{line}\n" for line in _body(call, paint, width))


def full(call: CallView, paint: Painter) -> str:
    """Return the complete output of a call, as far as it is kept."""
    left_out, output = call.output()
    lines = [_bar(line, paint) for line in output]
    if left_out:
        more = f"… {left_out:,} lines before these; /export FILE writes them all"
        lines.insert(0, _bar(more, paint))
    lines += [_coloured(line, paint) for line in call.changes()]
    head = paint(("bold", _title(call)))
    return "\n".join([head, *(lines or [paint(("dim", "  no output"))])]) + "\n"


def has_more(call: CallView) -> bool:
    """Return True if there is more than the card shows."""
    return len(call.output()[1]) > CARD_LINES or len(call.changes()) > CARD_DIFF_LINES


def _title(call: CallView) -> str:
    """Return a one-line title, starting with the kind of the call."""
    title, kind = call.title, one_line(call.tool.kind)
    if kind in ("", "other") or title.casefold().startswith(kind.casefold()):
        return title
    return f"{kind} · {title}"


def _body(call: CallView, paint: Painter, width: int) -> list[str]:
    if not call.changes_seen and call.item.status == "completed":
        shown = [_coloured(line, paint) for line in call.changes()]
        if shown:
            return _cut(shown, CARD_DIFF_LINES, paint, width, end=False)
    if call.item.status == "failed" or call.tool.kind == "execute":
        left_out, lines = call.output()
        shown = [_bar(line, paint) for line in lines]
        return _cut(shown, CARD_LINES, paint, width, end=True, before=left_out)
    return []


def _cut(
    lines: list[str], most: int, paint: Painter, width: int, *, end: bool, before: int = 0
) -> list[str]:
    """Return at most `most` lines. `before`: the number of lines before the first one."""
    left = len(lines) - most
    if left <= 0:
        return lines
    what = "1 more line" if left + before == 1 else f"{left + before:,} more lines"
    if before:
        what += f", ctrl-o shows the last {len(lines):,}, /export FILE writes them all"
    else:
        what += ", ctrl-o shows it" if left == 1 else ", ctrl-o shows them"
    more = paint(("dim", wrapped(f"  │ … {what}", width)))
    if end:
        return [more, *lines[-most:]]
    return [*lines[:most], more]


def look_of(line: str) -> str:
    """Return the look of a line of a change."""
    if line.startswith("@@"):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "dim")


def _coloured(line: str, paint: Painter) -> str:
    return paint(("dim", "  │ "), (look_of(line), line))


def _bar(line: str, paint: Painter) -> str:
    return paint(("dim", f"  │ {line}"))


class OnScreen:
    """The place where an `Asker` shows its questions."""

    def __init__(self, screen: Screen, interface: Interface, page: ScrollingText) -> None:
        self._screen = screen
        self._interface = interface
        self._page = page

    @property
    def size(self) -> tuple[int, int]:
        size = self._screen.size
        return size.columns, size.lines

    def line(self, text: str) -> None:
        page = self._page
        if text.startswith(BAR):
            look = look_of(text.removeprefix(BAR))
            bar = ("dim", BAR), ("" if look == "dim" else look, text.removeprefix(BAR))
            page.line(*bar, kind="ask")
        else:
            page.line(("ask", text), kind="ask")

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        rows: Fragments = []
        for line in offered:
            rows += [("bold", line[:4]), ("", line[4:] + "\n")]
        self._screen.do(partial(self._interface.ask, prompt, rows, again=again))

    def entered(self) -> None:
        pass  # the prompt is drawn by this program

    def over(self) -> None:
        self._screen.do(self._interface.stop_asking)


def kept_answer(text: str) -> str:
    """Return the text to show when some input was not an answer."""
    return f"“{one_line(text, 60)}” is not an answer; it was added to your draft."
