"""The line below the prompt: the state of the session, the agent, and the cost."""

from __future__ import annotations

from typing import Final

from ..._config import PermissionMode
from ..._model.events import Modes, Phase, Usage
from ..repl.view import View
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
    "dead": ("dim", "asleep"),
}


def status_line(
    view: View,
    seconds: float | None,
    *,
    agent: str,
    permissions: PermissionMode | None,
    queue: int,
    hint: str,
    now: float,
    width: int,
    offline: bool = False,
) -> Fragments:
    """Return the status line.

    `seconds` is the duration of the running turn so far. `offline` is true while the server of the
    session cannot be reached: the phase is then only the last known one and is not shown. If the
    line is too long, whole parts are left out, the least important first.
    """
    look, word = ("warn", "offline") if offline else _WORDS[view.phase]
    moving = not offline and view.phase in ("starting", "running", "cancelling")
    mark = SPINNER[int(now * 8) % len(SPINNER)] if moving else "●"
    took = f" {seconds:.0f} s" if seconds is not None else ""
    modes = view.modes
    # The importance of each part (0: most important), in the order of the line.
    parts = [(3, "dim", one_line(agent, 30))]
    if modes is not None and modes.model is not None:
        parts.append((5, "dim", one_line(modes.model, 30) + _doubt(modes, "model")))
    if modes is not None and modes.mode is not None:
        parts.append((4, "dim", one_line(modes.mode, 20) + _doubt(modes, "mode")))
    parts += [(6 + n, "dim", part) for n, part in enumerate(_usage(view.usage))]
    if queue:
        parts.append((2, "dim", f"{queue} queued"))
    if permissions == "allow-all":
        parts.append((1, "warn", "allow-all"))
    parts.append((9 if view.phase != "cancelling" else 0, "hint", hint))
    parts = [part for part in parts if part[2]]
    room = width - 1 - len(f"{mark} {word}{took}")
    while parts and sum(len(text) + 3 for _, _, text in parts) > room:
        parts.remove(max(parts))
    shown: Fragments = [(look, f"{mark} {word}{took}"[: max(1, width - 1)])]
    for _, look, text in parts:
        shown += [("dim", "   " if look == "hint" else " · ")]
        shown += [("dim" if look == "hint" else look, text)]
    return shown


def _usage(usage: Usage | None) -> list[str]:
    parts: list[str] = []
    if usage is None:
        return parts
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


def _doubt(modes: Modes, setting: str) -> str:
    """Mark a setting whose change the agent has not confirmed."""
    return " (unconfirmed)" if setting in modes.unconfirmed else ""
