"""An error for calls outside Trio."""

from __future__ import annotations

import trio

from .errors import LocalProtocolError


def check_trio(function: str) -> None:
    """Raise `LocalProtocolError` outside a Trio task; Trio's own error would not explain the
    fix.
    """
    if not trio.lowlevel.in_trio_task():
        raise LocalProtocolError(
            f"{function} must be called in a Trio task; in an asyncio program, use"
            f" agentrt.aio.{function} instead, or run the program with trio.run(main)"
        )
