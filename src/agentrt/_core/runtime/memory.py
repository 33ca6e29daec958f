"""Returns the memory of closed sessions to the system.

A closed session is freed when Python collects its cycles, possibly much later, and the C library
then keeps the memory: of 156 MB used by 30 sessions, 5 MB were returned. After a collection and
`malloc_trim` all but 13 MB are returned.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

import trio

from .registry import SessionRegistry

COLLECT_DELAY_S: Final = 30.0
"""Seconds to wait after the first unloaded session.

Others are often unloaded at the same time, and a collection briefly stops the program.
"""


async def return_free_memory(register: SessionRegistry) -> None:
    """Return free memory to the system after sessions were unloaded, until cancelled.

    Does nothing if the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    while True:
        await register.emptied.wait()
        await trio.sleep(COLLECT_DELAY_S)
        register.emptied = trio.Event()
        await trio.to_thread.run_sync(_trim, abandon_on_cancel=True)


def _trim() -> None:
    """Collect the cycles, and return free memory to the system. Blocks.

    `ctypes` is imported here, because it is needed only after sessions were unloaded. A C library
    without `malloc_trim`, such as musl, is left as it is.
    """
    import ctypes

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
