"""The first lines of an opened session: agent, directory, and history."""

from __future__ import annotations

import os

from ..._core.model.content import plain_text
from ..._core.model.state import TurnRecord
from ..._version import __version__
from ...events import Item
from ..repl.conversation import SHOWN_ITEMS
from ..repl.view import how_it_ended, how_it_failed, tool_title
from ..session_view import SessionView
from ..setup import Setup
from ..text import one_line
from .drawing import Drawing


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
