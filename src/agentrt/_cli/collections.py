"""Keeps the garbage collections of a server short, because they pause all its sessions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

FULL_COLLECTION_THRESHOLD: Final = 1
"""The third argument of `gc.set_threshold`. Frequent full collections have little to examine."""

THAW_INTERVAL_S: Final = 600.0
"""Seconds between checks for an idle server."""


@contextmanager
def short_collections() -> Iterator[None]:
    """Freeze the survivors of each full collection inside the block.

    The time of a full collection grows with the number of objects, and many sessions have many.
    Frozen objects are not examined again. Reference counting still frees nearly all of them; `thaw`
    frees the others.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], FULL_COLLECTION_THRESHOLD)
    thaw()
    gc.callbacks.append(_freeze_survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*thresholds)


async def thaw_when_idle(is_idle: Callable[[], bool]) -> None:
    """Run `thaw` every `THAW_INTERVAL_S` seconds if `is_idle` returns True then."""
    while True:
        await trio.sleep(THAW_INTERVAL_S)
        if is_idle():
            thaw()


def thaw() -> None:
    """Collect garbage among all objects, including frozen ones, and freeze the survivors."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Freeze the survivors after a full collection."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
