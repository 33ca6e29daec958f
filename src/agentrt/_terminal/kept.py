"""A stored session, and the store of this process: as what opens sessions knows them."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .._journal.address import Address
from .._journal.base import StoreEntry
from .._journal.store import Store


class Kept(Struct, frozen=True, kw_only=True):
    """A session, and the store that it is in."""

    file: Address
    entry: StoreEntry
    snippet: str = ""


class Own(Protocol):
    """Where the sessions of this process are kept: see `OwnStore`."""

    @property
    def store(self) -> Store: ...

    async def fetch(self, kept: Kept) -> None: ...
