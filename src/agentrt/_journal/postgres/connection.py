"""A connection to a database, and what its errors say.

psycopg's own asynchronous connections are of asyncio alone, and a store has a thread that writes
and another one that reads anyway: there the synchronous ones cost less.
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

from ..._errors import StoreError
from ..address import Server
from . import schema

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds that a database may take to answer, or to let a connection in."""

AT_LENGTH: Final = 600.0
"""The same of what is a lot of work: a new version's schema, a long session that is deleted."""

LOCK: Final = 0x61677274
"""The first half of the number of the lock that says who writes a store; the other half is of its
schema's name."""

_OLDEST = 140000  # of PostgreSQL


class Connection(Psycopg[tuple[Any, ...]]):
    """Each statement is a transaction of its own, unless a block says otherwise. One that is not
    answered in time breaks the connection: what became of it has to be looked up."""

    patience = PATIENCE
    _repeated: dict[bytes, bytes]
    """The names of the statements that are prepared."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        limit = self.patience if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise errors.OperationalError(
                f"the database has not answered within {limit:g} s"
            ) from None

    def rows(self, statement: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self.cursor(binary=True) as cursor:
            cursor.execute(statement.encode(), args or None)
            return cursor.fetchall() if cursor.description is not None else []

    def repeat(self, statement: bytes, params: Sequence[bytes | None]) -> None:
        """Execute what is executed all the time, with parameters as they are sent. What psycopg
        finds out about a statement and its arguments takes more CPU than all else of it."""
        name = self._repeated.get(statement)
        if name is None:
            name = b"agentrt_%d" % len(self._repeated)
            self.pgconn.send_prepare(name, statement)
            self._finish()
            self._repeated[statement] = name
        self.pgconn.send_query_prepared(name, params, [pq.Format.BINARY] * len(params))
        self._finish()

    def _finish(self) -> None:
        for result in self.wait(generators.execute(self.pgconn)):
            if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                raise errors.error_from_result(result)

    def change(self, statement: str, args: Sequence[object] = ()) -> int:
        """Execute, and return how many rows it changed."""
        with self.cursor() as cursor:
            cursor.execute(statement.encode(), args or None)
            return cursor.rowcount

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """For a lot of work at once."""
        self.rows("SELECT set_config('statement_timeout', '0', false)")
        self.patience = AT_LENGTH
        try:
            yield
        finally:
            del self.patience
            if not self.closed:
                self.rows("SELECT set_config('statement_timeout', %s, false)", [_timeout()])


def connect(server: Server, *, writes: bool) -> Connection:
    """A connection; what the URL does not say, libpq takes from its environment (`PGHOST`,
    `PGPASSWORD`, a service or a password file). Raises `StoreError`."""
    defaults: dict[str, Any] = {
        "connect_timeout": int(PATIENCE),
        # Who it is that has a lock: `agentrt MACHINE PROCESS`.
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
        except psycopg.ProgrammingError:  # whose message may have a piece of a password
            raise StoreError(f"{server}: libpq cannot read the URL") from None
        connection: Connection = Connection.connect(**{**defaults, **said}, autocommit=True)
        try:
            _prepare(connection, server)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: Connection, server: Server) -> None:
    if connection.info.server_version < _OLDEST:
        version = connection.info.server_version // 10000
        raise StoreError(f"{server} is PostgreSQL {version}, and the oldest that will do is 14")
    connection._repeated = {}
    # Of one kind, so that one prepared statement does for numbers of any size.
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    name = sql.Identifier(server.schema).as_string(connection)
    connection.rows(
        "SELECT set_config('search_path', %s, false), set_config('statement_timeout', %s, false),"
        " set_config('lock_timeout', %s, false), set_config('tcp_keepalives_idle', '10', false),"
        " set_config('tcp_keepalives_interval', '3', false),"
        " set_config('tcp_keepalives_count', '3', false)",
        (name, _timeout(), f"{PATIENCE / 2 * 1000:.0f}"),
    )
    # What is acknowledged is on its disk. A server that waits for even more (`remote_apply`) does.
    connection.rows(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )


def _timeout() -> str:
    """Milliseconds after which the server itself gives up a statement that nobody waits for."""
    return f"{PATIENCE * 1000:.0f}"


def versions(connection: Connection) -> tuple[int, int]:
    """Of the schema, and the oldest that may use it; 0: there is none."""
    if connection.rows("SELECT to_regclass('meta')") == [(None,)]:
        return 0, 0
    meta = dict(connection.rows("SELECT key, value FROM meta WHERE key IN ('schema', 'least')"))
    return int(meta.get("schema", 0)), int(meta.get("least", 0))


def is_newer(versions: tuple[int, int]) -> bool:
    """Whether this program cannot use such a schema."""
    return versions[1] > len(schema.MIGRATIONS)


def newer(server: Server, version: int) -> StoreError:
    return StoreError(
        f"{server} was written by a newer agentrt (its schema is {version}, and"
        f" {len(schema.MIGRATIONS)} the newest that is known here)"
    )


@contextlib.contextmanager
def database_errors(server: Server) -> Iterator[None]:
    """Raise what psycopg says in the block as `StoreError`."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise StoreError(f"{server} cannot be used: {one_line(error)}") from error


def is_away(error: Exception) -> bool:
    """Whether there may be an answer soon: nobody listens there, the server is just being started
    or has no place left, or it is a standby. Else it has refused what it was asked, or libpq cannot
    ask it with these settings."""
    if isinstance(error, _PASSING_ERRORS):
        return True  # also in a language that is not known here
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    said = one_line(error)
    if isinstance(error, psycopg.InterfaceError):
        return "connection" in said  # it was closed in the middle of the beginning
    if any(words in said for words in _SETTINGS):
        return False
    return "FATAL:" not in said or any(words in said for words in _PASSING)


_PASSING = (
    *("starting up", "shutting down", "recovery", "too many clients", "connection slots"),
    *("terminating connection", "not accepting connections", "not yet accepting connections"),
)
"""Texts of FATAL errors that pass. (Of one that refuses a connection, libpq gives no code.)"""

_PASSING_ERRORS = (
    *(errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow),
    *(errors.TooManyConnections, errors.ReadOnlySqlTransaction),
)

_SETTINGS = (
    *("no password supplied", "authentication method requirement", "channel binding required"),
    *("certificate", "private key", "does not support SSL", "GSSAPI encryption required"),
    *("invalid ", "definition of service"),
)
"""What libpq says of settings with which it never gets in."""


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def is_lost(error: Exception) -> bool:
    """Whether the connection is gone, so that it is not sure what became of a statement."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
