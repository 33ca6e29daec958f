"""The leases of the processes that share a store, on a separate connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...errors import StoreError
from ...store import NodeEntry, StoreProcess
from ..address import PostgresAddress
from .connection import PostgresConnection, connect, database_errors, is_lost, is_newer, newer
from .connection import versions as versions_of
from .statements import ALIVE

T = TypeVar("T")


class PostgresLeases:
    """The `Leases` in PostgreSQL. Used from one thread at a time. Its methods raise
    `StoreError`."""

    def __init__(self, server: PostgresAddress, reply_timeout_s: float | None = None) -> None:
        """`reply_timeout_s`: seconds that the database may take to answer."""
        self._server = server
        self._reply_timeout_s = reply_timeout_s
        self._connection: PostgresConnection | None = None

    def join(self, process: StoreProcess, length: float) -> int:
        """Request a lease; return its number."""
        p = process
        [(num,)] = self._do(
            lambda each: each.rows(
                "INSERT INTO node(name, host, pid, role, home, version, until) VALUES(%s, %s, %s,"
                " %s, %s, %s, clock_timestamp()+make_interval(secs => %s)) RETURNING num",
                (p.name, p.host, p.pid, p.role, p.home, p.version, length),
            )
        )
        return int(num)

    def renew(self, num: int, length: float, load: bytes) -> bool | None:
        """Renew a lease. Returns true if its process should drain; None if the lease is over, which
        is final."""
        found = self._do(
            lambda each: each.rows(
                "UPDATE node SET until=clock_timestamp()+make_interval(secs => %s), load=%s"
                " WHERE num=%s AND until>clock_timestamp() RETURNING draining",
                (length, load, num),
            )
        )
        return bool(found[0][0]) if found else None

    def leave(self, num: int) -> None:
        """Give a lease back, and release all sessions owned under it."""

        def job(connection: PostgresConnection) -> None:
            """Delete the lease, release its sessions and end its subscriptions, all or nothing."""
            with connection.transaction():
                connection.rows("DELETE FROM node WHERE num=%s", [num])
                connection.rows("UPDATE session SET node=NULL WHERE node=%s", [num])
                connection.rows("DELETE FROM watch WHERE node=%s", [num])

        self._do(job)

    def nodes(self) -> list[NodeEntry]:
        """Return the processes that are alive, in the order of their start."""
        rows = self._do(
            lambda each: each.rows(
                "SELECT num, name, host, pid, role, home, version,"
                " extract(epoch FROM since)::float8,"
                " extract(epoch FROM until-clock_timestamp())::float8, draining, load,"
                " (SELECT count(*) FROM session s WHERE s.node=n.num)"
                " FROM node n WHERE until>clock_timestamp() ORDER BY num"
            )
        )
        return [NodeEntry(*row) for row in rows]

    def drain(self, name: str, *, drain: bool = True) -> int:
        """Set whether the processes with that name should drain; returns their number."""
        return self._do(
            lambda each: each.change(
                "UPDATE node SET draining=%s WHERE name=%s AND until>clock_timestamp()",
                (drain, name),
            )
        )

    def left(self, limit: int) -> list[str]:
        """Return some sessions that were not released by owners that are gone."""
        rows = self._do(
            lambda each: each.rows(
                f"SELECT id FROM session s WHERE node IS NOT NULL AND NOT {ALIVE}"
                " ORDER BY random() LIMIT %s",
                [limit],
            )
        )
        return [id for (id,) in rows]

    def release(self, session: str) -> None:
        """Release a session of an owner that is gone."""
        self._do(
            lambda each: each.change(
                f"UPDATE session s SET node=NULL WHERE id=%s AND node IS NOT NULL AND NOT {ALIVE}",
                [session],
            )
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, job: Callable[[PostgresConnection], T]) -> T:
        """Run a job on the connection, and once more on a new one if it was lost.

        The jobs may be repeated: a lease that is renewed twice lasts a moment longer, and one that
        was requested twice ends by itself.
        """
        with database_errors(self._server):
            if self._connection is None or self._connection.closed:
                self._connection = self._connected()
                return job(self._connection)
            try:
                return job(self._connection)
            except Exception as error:
                if not is_lost(error) or not self._connection.closed:
                    raise
            self._connection = self._connected()
            return job(self._connection)

    def _connected(self) -> PostgresConnection:
        """Connect to a store that has leases. Raises `StoreError` if it is missing, of a newer
        version, or was never shared.
        """
        connection = connect(self._server, writes=True)
        try:
            found = versions_of(connection)
            if not found[0]:
                raise StoreError(f"{self._server} does not contain a store")
            if is_newer(found):
                raise newer(self._server, found[0])
            if found[0] < 2:
                raise StoreError(f"{self._server} has never been shared by several processes")
        except BaseException:
            connection.close()
            raise
        if self._reply_timeout_s is not None:
            connection.reply_timeout_s = self._reply_timeout_s
        return connection
