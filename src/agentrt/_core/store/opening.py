"""Choose the writer, the reader and the leases of a store by its address."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ..errors import StoreError
from ..limits import Limits
from .address import PostgresAddress, StoreAddress
from .base import Backend, StoreReader
from .libraries import Library
from .reader import SqliteReader, SqliteReport
from .sqlite import SqliteBackend
from .sqlite import writing as writing_file

if TYPE_CHECKING:
    from .membership import Membership
    from .postgres.commands import PostgresCommands, PostgresListener
    from .postgres.leases import PostgresLeases
    from .postgres.reader import PostgresReport


class ReportingReader(StoreReader, Protocol):
    """A reader that can also report on the store."""

    def report(self) -> SqliteReport | PostgresReport:
        """Return facts about the store."""
        ...


def backend_of(
    address: StoreAddress,
    library: Library | None = None,
    limits: Limits | None = None,
    *,
    membership: Membership | None = None,
    tenant_quotas: Mapping[str, int | None] = {},
) -> Backend:
    """Return the writer of a store, not yet opened.

    - `membership`: this process among those that share the store, if it is shared.
    - `tenant_quotas`: maximum number of open sessions per tenant, over all these processes. It may
      change later.

    Raises `StoreError`.
    """
    if not isinstance(address, PostgresAddress):
        return SqliteBackend(address, library)
    with _psycopg():
        from .postgres.backend import PostgresBackend
    return PostgresBackend(
        address,
        None if membership is None else membership.process.home,
        (limits or Limits()).store_gather_s,
        lease=None if membership is None else membership.held,
        tenant_quotas=tenant_quotas,
    )


def leases_of(address: StoreAddress, reply_timeout_s: float | None = None) -> PostgresLeases:
    """Return the leases of the processes that share the store. Raises `StoreError`."""
    if not isinstance(address, PostgresAddress):
        raise StoreError(f"{address} is a file, which one process writes: several share PostgreSQL")
    with _psycopg():
        from .postgres.leases import PostgresLeases
    return PostgresLeases(address, reply_timeout_s)


def commands_of(address: PostgresAddress) -> PostgresCommands:
    """Return the channel for commands between the processes that share the store."""
    from .postgres.commands import PostgresCommands

    return PostgresCommands(address)


def listener_of(address: PostgresAddress, node: int) -> PostgresListener:
    """Return a receiver for the notifications of one process. Raises `StoreError`."""
    from .postgres.commands import PostgresListener

    return PostgresListener(address, node)


def reach(address: StoreAddress) -> None:
    """Check that the database can be reached. Raises `StoreError`."""
    if isinstance(address, PostgresAddress):
        from .postgres.connection import connect

        connect(address, writes=True).close()


def is_away(error: Exception) -> bool:
    """True if a store could not be opened because its database cannot be reached now."""
    if error.__cause__ is None or not type(error.__cause__).__module__.startswith("psycopg"):
        return False
    from .postgres.connection import is_away as is_database_away

    return isinstance(error.__cause__, Exception) and is_database_away(error.__cause__)


def reader_of(
    address: StoreAddress, library: Library | None = None, *, writes: bool = False
) -> ReportingReader:
    """Return the reader of a store. `writes`: it is used alongside a writer. Raises
    `StoreError`."""
    if not isinstance(address, PostgresAddress):
        return SqliteReader(address, library)
    with _psycopg():
        from .postgres.reader import PostgresReader
    return PostgresReader(address, writes=writes)


def writing(address: StoreAddress) -> contextlib.AbstractContextManager[Backend]:
    """Open a store for changes in the block. Raises `StoreError`."""
    if not isinstance(address, PostgresAddress):
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
