"""The signals that end the program, and their handling."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import trio

from .._base.nesting import bare_errors
from .last_signal import ending_signals, exit_at_next_signal

INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE


async def until_signalled(work: Callable[[], Awaitable[int]]) -> int:
    """Run `work`; returns its exit status, or that of a signal.

    The first signal that the work does not handle itself cancels it, which takes bounded time; a
    second one ends the process.
    """
    status = 0

    async def obey(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        """End the work with the first signal; the next one ends the process."""
        nonlocal status
        async for number in signals:
            status = 128 + number
            exit_at_next_signal()
            scope.cancel(reason=f"signal {number}")

    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            status = await work()
            nursery.cancel_scope.cancel(reason="done")
    return status
