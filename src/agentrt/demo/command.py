"""What a `/command` is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from .turn import StopReason, Turn


class Command(Struct, frozen=True):
    """`run` gets the turn and what stands behind the name; None is the ordinary end of a turn."""

    name: str
    description: str
    run: Callable[[Turn, str], Awaitable[StopReason | None]]
    hint: str = ""
    """What may stand behind the name."""


def number(argument: str, default: float, most: float) -> float:
    """The number at the start of an argument, within bounds."""
    try:
        return max(0.0, min(float(argument.split()[0]), most))
    except (ValueError, IndexError):
        return default
