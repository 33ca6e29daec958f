"""Conversion of untyped values to the expected type, or to None or an empty list.

Fields of the CLI's messages are typed `Any` where a wrong type must not cost the message
(`messages.py`).
"""

from __future__ import annotations

from typing import Any

from ..model.content import JsonObject


def text(value: Any) -> str | None:
    """Return the value if it is a string, else None."""
    return value if isinstance(value, str) else None


def whole_number(value: Any) -> int | None:
    """Return the value if it is an int, else None."""
    return value if type(value) is int else None


def number(value: Any) -> float | None:
    """Return the value as a float if it is a number, else None."""
    return float(value) if type(value) is float or type(value) is int else None


def texts(values: Any) -> list[str]:
    """Return the non-empty strings of a list."""
    return [v for v in values if isinstance(v, str) and v] if isinstance(values, list) else []


def objects(values: Any) -> list[JsonObject]:
    """Return the objects of a list."""
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []
