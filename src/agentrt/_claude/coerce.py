"""Values that may be anything, as what they ought to be.

What the CLI sends is typed `Any` where nobody wants to lose a message over it (`messages.py`).
"""

from __future__ import annotations

from typing import Any

from .._model.content import JsonObject


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    return value if type(value) is int else None


def number(value: Any) -> float | None:
    return float(value) if type(value) is float or type(value) is int else None


def texts(values: Any) -> list[str]:
    return [v for v in values if isinstance(v, str) and v] if isinstance(values, list) else []


def objects(values: Any) -> list[JsonObject]:
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []
