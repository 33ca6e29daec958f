"""Files of stores, as the command line moves sessions between them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .base import Packed
from .service import service_of
from .sqlite import writing
from .store import Store


class StoreFile(Protocol):
    """A store in a file that is open for changes."""

    def sessions(self) -> list[str]:
        """Return the ids of the sessions that were prompted."""
        ...

    def pack(self, session: str) -> Packed | None:
        """Export a session, for `put` of another store; None if it is not stored here."""
        ...

    def put(self, packed: Packed) -> None:
        """Import a session, unless a later state of it is here."""
        ...

    def delete(self, session: str) -> bool:
        """Delete a session. Returns False if it is not stored."""
        ...

    def shrink(self) -> None:
        """Return some of the unused space to the file system."""
        ...

    def vacuum(self) -> None:
        """Return all unused space to the file system, by writing the whole file again."""
        ...


def open_store_file(path: Path, *, timeout_s: float = 0) -> AbstractContextManager[StoreFile]:
    """Open a store's file for changes in the block, and create it if it is missing.

    `timeout_s`: seconds to wait for another process that writes it. Raises `StoreError`.
    """
    return writing(path, timeout_s=timeout_s)


async def import_session(store: Store, packed: Packed) -> None:
    """Import a session into an open store, unless a later state of it is there.

    Raises `StoreError`. Cancelling this leaves it open whether the session was imported.
    """
    await service_of(store).put(packed)
