"""Choose the writer and the reader of a store by its address."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..limits import Limits
from .address import StoreAddress
from .base import Backend
from .reader import SqliteReader
from .shared import ReportingReader, StoreServer
from .sqlite import SqliteBackend
from .sqlite import writing as writing_file


def backend_of(address: StoreAddress, limits: Limits | None = None) -> Backend:
    """Return the writer of a store that is not shared, not yet opened. Raises `StoreError`."""
    if isinstance(address, Path):
        return SqliteBackend(address)
    return address.backend(limits or Limits())


def reader_of(address: StoreAddress, *, writes: bool = False) -> ReportingReader:
    """Return the reader of a store. `writes`: it is used alongside a writer. Raises
    `StoreError`."""
    if isinstance(address, Path):
        return SqliteReader(address)
    return address.reader(writes=writes)


def writing(address: StoreAddress) -> contextlib.AbstractContextManager[Backend]:
    """Open a store for changes in the block. Raises `StoreError`."""
    return writing_file(address) if isinstance(address, Path) else address.writing()


def server(address: StoreAddress) -> StoreServer:
    """Return the address of a store that several processes may share. Raises `ValueError`."""
    if isinstance(address, Path):
        raise ValueError(f"{address} is a file, which one process writes: several share PostgreSQL")
    return address
