"""The prompt history of a directory, stored between interactive sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from ..state import private_file

MOST: Final = 512 * 1024
"""Bytes of a history file that are kept when it has grown to twice that size."""


def open_history(cwd: str) -> History:
    """Open the history of a directory, in a file that only the user can read.

    If it cannot be stored, the history is kept in memory.
    """
    try:
        path = private_file("history", cwd)
        _shorten(path)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _shorten(path: Path) -> None:
    if path.stat().st_size <= 2 * MOST:
        return
    data = path.read_bytes()[-MOST:]
    new = path.with_suffix(".new")
    new.touch(0o600)
    new.write_bytes(data[data.find(b"\n# ") :])  # from the start of an entry
    new.replace(path)
