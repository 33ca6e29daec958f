"""The files of a session's folder, for whoever wants to name one in a prompt."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

import trio

from .._listing import FILES, likeliest, walk

OFFERED: Final = 50
"""Files that one answer names."""

FRESH: Final = 5.0
"""Seconds for which a listing holds: people write a name letter by letter."""

PATIENCE: Final = 2.0
"""Seconds that a listing may take; what was found until then is what there is."""

KEPT: Final = 4
"""Listings that are kept, of up to some megabytes each."""


class _Late(Exception):
    """A listing takes too long."""


class Files:
    """Lists folders, one at a time, in a thread that ends with who asked."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, list[str], bool]] = OrderedDict()
        self._listing = trio.Lock()

    async def find(self, folder: str, words: str) -> tuple[list[str], bool]:
        """The files below the folder whose path has the words, the likeliest first; and whether
        the folder was listed to its end."""
        async with self._listing:  # the next letter of a name waits for the listing of the first
            known = self._known.get(folder)
            if known is None or trio.current_time() - known[0] >= FRESH:
                listed = await trio.to_thread.run_sync(_list, folder)
                self._known[folder] = known = (trio.current_time(), *listed)
                self._known.move_to_end(folder)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        _, files, complete = known
        return likeliest(files, words, OFFERED), complete


def _list(folder: str) -> tuple[list[str], bool]:
    end = time.monotonic() + PATIENCE

    def alive() -> None:
        trio.from_thread.check_cancelled()
        if time.monotonic() > end:
            raise _Late

    files: list[str] = []
    try:
        # A name that no text can hold cannot be sent, nor be written into a prompt.
        files.extend(path for path in walk(folder, alive) if path.isprintable())
    except _Late:
        return files, False
    return files, len(files) < FILES
