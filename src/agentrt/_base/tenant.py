"""Tenants of a shared server, and limits that are written as text."""

from __future__ import annotations

import re
import sys
from typing import Final, TypeGuard

from msgspec import Struct


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a number that can be calculated with.

    That is: not a bool, not NaN or infinite, and not a whole number too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


class BudgetLimits(Struct, frozen=True, kw_only=True):
    """The limits of a budget, as parsed from text; see `agentrt.budget`."""

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    seconds: float | None = None


_BUDGET_UNITS: Final = {
    "usd": ("usd", 1.0),
    "tok": ("tokens", 1.0),
    "ktok": ("tokens", 1e3),
    "mtok": ("tokens", 1e6),
    "turns": ("turns", 1.0),
    "turn": ("turns", 1.0),
    "s": ("seconds", 1.0),
    "min": ("seconds", 60.0),
    "h": ("seconds", 3600.0),
}
"""The units in the text of a budget: the limit and the factor."""


def parse_budget(text: str) -> BudgetLimits:
    """Parse a budget such as `5usd,2Mtok,30min,20turns`. Raises `ValueError`."""
    found: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", part)
        unit = _BUDGET_UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(
                f"{part.strip()!r} is not a limit of a budget; write for example"
                " 5usd,2Mtok,30min,20turns (units: usd, tok, ktok, Mtok, turns, s, min, h)"
            )
        name, value = unit[0], float(match[1]) * unit[1]
        if name in found:
            raise ValueError(f"the budget {text!r} has two limits in {name}")
        if not is_number(value):
            raise ValueError(f"{part.strip():.40} is too large for a budget")
        if not value or (name in ("tokens", "turns") and value != int(value)):
            raise ValueError(f"{part.strip()!r} must be above 0, and whole for tokens and turns")
        found[name] = value
    return BudgetLimits(
        usd=found.get("usd"),
        tokens=int(found["tokens"]) if "tokens" in found else None,
        turns=int(found["turns"]) if "turns" in found else None,
        seconds=found.get("seconds"),
    )


def parse_duration(text: str) -> float:
    """Parse a time such as `90s`, `30min` or `6h` to seconds. Raises `ValueError`."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)\s*", text)
    if match is None or not float(match[1]) or not is_number(float(match[1])):
        raise ValueError(f"{text!r} is not a time; write for example 90s, 30min or 6h")
    return float(match[1]) * _BUDGET_UNITS[match[2]][1]


class Tenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant of a shared server: clients with its token see and control only its sessions.

    None means no limit.

    - `name`: up to 64 letters, digits, `_`, `-` and `.`.
    - `sessions`: maximum number of its open sessions, over all servers that share a store. A
      session that is only stored is not open.
    - `viewers`: maximum number of simultaneous connections at each server.
    - `events`: events per second of all its sessions together, at each server that runs some of
      them. Above that their agents are read more slowly.
    - `roots`: folders in which, and below which, its clients may open sessions; default: those of
      the server.
    - `budget`: a budget for all turns of its sessions at each server, since the server's start:
      `50usd,200turns`.
    """

    name: str
    sessions: int | None = None
    viewers: int | None = None
    events: float | None = None
    roots: tuple[str, ...] = ()
    budget: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", self.name):
            raise ValueError(
                f"{self.name!r} is not a valid tenant name: use up to 64 of A-Z a-z 0-9 _ - ."
            )
        for name in ("sessions", "viewers"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise ValueError(
                    f"{name} must be a whole number, 0 or more, or None, not {value!r}"
                )
        if self.events is not None and not (is_number(self.events) and self.events >= 1):
            raise ValueError(f"events must be events per second, 1 or more, not {self.events!r}")
        if self.budget is not None:
            parse_budget(self.budget)
