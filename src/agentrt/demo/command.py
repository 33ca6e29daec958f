"""The type of a `/command`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from .turn import DemoTurn, StopReason


class DemoCommand(Struct, frozen=True):
    """A `/command`. `run` gets the turn and the text after the name; None ends the turn
    normally."""

    name: str
    description: str
    run: Callable[[DemoTurn, str], Awaitable[StopReason | None]]
    hint: str = ""
    """The argument that may follow the name."""


def number(argument: str, default: float, most: float) -> float:
    """Return the number at the start of an argument, within bounds."""
    try:
        return max(0.0, min(float(argument.split()[0]), most))
    except (ValueError, IndexError):
        return default
