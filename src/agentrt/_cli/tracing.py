"""The trace that a command writes while it runs (`--trace`), and a row of a trace as text."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from .._public import Session
from ..config import Config
from ..tracing import REDACTED, Trace, TraceRow, open_trace
from .text import one_line, plain

_ARROWS: Final = {"sent": "→", "received": "←", "stderr": "!"}
DETAIL_CHARS: Final = 160
"""Characters of a text that are shown."""


@asynccontextmanager
async def command_trace(config: Config) -> AsyncIterator[Trace | None]:
    """Open the trace that the settings request; yields None without one.

    Raises `TraceError`.
    """
    settings = config.trace
    if settings.file is None:
        yield None
        return
    patterns = [re.compile(pattern) for pattern in settings.redact]

    def redact(line: str) -> str:
        for pattern in patterns:
            line = pattern.sub(REDACTED, line)
        return line

    async with open_trace(
        settings.file,
        max_bytes=settings.max_bytes,
        files=settings.files,
        redact=redact if patterns else None,
    ) as trace:
        yield trace


@asynccontextmanager
async def traced(
    config: Config, opening: Callable[..., AbstractAsyncContextManager[Session]]
) -> AsyncIterator[Session]:
    """Open a session that is recorded in that trace."""
    async with command_trace(config) as trace, opening(trace=trace) as session:
        yield session


def row_text(row: TraceRow) -> str:
    """Return a row as a line of text."""
    at = f"{time.strftime('%H:%M:%S', time.localtime(row.t))}.{int(row.t % 1 * 1000):03}"
    words = [at, _ARROWS.get(row.kind, "·")]
    message = row.message
    if message is not None and isinstance(row.id, int) and message.kind != "message":
        words.append(f"#{row.id}")
    if row.kind != "stderr":
        words.append(one_line(row.what))
    if row.count > 1:
        words.append(f"×{row.count}")
    if row.detail:
        words.append(f" {one_line(row.detail, DETAIL_CHARS)}")
    if row.took is not None:
        how = f" ⇒ {one_line(row.answer, 60)} after" if row.answer else " after"
        words.append(f"{how} {_seconds(row.took)}")
    return " ".join(words) + "".join(f"   ⚠ {plain(odd)}" for odd in row.odd)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
