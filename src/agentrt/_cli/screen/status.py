"""Lines around the prompt: the queued prompts above it, the status line below it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...config import PermissionMode
from ...events import Modes, Phase, Usage
from ..printing import limit_text
from ..repl.view import View
from ..text import one_line, wrapped
from .cards import SPINNER
from .style import Fragments

_WORDS: Final[dict[Phase, tuple[str, str]]] = {
    "starting": ("busy", "starting"),
    "idle": ("dim", "ready"),
    "running": ("busy", "working"),
    "waiting": ("ask", "needs your answer"),
    "cancelling": ("warn", "stopping"),
    "closed": ("dim", "closed"),
    "dead": ("dim", "paused"),
}
NEARLY_USED_PERCENT: Final = 80
"""Used part of a limit of the account from which on it is shown all the time."""
_OFFLINE: Final = ("warn", "offline")
_MOVING: Final = frozenset({"starting", "working", "stopping"})
"""The words next to a spinner."""


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
    look, word = _OFFLINE if offline else _WORDS[view.phase]
    mark = SPINNER[int(now * 8) % len(SPINNER)] if word in _MOVING else "●"
    took = f" {seconds:.0f} s" if seconds is not None else ""
    # The importance of each part (0: most important), in the order of the line.
    parts = [(3, "dim", one_line(agent, 30)), *_mode_parts(view.modes)]
    parts += [(6 + n, "dim", part) for n, part in enumerate(_usage(view.usage))]
    parts += _bounds(view)
    parts += _limits(view.usage)
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
        if look == "hint":
            shown += [("dim", "   "), ("dim", text)]
        else:
            shown += [("dim", " · "), (look, text)]
    return shown


def _bounds(view: View) -> list[tuple[int, str, str]]:
    """Return the parts for the sandbox and the budget, if there are any."""
    bounds = [f"sandbox: {view.sandbox}" if view.sandbox else "", view.budget]
    return [(2, "dim", one_line(bound, 60)) for bound in bounds]


def _mode_parts(modes: Modes | None) -> list[tuple[int, str, str]]:
    """Return the parts for the model and the mode, as far as they are known."""
    parts = []
    if modes is not None and modes.model is not None:
        parts.append((5, "dim", one_line(modes.model, 30) + _doubt(modes, "model")))
    if modes is not None and modes.mode is not None:
        parts.append((4, "dim", one_line(modes.mode, 20) + _doubt(modes, "mode")))
    return parts


def _usage(usage: Usage | None) -> list[str]:
    """Return the usage in a few words: the used part of the context, and the cost."""
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


def _limits(usage: Usage | None) -> list[tuple[int, str, str]]:
    """Return the parts for the limits of the account that are nearly used up, or reached."""
    limits = (usage.limits if usage is not None else None) or ()
    return [
        (2, "warn", limit_text(limit))
        for limit in limits
        if limit.reached or (limit.used_percent or 0) >= NEARLY_USED_PERCENT
    ]


def _doubt(modes: Modes, setting: str) -> str:
    """Mark a setting whose change the agent has not confirmed."""
    return " (unconfirmed)" if setting in modes.unconfirmed else ""


def queue_lines(prompts: Collection[str], *, paused: int, width: int) -> Fragments:
    """Draw the waiting prompts, and the keys that act on them.

    `paused`: the number of paused prompts, which are the last ones.
    """
    shown: Fragments = []
    for number, text in enumerate(prompts):
        mark = "⏎ " if number < len(prompts) - paused else "⏸ "
        shown += [("you", mark), ("dim", f"{one_line(text, max(10, width - 4))}\n")]
    if paused:
        what = f"  {paused} paused · Enter resumes · Alt-Up takes one back"
        shown.append(("dim", wrapped(what, width) + "\n"))
    elif prompts:
        shown.append(("dim", wrapped("  queued · Alt-Up takes it back", width) + "\n"))
    return shown


def last_lines(fragments: Fragments, rows: int, width: int) -> Fragments:
    """Return the last complete lines that fit into `rows` rows of a terminal of this width."""
    lines: list[Fragments] = [[]]
    for look, text in fragments:
        for piece in text.splitlines(keepends=True):
            lines[-1].append((look, piece))
            if piece.endswith("\n"):
                lines.append([])
    left = max(1, rows)
    kept: list[Fragments] = []
    for line in reversed(lines):
        columns = sum(len(text.rstrip("\n")) for _, text in line)
        left -= max(1, -(-columns // max(1, width))) if line else 0
        if left < 0:
            break
        kept.append(line)
    return [fragment for line in reversed(kept) for fragment in line]
