"""Writes the pages of the reference that say where each message of an agent shows.

PYTHONPATH=tests python -m shown.page
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from . import acp, codex
from .probe import DIFFERS, Shown, reason

PAGES: Final = Path(__file__).parents[2] / "docs" / "reference"
MADE: Final[Mapping[str, Callable[[], str]]] = {
    "codex-messages.md": lambda: codex_page(),
    "acp-messages.md": lambda: acp_page(1),
    "acp2-messages.md": lambda: acp_page(2),
}
"""By file name, the functions that make the pages."""

HEAD: Final = """\
# Where the messages of {agent} show

<!-- Made by `python -m shown.page` in `tests/`; not to be edited. -->

Each field of each message that {source} can send, and the
event and field of agentrt's log in which it shows. The table is made by experiment: an example of
every field and every value is given to the driver, and its value is searched in the events.
*Decides* means that another value leads to other events. A field that no event shows has a
reason. A test fails if a field has neither.

A message that is not in this table is reported by a notice with the code `unknown_update`.
"""


def codex_page() -> str:
    found = codex.shown()
    head = HEAD.format(agent="Codex", source="`codex app-server` 0.169.0")
    whole = "".join(f"| `{method}` | {why} |\n" for method, why in codex.IGNORED.items())
    ignored = f"## Messages that lead to no event\n\n| message | reason |\n| --- | --- |\n{whole}"
    shown = "".join(tables(found, codex.DECLARED))
    return f"{head}\n{ignored}\n## Messages that lead to events\n{shown}"


def acp_page(version: int) -> str:
    found = acp.shown(version)
    source = f"an agent in version {version} of ACP"
    head = HEAD.format(agent=f"an agent in version {version} of ACP", source=source)
    shown = "".join(tables(found, acp.DECLARED))
    return f"{head}\n## Messages\n{shown}"


def tables(found: Shown, declared: Mapping[str, str]) -> Iterator[str]:
    """Yield a table for each message."""
    messages: dict[str, dict[str, str]] = {}
    for path, place in found.items():
        field, _, value = path.partition(" = ")
        message, _, rest = field.partition(".")
        rows = messages.setdefault(message, {})
        words = place_words(place, path, declared)
        known = rows.get(rest)
        if known is None or (known != words and not place):
            rows.setdefault(rest, words)
        if place and known is not None and rows[rest] != words and value:
            rows[rest] = "decides"
    for message, rows in messages.items():
        yield f"\n### `{message}`\n\n| field | shown |\n| --- | --- |\n"
        for field, words in sorted(rows.items()):
            yield f"| `{field}` | {words} |\n" if field else f"| | {words} |\n"


def place_words(place: str, path: str, declared: Mapping[str, str]) -> str:
    """Return where a leaf shows, or why it does not."""
    if place == DIFFERS:
        return "decides"
    if place:
        event, _, field = place.partition(".")
        kind = re.match(r"(item|turn|permission)\.\w+", place)
        if kind is not None:
            event, field = kind[0], place[len(kind[0]) + 1 :]
        return f"`{event}`: `{field}`"
    return f"not shown: {reason(path, declared)}"


def main() -> None:
    for name, make in MADE.items():
        (PAGES / name).write_text(make())


if __name__ == "__main__":
    main()
