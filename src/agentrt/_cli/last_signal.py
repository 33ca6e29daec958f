"""The end of the process by a signal that nothing handles: at once, with the documented status.

Trio's receivers replace this handler while work runs, and restore it afterwards. So it applies
while the program is loaded, after its work, and once an orderly end was asked for in vain. Python's
own handler would raise `KeyboardInterrupt` at any line, and the system's would end the process with
a raw signal.

Only light modules are imported here, because this is the first module of the program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end the program, without those that the parent process ignores, as
    under `nohup`.
    """
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def exit_at_next_signal(before: Callable[[], None] | None = None) -> None:
    """End the process at the next signal, without clean-up but for `before`, which must not wait.
    Agents are then ended by their guard.
    """

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        try:
            if before is not None:
                before()
        finally:
            os._exit(128 + number)

    for number in ending_signals():
        signal.signal(number, leave)


def ignore_signals() -> None:
    """Let no signal change the exit status any more. The end of the interpreter restores the
    system's handlers of all signals but those that are ignored.
    """
    for number in ending_signals():
        signal.signal(number, signal.SIG_IGN)
