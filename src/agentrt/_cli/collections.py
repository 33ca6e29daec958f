"""Short garbage collections in a server, for which all its sessions wait."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

FULL_COLLECTION_THRESHOLD: Final = 1
"""The threshold of collections that examine everything which is not frozen; see `gc.set_threshold`.
"""

THAW_INTERVAL_S: Final = 600.0
"""Seconds between two looks whether the server is idle."""


@contextmanager
def short_collections() -> Iterator[None]:
    """Let no collection examine what an earlier one has examined, until the end of the block.

    A full collection takes as long as there are objects, and a server with many sessions has many.
    So what survives one is frozen, and the next one comes before there is much that is not. Most of
    what is frozen is freed by reference counting all the same; `thaw` frees the rest.
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
    """Run `thaw` from time to time, but only while nobody waits for the server."""
    while True:
        await trio.sleep(THAW_INTERVAL_S)
        if is_idle():
            thaw()


def thaw() -> None:
    """Collect all garbage, also what was frozen, and freeze the rest."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Freeze what is left after a full collection."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
