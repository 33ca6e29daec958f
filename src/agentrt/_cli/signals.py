"""The signals that end the program, and their handling."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import trio

from .._base.nesting import bare_errors

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE


def ending_signals(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the signals that are not ignored by the parent process, as under `nohup`.

    `numbers`: the signals; default: all that end the program.
    """
    return [
        number for number in numbers or _ENDING if signal.getsignal(number) is not signal.SIG_IGN
    ]


def let_the_next_one_kill() -> None:
    """Restore the default effect of the signals. Agents are then ended by their guard."""
    for number in ending_signals():
        signal.signal(number, signal.SIG_DFL)


async def until_signalled(work: Callable[[], Awaitable[int]], *numbers: signal.Signals) -> int:
    """Run `work`; returns its exit status, or that of a signal. `numbers`: as in `ending_signals`.

    The first signal cancels it, which takes bounded time; a second one kills the process.
    """
    status = 0

    async def obey(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        """End the work with the first signal; the next one ends the process as usual."""
        nonlocal status
        async for number in signals:
            status = 128 + number
            let_the_next_one_kill()
            scope.cancel(reason=f"signal {number}")

    with trio.open_signal_receiver(*ending_signals(*numbers)) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            status = await work()
            nursery.cancel_scope.cancel(reason="done")
    return status
