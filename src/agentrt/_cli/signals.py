"""The signals that end the program, and their handling."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from .._base.nesting import bare_errors
from .last_signal import ending_signals, exit_at_next_signal

INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE


@contextmanager
def received_signals() -> Iterator[AsyncIterator[int]]:
    """Return a block in which the signals that end the program are received instead; none of them
    if the parent process ignores them all.
    """
    if numbers := ending_signals():
        with trio.open_signal_receiver(*numbers) as signals:
            yield signals
    else:
        yield _no_signals()


async def _no_signals() -> AsyncIterator[int]:
    await trio.sleep_forever()
    yield 0


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

    with received_signals() as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            status = await work()
            nursery.cancel_scope.cancel(reason="done")
    return status
