"""Printing errors, tables, documents and figures on the standard streams."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import Literal

import msgspec

from ..errors import AgentrtError
from ..events import LimitWindow
from .exit_status import exit_code
from .output import terminal_size
from .text import escaped, one_line, plain, wrapped


def first_part(error: AgentrtError) -> str:
    """Return the message of an error without the agent's output."""
    return plain(str(error).partition("\n---")[0])


def print_error(error: AgentrtError) -> int:
    """Report an error; returns the exit status."""
    print(f"agentrt: {first_part(error)}", file=sys.stderr)
    return exit_code(error)


def print_table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """Print columns as wide as their widest cell; the last one may have any width."""
    cells = [head, *(tuple(one_line(str(cell), 1000) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def print_document(text: str, format: Literal["markdown", "json"]) -> None:
    """Print a document, without control characters on a terminal."""
    if os.isatty(1):
        text = escaped(text) if format == "json" else plain(text)
    sys.stdout.write(text)


def print_json(value: object, *, pretty: bool = True) -> None:
    """Print a value as JSON that cannot control a terminal. Unless pretty, it is one line."""
    encoded = msgspec.json.encode(value)
    lines = msgspec.json.format(encoded) if pretty else encoded
    sys.stdout.write(escaped(lines.decode()) + "\n")


def as_date(seconds: float | None) -> str:
    """Return a point in time as text."""
    if seconds is None:
        return "?"
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def limit_text(limit: LimitWindow) -> str:
    """Return a limit of the user's account as text."""
    name = one_line(limit.name.replace("_", " "), 40)
    used = "reached" if limit.reached else ""
    if not used and limit.used_percent is not None:
        used = f"{limit.used_percent:.0f}%"
    reset = "" if limit.resets_at is None else f"resets {as_date(limit.resets_at)}"
    return " ".join(part for part in (f"{name} limit", used, reset) if part)


def as_size(number: int) -> str:
    """Return a number of bytes as text."""
    value, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def count_of_sessions(number: int) -> str:
    """Return a number of sessions as text."""
    return "1 session" if number == 1 else f"{number} sessions"


def print_warning(warning: str) -> None:
    """Print a warning on standard error, wrapped if it is a terminal."""
    text = f"agentrt: warning: {plain(warning)}"
    print(wrapped(text, terminal_size(2)[0]) if os.isatty(2) else text, file=sys.stderr)
