"""A connection to a database, and the interpretation of its errors.

psycopg's asynchronous connections work with asyncio only. A store has one thread that writes and
one that reads anyway, where synchronous connections cost less.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection as Psycopg
from psycopg import conninfo, errors, generators, pq, sql
from psycopg.abc import PQGen
from psycopg.types.numeric import Int8BinaryDumper

from ...errors import StoreError
from ..address import PostgresAddress
from . import schema

T = TypeVar("T")

REPLY_TIMEOUT_S: Final = 10.0
"""Seconds that a database may take to answer, or to accept a connection."""

LONG_REPLY_TIMEOUT_S: Final = 600.0
"""Timeout in seconds for long operations: migrating the schema, deleting a long session."""

WRITER_LOCK_KEY: Final = 0x61677274
"""The first half of the number of the lock that a store's writer holds; the other half is derived
from the name of its schema."""

_OLDEST_SERVER_VERSION = 140000  # the oldest supported version of PostgreSQL


class PostgresConnection(Psycopg[tuple[Any, ...]]):
    """Each statement is its own transaction, except in a `transaction` block. A statement that is
    not answered in time breaks the connection: its outcome must be queried later."""

    reply_timeout_s = REPLY_TIMEOUT_S
    _repeated: dict[bytes, bytes]
    """The names of the prepared statements."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for the server.

        After `timeout` seconds, by default `reply_timeout_s`, the connection is closed, and
        `OperationalError` is raised.
        """
        limit = self.reply_timeout_s if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise errors.OperationalError(
                f"the database has not answered within {limit:g} s"
            ) from None

    def rows(self, statement: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement, and return its rows."""
        with self.cursor(binary=True) as cursor:
            cursor.execute(statement.encode(), args or None)
            return cursor.fetchall() if cursor.description is not None else []

    def repeat(self, statement: bytes, params: Sequence[bytes | None]) -> None:
        """Execute a frequent statement, with parameters in PostgreSQL's binary format. The analysis
        of statements and arguments by psycopg takes more CPU than all the rest."""
        name = self._repeated.get(statement)
        if name is None:
            name = b"agentrt_%d" % len(self._repeated)
            self.pgconn.send_prepare(name, statement)
            self._finish()
            self._repeated[statement] = name
        self.pgconn.send_query_prepared(name, params, [pq.Format.BINARY] * len(params))
        self._finish()

    def _finish(self) -> None:
        """Wait for the results of a statement. Raises psycopg's error for one that failed."""
        for result in self.wait(generators.execute(self.pgconn)):
            if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                raise errors.error_from_result(result)

    def change(self, statement: str, args: Sequence[object] = ()) -> int:
        """Execute a statement, and return the number of rows that it changed."""
        with self.cursor() as cursor:
            cursor.execute(statement.encode(), args or None)
            return cursor.rowcount

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """Extend the time limits for long operations in the block."""
        self.rows("SELECT set_config('statement_timeout', '0', false)")
        self.reply_timeout_s = LONG_REPLY_TIMEOUT_S
        try:
            yield
        finally:
            del self.reply_timeout_s
            if not self.closed:
                self.rows("SELECT set_config('statement_timeout', %s, false)", [_timeout()])


