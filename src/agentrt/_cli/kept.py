"""References to a stored session and to the store of this process, for opening sessions."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .._journal.address import StoreAddress
from .._journal.base import StoreEntry
from .._journal.store import Store


class Kept(Struct, frozen=True, kw_only=True):
    """A stored session and the address of its store."""

    file: StoreAddress
    entry: StoreEntry
    snippet: str = ""


class Own(Protocol):
    """The store of this process; see `OwnStore`."""

    @property
    def store(self) -> Store: ...

    async def fetch(self, kept: Kept) -> None: ...
