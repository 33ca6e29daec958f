"""The prompts of a folder, kept from one conversation to the next."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

MOST: Final = 512 * 1024
"""Bytes of a history file that are kept when it has grown to twice as many."""


def state_folder() -> Path:
    """Where agentrt keeps what it remembers of its own."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "agentrt"


def folder_key(cwd: str) -> str:
    """A name for a folder: readable, and not the one of any other."""
    path = os.path.realpath(cwd)
    return f"{os.path.basename(path) or 'root'}-{hashlib.sha256(path.encode()).hexdigest()[:12]}"


def open_history(cwd: str) -> History:
    """The history of a folder, readable for nobody else; one that is not kept where there is no
    place for it."""
    path = state_folder() / "history" / folder_key(cwd)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
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
    new.write_bytes(data[data.find(b"\n# ") :])  # from an entry's own beginning on
    new.replace(path)
