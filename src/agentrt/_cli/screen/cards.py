"""Tool calls as cards: one line for the call and its state, and a few lines of its output;
and the agent's questions above the prompt, with a separate line for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from ...events import ItemStatus
from ..command_output import Run
from ..repl.asking import BAR
from ..repl.changes import look_of, worded
from ..repl.view import ENDS, CallView
from ..text import as_json, one_line, plain, wrapped
from .interface import Interface
from .style import Fragments, Painter, ScrollingText, rendered, rows_of
from .terminal import Screen

CARD_ROWS: Final = 5
"""Rows of output that a card shows."""
CARD_DIFF_ROWS: Final = 16
"""Rows of a change that a card shows."""
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


def drawn(call: CallView, now: float, paint: Painter, width: int) -> Fragments:
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
    if line := call.last_line:
        row = rows_of([(look or "dim", text) for look, text in line], max(10, width - 5))[0]
        shown += rendered(paint(("dim", "  │ "), *row) + "\n")
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
    return text + "".join(f"{indent}{line}\n" for line in _body(call, paint, width - len(indent)))


def full(call: CallView, paint: Painter) -> str:
    """Return the complete output and changes of a call, as far as they are kept."""
    left_out, output = call.output()
    lines = [paint(("dim", "  │ "), *_dimmed(line)) for line in output]
    if left_out:
        more = f"  │ … {left_out:,} lines before these; /export FILE writes them all"
        lines.insert(0, paint(("dim", more)))
    lines += [paint(("dim", "  │ "), *line) for line in worded(call.changes())]
    if call.structured is not None:
        result = plain(as_json(call.structured)).split("\n")
        lines += [paint(("dim", line)) for line in ("  structured result:", *result)]
    if not lines:
        lines = [paint(("dim", "  no output"))]
    if call.tool.input is not None:
        given = plain(as_json(call.tool.input)).split("\n")
        lines[:0] = [paint(("dim", f"    {line}")) for line in given]
    head = paint(("bold", _title(call)))
    return "\n".join([head, *lines]) + "\n"


def has_more(call: CallView, width: int) -> bool:
    """Return True if there is more than the card shows."""
    rows, changed = _rows(call.output()[1], width), _rows(worded(call.changes()), width)
    more = len(rows) > CARD_ROWS or len(changed) > CARD_DIFF_ROWS
    return more or call.structured is not None


def _title(call: CallView) -> str:
    """Return a one-line title, starting with the kind of the call."""
    title, kind = call.title, one_line(call.tool.kind)
    if kind in ("", "other") or title.casefold().startswith(kind.casefold()):
        return title
    return f"{kind} · {title}"


def _body(call: CallView, paint: Painter, width: int) -> list[str]:
    """Return the lines below a call: its changes, the output of a command or an error, or its
    links.

    Changes that a question has already shown are not repeated.
    """
    if not call.changes_seen and call.item.status == "completed":
        rows = _rows(worded(call.changes()), width)
        if rows:
            return _cut(rows, CARD_DIFF_ROWS, paint, width, end=False)
    if call.item.status == "failed" or call.tool.kind in ("execute", "other"):
        left_out, lines = call.output()
        rows = _rows([_dimmed(line) for line in lines], width)
        return _cut(rows, CARD_ROWS, paint, width, end=True, before=left_out, lines=len(lines))
    links = _rows([[("dim", link)] for link in call.links()], width)
    return _cut(links, CARD_ROWS, paint, width, end=False)


def _rows(lines: Iterable[Fragments], width: int) -> list[Fragments]:
    """Break lines into the rows that they have next to a bar."""
    return [row for line in lines for row in rows_of(line, max(10, width - 5))]


def _dimmed(line: list[Run]) -> Fragments:
    """Return a line of output in dim text, except where the text has a look already."""
    return [(look or "dim", text) for look, text in line]


def _cut(
    rows: list[Fragments],
    most: int,
    paint: Painter,
    width: int,
    *,
    end: bool,
    before: int = 0,
    lines: int = 0,
) -> list[str]:
    """Return at most `most` rows.

    `before`: the number of lines before the first one, and `lines` that of all others.
    """
    left = len(rows) - most
    kept = rows if left <= 0 else rows[-most:] if end else rows[:most]
    shown = [paint(("dim", "  │ "), *row) for row in kept]
    if left <= 0:
        return shown
    what = "1 more line" if left + before == 1 else f"{left + before:,} more lines"
    if before:
        what += f", ctrl-o shows the last {lines:,}, /export FILE writes them all"
    else:
        what += ", ctrl-o shows it" if left == 1 else ", ctrl-o shows them"
    more = paint(("dim", wrapped(f"  │ … {what}", width)))
    return [more, *shown] if end else [*shown, more]


class OnScreen:
    """The place where an `Asker` shows its questions."""

    def __init__(
        self, screen: Screen, interface: Interface, page: ScrollingText, *, single_keys: bool
    ) -> None:
        """`single_keys`: the letter or number of an answer takes effect without Enter."""
        self._screen = screen
        self._single_keys = single_keys
        self._interface = interface
        self._page = page

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        size = self._screen.size
        return size.columns, size.lines

    def line(self, text: str) -> None:
        """Print a line of a question's subject; lines of a diff after the bar are coloured."""
        page = self._page
        if text.startswith(BAR):
            look = look_of(text.removeprefix(BAR))
            bar = ("dim", BAR), ("" if look == "dim" else look, text.removeprefix(BAR))
            page.line(*bar, kind="ask")
        else:
            page.line(("ask", text), kind="ask")

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """Show the prompt and the answers, and let single keys answer where that is configured.

        A digit that also begins a two-digit answer must be confirmed by Enter.
        """
        rows: Fragments = []
        for line in offered:
            rows += [("bold", line[:4]), ("", line[4:] + "\n")]
        names = [line.split()[0] for line in offered] if self._single_keys else []
        keys = frozenset(name for name in names if len(name) == 1)
        if "10" in names:  # its first key is an answer, too
            keys -= {"1"}
        ask = partial(self._interface.ask, prompt, rows, again=again, single_keys=keys)
        self._screen.do(ask)

    def entered(self) -> None:
        pass  # the prompt is drawn by this program

    def over(self) -> None:
        """Remove the question."""
        self._screen.do(self._interface.stop_asking)


def kept_answer(text: str) -> str:
    """Return the text to show when some input was not an answer."""
    return f"“{one_line(text, 60)}” is not an answer; it was added to your draft."
