"""The implementation of the process layer that is in use.

It follows from the platform. `AGENTRT_PROCESS_LAYER=portable` chooses the portable one on Linux as
well: for tests, and where `/proc` is not available.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from .layer import ProcessLayer

CHOICE: Final = "AGENTRT_PROCESS_LAYER"


def choose(wanted: str) -> ProcessLayer:
    """Return the layer for this platform. `wanted`: the name of a layer, or empty. Raises
    `RuntimeError` if there is no such layer on the platform."""
    if wanted not in ("", "linux", "portable"):
        raise RuntimeError(f"{CHOICE} must be linux or portable, not {wanted!r}; or unset it")
    if sys.platform == "linux" and wanted != "portable":
        from .linux import LinuxLayer

        return LinuxLayer()
    if wanted == "linux":
        raise RuntimeError(f"{CHOICE}=linux needs Linux; unset it on {sys.platform}")
    try:
        from .portable import PortableLayer
    except ImportError as error:
        raise RuntimeError(
            f"psutil cannot be imported ({error}); agentrt needs it on systems other than Linux and"
            f" for {CHOICE}=portable: pip install psutil"
        ) from error
    return PortableLayer()


LAYER: Final = choose(os.environ.get(CHOICE, ""))


async def wait_exit(pid: int) -> None:
    """Wait until a child has exited, without reaping it: its group can still be signalled."""
    await LAYER.wait_exit(pid)
