"""The line below the prompt: what is going on, with whom, at what cost."""

from __future__ import annotations

from typing import Final

from ..._model.events import Modes, Phase, Usage
from ..text import one_line
from .cards import SPINNER
from .style import Fragments

_WORDS: Final[dict[Phase, tuple[str, str]]] = {
    "starting": ("busy", "starting"),
    "idle": ("dim", "ready"),
    "running": ("busy", "working"),
    "waiting": ("ask", "waits for you"),
    "cancelling": ("warn", "stopping"),
    "closed": ("dim", "closed"),
    "dead": ("dim", "asleep; the next prompt starts it"),
}


def status_line(
    phase: Phase,
    seconds: float | None,
    *,
    agent: str,
    modes: Modes | None,
    usage: Usage | None,
    queue: int,
    hint: str,
    now: float,
    width: int,
) -> Fragments:
    """The line. `seconds`: how long the turn has taken so far; `hint` gives way to the rest."""
    look, word = _WORDS[phase]
    moving = phase in ("starting", "running", "cancelling")
    mark = SPINNER[int(now * 8) % len(SPINNER)] if moving else "●"
    took = f" {seconds:.0f} s" if seconds is not None else ""
    parts = [one_line(agent, 30)]
    if modes is not None and modes.model is not None:
        parts.append(one_line(modes.model, 30))
    if modes is not None and modes.mode is not None:
        parts.append(one_line(modes.mode, 20))
    if usage is not None:
        parts += _usage(usage)
    if queue:
        parts.append(f"{queue} queued")
    told = f" {word}{took}"
    rest = "".join(f" · {part}" for part in parts)
    room = width - len(mark) - len(told) - len(rest) - 4
    shown: Fragments = [(look, mark + told), ("dim", rest[: max(0, width - len(told) - 4)])]
    if len(hint) <= room:
        shown.append(("dim", f"   {hint}"))
    return shown


def _usage(usage: Usage) -> list[str]:
    parts = []
    if usage.used is not None and usage.size:
        parts.append(f"{usage.used * 100 // usage.size}% context")
    elif usage.used is not None:
        parts.append(f"{usage.used:,} tokens")
    if usage.cost:
        sign = (
            "$" if (usage.currency or "USD") == "USD" else f"{one_line(usage.currency or '', 5)} "
        )
        parts.append(f"{sign}{usage.cost:.2f}" if usage.cost >= 0.01 else f"{sign}{usage.cost:.4f}")
    return parts
