"""What writes a store, and what reads it, by where it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from .._errors import StoreError
from .._limits import Limits
from .address import Address, Server
from .base import Backend, Reader
from .libraries import Library
from .reader import FileReport, SqliteReader
from .sqlite import SqliteBackend
from .sqlite import writing as writing_file

if TYPE_CHECKING:
    from .postgres.commands import PostgresCommands, PostgresListener
    from .postgres.leases import PostgresLeases
    from .postgres.reader import ServerReport


class Reporting(Reader, Protocol):
    """One that also says what there is to say of the store."""

    def report(self) -> FileReport | ServerReport: ...


def backend_of(
    address: Address,
    library: Library | None = None,
    home: str | None = None,
    limits: Limits | None = None,
) -> Backend:
    """What writes it, not yet opened. `home`: that of this process, if it shares the store. Raises
    `StoreError`."""
    if not isinstance(address, Server):
        return SqliteBackend(address, library)
    with _psycopg():
        from .postgres.backend import PostgresBackend
    return PostgresBackend(address, home, (limits or Limits()).store_gather)


def leases_of(address: Address, patience: float | None = None) -> PostgresLeases:
    """The leases of those who share it. Raises `StoreError`."""
    if not isinstance(address, Server):
        raise StoreError(f"{address} is a file, which one process writes: several share PostgreSQL")
    with _psycopg():
        from .postgres.leases import PostgresLeases
    return PostgresLeases(address, patience)


def commands_of(address: Server) -> PostgresCommands:
    """What those who share it say to each other."""
    from .postgres.commands import PostgresCommands

    return PostgresCommands(address)


def ear_of(address: Server, node: int) -> PostgresListener:
    """Receives what one of them is notified of. Raises `StoreError`."""
    from .postgres.commands import PostgresListener

    return PostgresListener(address, node)


def reach(address: Address) -> None:
    """See whether its database can be reached. Raises `StoreError`."""
    if isinstance(address, Server):
        from .postgres.connection import connect

        connect(address, writes=True).close()


def is_away(error: Exception) -> bool:
    """Whether a store could not be opened because its database cannot be reached now."""
    if error.__cause__ is None or not type(error.__cause__).__module__.startswith("psycopg"):
        return False
    from .postgres.connection import is_away as is_database_away

    return isinstance(error.__cause__, Exception) and is_database_away(error.__cause__)


def reader_of(
    address: Address, library: Library | None = None, *, writes: bool = False
) -> Reporting:
    """`writes`: it is read beside what writes it. Raises `StoreError`."""
    if not isinstance(address, Server):
        return SqliteReader(address, library)
    with _psycopg():
        from .postgres.reader import PostgresReader
    return PostgresReader(address, writes=writes)


def writing(address: Address) -> contextlib.AbstractContextManager[Backend]:
    """A store, to be changed in the block. Raises `StoreError`."""
    if not isinstance(address, Server):
        return writing_file(address)
    with _psycopg():
        from .postgres.backend import writing as writing_server
    return writing_server(address)


@contextlib.contextmanager
def _psycopg() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise StoreError(
            f"a store in PostgreSQL needs psycopg ({error}): pip install 'agentrt[postgres]'"
        ) from error
