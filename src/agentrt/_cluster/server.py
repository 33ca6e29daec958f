"""Opens a store in PostgreSQL from its address. psycopg is imported only for that."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from .._public import Limits
from ..errors import StoreError
from ..lowlevel import StoreMembership
from ..store import NodeEntry, StoreProcess
from .address import PostgresAddress, parsed

if TYPE_CHECKING:
    from .client import ClusterClient
    from .membership import Membership
    from .postgres.backend import PostgresBackend
    from .postgres.leases import PostgresLeases
    from .postgres.reader import PostgresReader


class PostgresServer(PostgresAddress, frozen=True):
    """A `StoreServer` for a schema of a PostgreSQL database."""

    def backend(
        self,
        limits: Limits,
        *,
        membership: StoreMembership | None = None,
        tenant_quotas: Mapping[str, int | None] = {},
    ) -> PostgresBackend:
        """Return the writer of the store, not yet opened; see `StoreServer`."""
        with _psycopg():
            from .postgres.backend import PostgresBackend
        return PostgresBackend(
            self,
            None if membership is None else membership.process.home,
            limits.store_gather_s,
            lease=None if membership is None else membership.held,
            tenant_quotas=tenant_quotas,
        )

    def reader(self, *, writes: bool = False) -> PostgresReader:
        """Open a reader. `writes`: it is used alongside a writer. Raises `StoreError`."""
        with _psycopg():
            from .postgres.reader import PostgresReader
        return PostgresReader(self, writes=writes)

    def writing(self) -> contextlib.AbstractContextManager[PostgresBackend]:
        """Open the store for changes in the block. Raises `StoreError`."""
        with _psycopg():
            from .postgres.backend import writing
        return writing(self)

    def share(
        self, process: StoreProcess, limits: Limits, end: Callable[[], Awaitable[None]]
    ) -> tuple[Membership, ClusterClient]:
        """Return the membership of this process and its access to the others, neither running; see
        `StoreServer`. Raises `StoreError`."""
        leases = self._leases(limits.store_lease_s / 4)
        from .client import ClusterClient
        from .membership import Membership
        from .postgres.commands import PostgresCommands, PostgresListener

        membership = Membership(leases, process, limits.store_lease_s, end)
        listen = partial(PostgresListener, self)
        return membership, ClusterClient(PostgresCommands(self), listen, membership)

    def reach(self) -> None:
        """Check that the database can be reached. Raises `StoreError`."""
        with _psycopg():
            from .postgres.connection import connect
        connect(self, writes=True).close()

    def is_away(self, error: StoreError) -> bool:
        """True if the error says that the database cannot be reached now."""
        cause = error.__cause__
        if not isinstance(cause, Exception) or not type(cause).__module__.startswith("psycopg"):
            return False
        from .postgres.connection import is_away

        return is_away(cause)

    def nodes(self) -> list[NodeEntry]:
        """Return the processes that share the store and are alive. Raises `StoreError`."""
        with contextlib.closing(self._leases()) as leases:
            return leases.nodes()

    def drain(self, name: str) -> int:
        """Have the processes of that name own no sessions any more. Returns their number. Raises
        `StoreError`."""
        with contextlib.closing(self._leases()) as leases:
            return leases.drain(name)

    def _leases(self, reply_timeout_s: float | None = None) -> PostgresLeases:
        with _psycopg():
            from .postgres.leases import PostgresLeases
        return PostgresLeases(self, reply_timeout_s)


def parse(said: str) -> PostgresServer:
    """Parse a PostgreSQL URL. Raises `ValueError`, with a message that quotes none of it: the
    bounds of a password are not certain in an invalid URL."""
    return PostgresServer(*parsed(said))


@contextlib.contextmanager
def _psycopg() -> Iterator[None]:
    """Turn a missing library into a `StoreError` that names the package to install."""
    try:
        yield
    except ImportError as error:
        raise StoreError(
            f"a store in PostgreSQL needs psycopg ({error}): pip install 'agentrt[postgres]'"
        ) from error
