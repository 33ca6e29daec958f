"""Repeated information: notices, and the history of a conversation that another one continues.

Notices are limited: an agent that logs to stdout for hours must not fill the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from .driver import BlockReceived, Effect, TextEnded, TextReceived, ToolCalled, UserContentReceived
from .events import Item, Notice

REPORTED_NOTICES: Final = 16
"""The number of notices about one subject that are all reported; later ones at powers of two."""
DISTINCT_NOTICES: Final = 256
"""The number of subjects that are counted separately. A subject may be text from the agent that is
never the same twice.
"""
LISTED_NAMES: Final = 5
"""The number of names that `listed` shows."""


class NoticeLimiter:
    """Counts notices and passes on the ones worth reporting."""

    def __init__(self) -> None:
        """Begin without notices."""
        self._seen: dict[tuple[str, str], int] = {}

    def worth_reporting(self, notice: Notice, *, about: str = "", times: int = 1) -> list[Notice]:
        """Return the notice, or an empty list if it was reported often.

        `about`: the subject, counted separately under the same code. `times`: the number of
        occurrences since the last call.
        """
        code = notice.code
        if len(self._seen) > DISTINCT_NOTICES:
            about = ""
        before = self._seen.get((code, about), 0)
        so_far = self._seen[code, about] = before + times
        if so_far <= REPORTED_NOTICES:
            return [notice]
        if so_far.bit_length() == before.bit_length():  # no power of two was passed
            return []
        return [replace(notice, message=f"{notice.message} ({so_far} times so far)")]


def listed(names: Iterable[str]) -> str:
    """Join names, each only once and not too many of them."""
    counts = Counter(names)
    shown = [
        f"{name} ({n} times)" if n > 1 else name for name, n in list(counts.items())[:LISTED_NAMES]
    ]
    more = sum(list(counts.values())[LISTED_NAMES:])
    return ", ".join(shown) + (f" and {more} more" if more else "")


def history_effects(items: Iterable[Item]) -> Iterator[Effect]:
    """Turn items into the effects of an agent that repeats them."""
    for item in items:
        match item.type:
            case "user":
                yield UserContentReceived(
                    content=list(item.content), message=item.message, replay=True
                )
            case "tool" if (tool := item.tool) is not None:
                yield ToolCalled(
                    id=tool.call or item.id,
                    opens=True,
                    name=tool.name,
                    title=tool.title,
                    kind=tool.kind,
                    owner=tool.owner,
                    status=item.status,
                    input=tool.input,
                    output=tool.output,
                    content=list(tool.content),
                    locations=list(tool.locations),
                    replay=True,
                )
            case "text" | "thought":
                thought = item.type == "thought"
                yield TextReceived(item.text, thought, item.message, replay=True)
                for block in item.content:
                    yield BlockReceived(
                        block=block, thought=thought, message=item.message, replay=True
                    )
                yield TextEnded()
            case _:
                pass
