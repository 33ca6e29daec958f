"""The files of a session's folder, for clients that name one in a prompt."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

import trio

from .._base.listing import MAX_FILES, likeliest, walk

MAX_OFFERED_FILES: Final = 50
"""Maximum files in one answer."""

LISTING_REUSE_S: Final = 5.0
"""Seconds for which a listing is reused: people type a name letter by letter."""

LISTING_TIMEOUT_S: Final = 2.0
"""Seconds that a listing may take; it then contains the files found so far."""

MAX_CACHED_LISTINGS: Final = 4
"""Maximum listings that are kept, each of up to some megabytes."""


class _Late(Exception):
    """A listing takes too long."""


class FileFinder:
    """Lists folders, one at a time, in a thread that ends when the caller is cancelled."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, list[str], bool]] = OrderedDict()
        self._listing = trio.Lock()

    async def find(self, folder: str, words: str) -> tuple[list[str], bool]:
        """Find the files below a folder by words in their paths.

        Returns them, the likeliest first, and true if the folder was listed completely.
        """
        async with self._listing:  # the next letter waits for the first letter's listing
            known = self._known.get(folder)
            if known is None or trio.current_time() - known[0] >= LISTING_REUSE_S:
                listed = await trio.to_thread.run_sync(_list, folder)
                self._known[folder] = known = (trio.current_time(), *listed)
                self._known.move_to_end(folder)
                while len(self._known) > MAX_CACHED_LISTINGS:
                    self._known.popitem(last=False)
        _, files, complete = known
        return likeliest(files, words, MAX_OFFERED_FILES), complete


def _list(folder: str) -> tuple[list[str], bool]:
    end = time.monotonic() + LISTING_TIMEOUT_S

    def alive() -> None:
        trio.from_thread.check_cancelled()
        if time.monotonic() > end:
            raise _Late

    files: list[str] = []
    try:
        # A name with unprintable characters cannot be sent or written into a prompt.
        files.extend(path for path in walk(folder, alive) if path.isprintable())
    except _Late:
        return files, False
    return files, len(files) < MAX_FILES
