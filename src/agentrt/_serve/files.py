"""The files of a session's folders, for clients that name them in a prompt or show them."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import trio
from msgspec.structs import asdict

from .._base.listing import MAX_FILES, likeliest, walk
from ..errors import FilesError
from ..hosting import FolderView
from ..lowlevel import CommandFields, CommandRefused
from .folders import Folders

T = TypeVar("T")


MAX_OFFERED_FILES: Final = 50
"""Maximum files in one answer."""

LISTING_REUSE_S: Final = 5.0
"""Seconds for which a listing is reused: people type a name letter by letter."""

LISTING_TIMEOUT_S: Final = 2.0
"""Seconds that a listing may take; it then contains the files found so far."""

MAX_CACHED_LISTINGS: Final = 4
"""Maximum listings that are kept, each of up to some megabytes."""


MAX_VIEW_THREADS: Final = 4
"""Concurrent reads of files and folders: more would only wait for the same disk."""

COMPARE_TIMEOUT_S: Final = 20.0
"""The time limit of each git command of a comparison with the last commit."""

MAX_OFFERED_FOLDERS: Final = 1_000
"""Maximum folders in one answer."""


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
    """List the files below a folder for at most `LISTING_TIMEOUT_S`, in a thread. The flag is true
    if the list is complete.
    """
    end = time.monotonic() + LISTING_TIMEOUT_S

    def alive() -> None:
        """Raise if the caller was cancelled or the time is over; called for each folder."""
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


class FileViewer:
    """Reads folders and files for clients that show them, in threads.

    Cancellation takes effect after the operation.
    """

    def __init__(self) -> None:
        self._threads = trio.CapacityLimiter(MAX_VIEW_THREADS)

    async def folder(self, cwd: str, roots: Sequence[str], path: str) -> CommandFields:
        """List a folder of a session. Raises `CommandRefused`."""

        def look() -> CommandFields:
            view = FolderView(cwd, roots)
            path_named, entries, complete = view.folder(path)
            listed = [each._asdict() for each in entries]
            return {
                "path": path_named,
                "entries": listed,
                "complete": complete,
                "branch": view.branch(),
            }

        return await self._read(path, look)

    async def file(
        self, cwd: str, roots: Sequence[str], path: str, start: int, count: int, *, encoded: bool
    ) -> CommandFields:
        """Read a piece of a file of a session. Raises `CommandRefused`."""

        def look() -> CommandFields:
            return FolderView(cwd, roots).file(path, start, count, encoded=encoded)._asdict()

        return await self._read(path, look)

    async def subfolders(self, folders: Folders, path: str) -> CommandFields:
        """List the folders in a folder where sessions may be opened. Raises `CommandRefused`."""
        folder = folders.resolve(path)
        names, complete = await self._read(path, partial(_subfolders, folder))
        above = os.path.dirname(folder)
        try:
            parent = None if above == folder else folders.resolve(above)
        except CommandRefused:
            parent = None
        return {"path": folder, "parent": parent, "folders": names, "complete": complete}

    async def uncommitted(self, cwd: str) -> CommandFields:
        """Compare a session's folder with the last git commit. Raises `CommandRefused`."""
        try:
            look = partial(FolderView(cwd).uncommitted, COMPARE_TIMEOUT_S)
            return asdict(await self._read(cwd, look))
        except FilesError as error:
            raise CommandRefused("unsupported", str(error)) from error

    async def _read(self, path: str, look: Callable[[], T]) -> T:
        """Read in a thread and turn errors of the file system into refusals.

        Without an `errno`, a `PermissionError` is agentrt's own: the path is outside the session's
        folders.
        """
        if "\0" in path:
            raise CommandRefused("bad_request", "a path cannot contain a null byte")
        try:
            return await trio.to_thread.run_sync(look, limiter=self._threads)
        except PermissionError as error:
            message = f"{path or '.'} cannot be read" if error.errno else str(error)
            raise CommandRefused("forbidden", message) from error
        except OSError as error:
            raise CommandRefused("unknown_file", f"{path or '.'}: {error.strerror}") from error


def _subfolders(folder: str) -> tuple[list[str], bool]:
    """Return the names of the folders in a folder, without hidden ones, and true if these are
    all.
    """
    names: list[str] = []
    with os.scandir(folder) as scan:
        for entry in scan:
            if len(names) >= MAX_OFFERED_FOLDERS:
                return sorted(names, key=str.casefold), False
            if entry.name.isprintable() and not entry.name.startswith(".") and entry.is_dir():
                names.append(entry.name)
    return sorted(names, key=str.casefold), True