def connect(server: PostgresAddress, *, writes: bool) -> PostgresConnection:
    """Connect to a server. Parameters that the URL leaves out are taken from libpq's environment
    (`PGHOST`, `PGPASSWORD`, a service or a password file). Raises `StoreError`."""
    defaults: dict[str, Any] = {
        "connect_timeout": int(REPLY_TIMEOUT_S),
        # Identifies the holder of a lock: `agentrt MACHINE PROCESS`.
        "application_name": f"agentrt {socket.gethostname()} {os.getpid()}"[:63],
        "client_encoding": "UTF8",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
    }
    if writes:
        defaults["target_session_attrs"] = "read-write"
    with database_errors(server):
        try:
            said = conninfo.conninfo_to_dict(server.conninfo)
        except psycopg.ProgrammingError:  # its message may contain part of a password
            raise StoreError(f"{server}: libpq cannot read the URL") from None
        connection: PostgresConnection = PostgresConnection.connect(
            **{**defaults, **said}, autocommit=True
        )
        try:
            _prepare(connection, server)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: PostgresConnection, server: PostgresAddress) -> None:
    """Check the version of the server, and set up a new connection.

    A lock is waited for at most half as long as a reply. Commits are
    synchronous, because acknowledged events must survive a crash of the database. Raises
    `StoreError`.
    """
    if connection.info.server_version < _OLDEST_SERVER_VERSION:
        version = connection.info.server_version // 10000
        raise StoreError(
            f"{server} is PostgreSQL {version}, and the oldest supported version is 14"
        )
    connection._repeated = {}
    # One type for all integers, so that one prepared statement fits numbers of any size.
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    name = sql.Identifier(server.schema).as_string(connection)
    connection.rows(
        "SELECT set_config('search_path', %s, false), set_config('statement_timeout', %s, false),"
        " set_config('lock_timeout', %s, false), set_config('tcp_keepalives_idle', '10', false),"
        " set_config('tcp_keepalives_interval', '3', false),"
        " set_config('tcp_keepalives_count', '3', false)",
        (name, _timeout(), f"{REPLY_TIMEOUT_S / 2 * 1000:.0f}"),
    )
    # Acknowledged data is on the server's disk. Stricter settings (`remote_apply`) are kept.
    connection.rows(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )


def _timeout() -> str:
    """Return the milliseconds after which the server aborts a statement whose client has given
    up."""
    return f"{REPLY_TIMEOUT_S * 1000:.0f}"


def versions(connection: PostgresConnection) -> tuple[int, int]:
    """Return the version of the schema and the oldest version that may use it; 0 without one."""
    if connection.rows("SELECT to_regclass('meta')") == [(None,)]:
        return 0, 0
    meta = dict(connection.rows("SELECT key, value FROM meta WHERE key IN ('schema', 'least')"))
    return int(meta.get("schema", 0)), int(meta.get("least", 0))


def is_newer(versions: tuple[int, int]) -> bool:
    """True if this program cannot use a schema of these versions."""
    return versions[1] > len(schema.MIGRATIONS)


def newer(server: PostgresAddress, version: int) -> StoreError:
    """Return the error for a schema of a newer version."""
    return StoreError(
        f"{server} was written by a newer agentrt (its schema is {version}, and"
        f" {len(schema.MIGRATIONS)} the newest that is known here)"
    )


@contextlib.contextmanager
def database_errors(server: PostgresAddress) -> Iterator[None]:
    """Raise errors of psycopg in the block as `StoreError`."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise StoreError(f"{server} cannot be used: {one_line(error)}") from error


def is_away(error: Exception) -> bool:
    """True if the database may answer soon: no server listens, it is just starting or has no free
    connections, or it is a standby. False if it has refused the request, or if libpq cannot connect
    with these settings."""
    if isinstance(error, _PASSING_ERRORS):
        return True  # independent of the language of the message
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    said = one_line(error)
    if isinstance(error, psycopg.InterfaceError):
        return "connection" in said  # it was closed while being opened
    if any(words in said for words in _SETTINGS):
        return False
    return "FATAL:" not in said or any(words in said for words in _PASSING)


_PASSING = (
    "starting up",
    "shutting down",
    "recovery",
    "too many clients",
    "connection slots",
    "terminating connection",
    "not accepting connections",
    "not yet accepting connections",
)
"""Texts of temporary FATAL errors. (libpq gives no code for an error that refuses a connection.)"""

_PASSING_ERRORS = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ReadOnlySqlTransaction,
)

_SETTINGS = (
    "no password supplied",
    "authentication method requirement",
    "channel binding required",
    "certificate",
    "private key",
    "does not support SSL",
    "GSSAPI encryption required",
    "invalid ",
    "definition of service",
)
"""Texts of libpq about settings that can never work."""


def one_line(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())


def is_lost(error: Exception) -> bool:
    """True if the connection is gone, so that the outcome of a statement is unknown."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
