"""The signals that end the program, for whoever can end it well."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import trio

from .._nesting import bare_errors

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE


def ending_signals() -> list[signal.Signals]:
    """Those that are not ignored from outside, as under `nohup`."""
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def let_the_next_one_kill() -> None:
    """From here on the signals do what they do without us. Agents are then ended by their guard."""
    for number in ending_signals():
        signal.signal(number, signal.SIG_DFL)


async def until_signalled(work: Callable[[], Awaitable[int]]) -> int:
    """Run `work` for its exit status. The first signal cancels it, which takes it bounded time, and
    a second one kills."""
    status = 0

    async def obey(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        nonlocal status
        async for number in signals:
            status = 128 + number
            let_the_next_one_kill()
            scope.cancel(reason=f"signal {number}")

    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            status = await work()
            nursery.cancel_scope.cancel(reason="done")
    return status
