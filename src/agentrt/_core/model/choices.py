"""The choice among an agent's modes, models and values of options."""

from __future__ import annotations

from collections.abc import Sequence

from .events import Choice


class UnsupportedSetting(Exception):
    """The agent does not offer the requested setting; the text lists its offers."""


def pick_choice(what: str, wanted: str, offered: Sequence[Choice], *, owner: str) -> str:
    """Return the id of a choice given by id or name.

    `owner`: the agent, for the message. Raises `UnsupportedSetting` if there is no such choice.
    """
    for choice in offered:
        if choice.id == wanted:
            return wanted
    for choice in offered:
        if choice.name.casefold() == wanted.casefold():
            return choice.id
    known = ", ".join(choice.id for choice in offered) or "none"
    raise UnsupportedSetting(f"{owner} has no {what} {wanted!r}; it has: {known}")
