"""The writer of a store in PostgreSQL: one process, or several that have leases, write at a time,
and any process may read.

A lock held by the writer's connection marks the store as used by one process alone; processes with
leases share the lock. The lock ends with the connection, so the server detects that a process is
gone. A process whose connection was cut may believe that it still writes: each flush therefore
names the owner of each of its sessions, the next event and the lease, and is accepted as a whole or
not at all.

A session has a row with its owner's lease (`node`), the number of times that it was claimed
(`owner`) and the number of its next event (`next`). Its events are stored twice: first as *frames*,
in the order of the flushes, and later as *records*, each of which has some turns and their items,
together with the *head*, the state that the records do not contain. Frames up to the head are
useless then, and are deleted with the partition of their hour, which is cheap; the few that
are still needed move to another partition (`_drop`).

All methods block and run in the writer's thread. `_once_more` repeats a statement after a lost
connection, so each must be harmless if it is carried out twice. `commit` cannot be repeated
blindly: after a lost connection, `_settled` compares the flush with the stored sessions first.

There are two locks. One marks the store as in use; it ends with the connection, and is exclusive or
shared as described above. The other one is for the transactions that create or migrate tables
(`_alone`).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql

from ..._public import Limits
from ...errors import SessionElsewhere, StoreError, StoreInUse, StoreUnavailable
from ...lowlevel import Fenced, Flush, FlushPart, SessionClaim, Unusable
from ...storage import (
    PROMPTED,
    ImportingBackend,
    Packed,
    clean,
    decode_record,
    encode,
    quota_reached,
    text_of,
)
from ...store import SessionDescription
from ..address import PostgresAddress
from . import schema
from .connection import (
    WRITER_LOCK_KEY,
    PostgresConnection,
    connect,
    database_errors,
    is_lost,
    is_newer,
    newer,
)
from .connection import versions as versions_of
from .reader import PostgresReader
from .statements import ALIVE, COPIED, COPY, statement
from .words import vector

T = TypeVar("T")

_UNPROMPTED_KEPT_S = 7 * 24 * 3600.0  # seconds for which a session that was never prompted is kept
_HOUR_S = 3600
_HOURS_AHEAD = 2  # hours whose partitions are created before they begin
_DEAD_NODE_KEPT_S = 3600.0  # seconds for which the row of a process that is gone is kept
_MIN_FLUSH_INTERVAL_S = 0.005  # minimum seconds between flushes, also if a task waits for one
_LOCK_RETRY_S = 0.05  # seconds between two attempts to take a lock

_PACKED_COLUMNS = (
    "agent, cwd, title, prompt, phase, turns, tenant, created, updated, about, head, head_seq"
)


_HOLDERS = (
    "SELECT l.pid::bigint, backend_start::text, application_name, client_addr::text"
    " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid=l.pid"
    " WHERE locktype='advisory' AND classid=%s::bigint::oid"
    " AND objid::bigint=hashtext(%s)::bigint & 4294967295 AND l.granted"
    " AND l.database=(SELECT oid FROM pg_database WHERE datname=current_database())"
)
"""SQL: the holders of an advisory lock."""

_LOCK_ATTEMPTS = 5
"""Number of attempts to take a lock that was taken, and then had no holder."""


class PostgresBackend(ImportingBackend):
    """The writer of a store in a schema of a database."""

    def __init__(
        self,
        server: PostgresAddress,
        home: str | None = None,
        gather_s: float = Limits().store_gather_s,
        *,
        lease: Callable[[], int | None] | None = None,
        tenant_quotas: Mapping[str, int | None] = {},
    ) -> None:
        """Set up the writer of a store.

        - `home`: the home of this process, if it shares the store with others; `lease` then returns
          the lease that it has now, or None, and is called in the writer's thread.
        - `gather_s`: seconds between flushes.
        - `tenant_quotas`: maximum number of open sessions per tenant. It may change later.
        """
        # Many small flushes cost a server more than a file, and it serves other processes, too.
        self.gather_s = gather_s
        self.min_interval_s = min(_MIN_FLUSH_INTERVAL_S, gather_s)
        self.server = server
        self._lease = lease
        self._tenant_quotas = tenant_quotas
        self.takeovers = 0
        self._home = home
        self._connection: PostgresConnection | None = None
        self._last: tuple[int, str] | None = None
        """The server's process of the last connection, and its start."""
        self._generation = 0
        self._doubtful = False
        """True if the last commit may have succeeded, although it seemed to fail."""

    def __str__(self) -> str:
        return str(self.server)

    def reader(self) -> PostgresReader:
        """Return a reader that connects only to a server that accepts writes: a standby may lack
        the newest events.
        """
        return PostgresReader(self.server, writes=True)

    # --- the connection

    def open(self, timeout_s: float = 0) -> None:
        """Connect, and take the lock. `timeout_s`: seconds to wait for another process that writes
        the store."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._connected()
            except StoreInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCK_RETRY_S)
            else:
                return

    def _connected(self) -> PostgresConnection:
        """Return the connection; after a lost one, a new connection that has the lock again.

        Raises `StoreError`, also if the lock was taken by another process in the meantime.
        """
        if self._connection is None or self._connection.closed:
            self.close()
            connection = connect(self.server, writes=True)
            # After a rollback psycopg drops the statements that it prepared, with all others.
            connection.prepare_threshold = None
            try:
                with database_errors(self.server):
                    self._begin(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: PostgresConnection) -> None:
        """Prepare a new connection: create the schema, take the lock, migrate, and make partitions.

        The process of the server and its start are noted, so that the next connection can tell a
        lock of this backend's lost connection from another process's.
        """
        with self._alone(connection):
            self._make_schema(connection)
        self._take_lock(connection)
        [(pid, since)] = connection.rows(
            "SELECT pid::bigint, backend_start::text FROM pg_stat_activity"
            " WHERE pid=pg_backend_pid()"
        )
        self._last = pid, since
        with connection.unhurried(), self._alone(connection):
            self._migrate(connection)
            self._begin_generation(connection)
        self._make_partitions(connection)

    @contextlib.contextmanager
    def _alone(self, connection: PostgresConnection) -> Iterator[None]:
        """Open a transaction during which no other process changes the schema."""
        with connection.transaction():
            key = (WRITER_LOCK_KEY + 1, self.server.schema)
            connection.rows("SELECT pg_advisory_xact_lock(%s::int, hashtext(%s))", key)
            yield

    def _make_schema(self, connection: PostgresConnection) -> None:
        """Create the schema if it is missing. A user without the right to create one can use an
        existing one.
        """
        name = self.server.schema
        known = "SELECT 1 FROM pg_namespace WHERE nspname=%s"
        if not connection.rows(known, [name]):
            quoted = sql.Identifier(name).as_string(connection)
            connection.rows(f"CREATE SCHEMA IF NOT EXISTS {quoted}")

    def _take_lock(self, connection: PostgresConnection) -> None:
        """Take the lock of the writer, or share it with the other servers of a cluster.

        Raises `StoreInUse` with the process that holds it, and `Unusable` if this backend had the
        lock and lost it to another process. If the holder is this backend's own lost connection,
        the database is asked to end that one, and the caller tries again.
        """
        key = (WRITER_LOCK_KEY, self.server.schema)
        take = "pg_try_advisory_lock" if self._home is None else "pg_try_advisory_lock_shared"
        holders: list[tuple[Any, ...]] = []
        for _ in range(_LOCK_ATTEMPTS):
            if connection.rows(f"SELECT {take}(%s::int, hashtext(%s))", key) == [(True,)]:
                return
            holders = connection.rows(_HOLDERS, key)
            if holders:  # otherwise it has just become free
                break
        for pid, since, name, where in holders:
            if (pid, since) == self._last:
                # The server has not detected yet that this connection is lost.
                connection.rows("SELECT pg_terminate_backend(%s::int)", [pid])
                raise errors.OperationalError("the server still has the connection that was lost")
            words = (name or "").split()
            who = "another process"
            number = None
            if len(words) == 3 and words[0] == "agentrt":
                who = f"process {words[2]} of {words[1]}"
                if words[1] == socket.gethostname():
                    number = int(words[2]) if words[2].isdecimal() else None
            elif where:
                who = f"a process of {where}"
            if self._last is not None:
                raise Unusable(f"{self.server} is being written by {who} now")
            raise StoreInUse(f"{self.server} is being written by {who}", number)
        raise errors.OperationalError("the lock of the store is not free")

    def _migrate(self, connection: PostgresConnection) -> None:
        """Create the schema, or bring it to the newest version, in the caller's transaction.

        Raises `StoreError` if the schema is too new for this version, or belongs to another
        program.
        """
        found = versions_of(connection)
        if is_newer(found):
            raise newer(self.server, found[0])
        version = found[0]
        if not version:
            other = connection.rows(
                "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
                " AND relnamespace=quote_ident(current_schema())::regnamespace LIMIT 1"
            )
            if other:
                raise StoreError(f"{self.server} is not a store of agentrt: another schema is")
        if version >= len(schema.MIGRATIONS):
            return  # also a schema of a newer version that this one can still use
        for migration in schema.MIGRATIONS[version:]:
            connection.execute(migration.sql.encode(), prepare=False)
        newest = schema.MIGRATIONS[-1]
        self._set_meta(connection, schema=len(schema.MIGRATIONS), least=newest.least)

    def _begin_generation(self, connection: PostgresConnection) -> None:
        """Begin a new generation if the database is not the same as before (a standby took over, or
        a backup was restored): the last events may be lost, so viewers must not continue."""
        [(where,)] = connection.rows(
            "SELECT (SELECT oid FROM pg_database WHERE datname=current_database())::text || ' ' ||"
            " left(pg_walfile_name(pg_current_wal_lsn()), 8)"
        )
        meta = dict(connection.rows("SELECT key, value FROM meta"))
        self._generation = int(meta.get("generation", 0))
        if meta.get("database", where) != where:
            self._generation += 1
        if meta.get("database") != where:
            self._set_meta(connection, generation=self._generation, database=where)

    @staticmethod
    def _set_meta(connection: PostgresConnection, **values: object) -> None:
        """Store values that belong to the whole store, replacing earlier ones."""
        connection.rows(
            "INSERT INTO meta SELECT * FROM unnest(%s::text[], %s::text[])"
            " ON CONFLICT (key) DO UPDATE SET value=excluded.value",
            [list(values), [str(value) for value in values.values()]],
        )

    def close(self) -> None:
        """Release the locks and close the connection, so that the next process need not wait."""
        if self._connection is not None:
            if not self._connection.closed:
                # The server notices the end of a connection some time after it.
                with contextlib.suppress(errors.Error):
                    self._connection.rows("SELECT pg_advisory_unlock_all()")
            self._connection.close()
            self._connection = None

    # --- writing

    def commit(self, flush: Flush) -> None:
        """Store the events of several sessions in one transaction.

        After a lost connection it is unknown whether the last commit happened; the parts that are
        stored already are then left out. Raises `Fenced` with the sessions that another server has
        taken over.
        """
        try:
            if self._home is not None and flush.parts and self._current_lease() is None:
                raise Fenced([part.place for part in flush.parts])
            connection = self._connected()
            if self._doubtful:
                flush = self._settled(connection, flush)
                self._doubtful = False
            try:
                self._write(connection, flush)
            except errors.DivisionByZero:
                self._write(connection, self._settled(connection, flush))  # or raises `Fenced`
            except errors.CheckViolation:
                self._make_partitions(connection)  # the clock has advanced by hours
                self._write(connection, flush)
        except Exception as error:
            self._doubtful = self._doubtful or is_lost(error)
            raise

    def _write(self, connection: PostgresConnection, flush: Flush) -> None:
        """Write a flush in one statement; a large one copies its frames in the same transaction."""
        if not flush.parts and not flush.answers:
            return
        one = statement(flush, self._current_lease())
        if not one.frames:
            connection.repeat(one.text, one.params)
            return
        with connection.transaction():
            connection.repeat(one.text, one.params)
            with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                copy.set_types(COPIED)
                for frame in one.frames:
                    copy.write_row(frame)

    def _settled(self, connection: PostgresConnection, flush: Flush) -> Flush:
        """Return the part of a flush that is not committed yet. Raises `Fenced` for sessions that
        have another owner."""
        found = {
            num: (owner, next)
            for num, owner, next in connection.rows(
                "SELECT num, owner, next FROM session s WHERE num=ANY(%s::bigint[])"
                f" AND node IS NOT DISTINCT FROM %s::bigint AND (node IS NULL OR {ALIVE})",
                [[part.place.num for part in flush.parts], self._current_lease()],
            )
        }
        gone: list[SessionClaim] = []
        missing: list[FlushPart] = []
        for part in flush.parts:
            place, behind = part.place, part.first + len(part.events)
            owner, next = found.get(place.num, (0, 0))
            if (owner, next) == (place.owner, part.first):
                missing.append(part)
            elif (owner, next) != (place.owner, behind):
                gone.append(place)
        if gone:
            raise Fenced(gone)
        return Flush(missing, flush.fsync, flush.answers)

    def _once_more(self, job: Callable[[PostgresConnection], T]) -> T:
        """Run a job that may be repeated: a restart of the server is noticed only at the next
        statement."""
        connection = self._connected()
        try:
            return job(connection)
        except psycopg.Error as error:
            if not is_lost(error) or not connection.closed:
                raise
            return job(self._connected())

    def create(self, session: str, epoch: str, about: SessionDescription) -> SessionClaim:
        """Add a session, owned by this server.

        The statement can be repeated after a lost connection: a row with the same epoch and no
        events is the one that the first attempt made. With a quota for the tenant, its check and
        the insertion are one transaction.
        """

        def insert(connection: PostgresConnection) -> SessionClaim:
            """Insert the session, or find the row of an earlier attempt."""
            [(num,)] = connection.rows(
                "INSERT INTO session(id, epoch, generation, owner, next, agent, cwd, tenant, phase,"
                " created, updated, about, node, home)"
                " VALUES(%s, %s, %s, 1, 1, %s, %s, %s, 'starting', now(), now(), %s, %s, %s)"
                " ON CONFLICT (id) DO UPDATE SET node=excluded.node"
                " WHERE session.epoch=excluded.epoch AND session.next=1 RETURNING num",
                (
                    clean(session),
                    epoch,
                    self._generation,
                    clean(about.agent),
                    clean(about.cwd),
                    about.tenant,
                    encode(about),
                    self._lease_for_work(),
                    self._home or "",
                ),
            )
            return SessionClaim(num, 1)

        def job(connection: PostgresConnection) -> SessionClaim:
            """Insert the session, after checking the tenant's quota if there is one."""
            if self._tenant_quotas.get(about.tenant) is None:
                return insert(connection)
            with connection.transaction():
                self._check_quota(connection, session, about.tenant)
                return insert(connection)

        return self._once_more(job)

    def _check_quota(self, connection: PostgresConnection, session: str, tenant: str) -> None:
        """Check the number of open sessions of a tenant in the transaction that opens another one;
        transactions for the same tenant wait for its end. Raises `LimitExceeded`."""
        quota = self._tenant_quotas.get(tenant)
        if quota is None:
            return
        key = (WRITER_LOCK_KEY + 2, f"{self.server.schema} {tenant}")
        connection.rows(
            "SELECT set_config('lock_timeout', '1000', true)"
        )  # short, because all writes of this process wait
        connection.rows("SELECT pg_advisory_xact_lock(%s::int, hashtext(%s))", key)
        [(open,)] = connection.rows(
            "SELECT count(*) FROM session s"
            f" WHERE node IS NOT NULL AND tenant=%s AND id<>%s AND {ALIVE}",
            (tenant, clean(session)),
        )
        if open >= quota:
            raise quota_reached(tenant, open, quota)

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        """Claim a session; see `_claim`."""

        def job(connection: PostgresConnection) -> SessionClaim | None:
            with connection.transaction():
                return self._claim(connection, session, reads)

        return self._once_more(job)

    def _claim(
        self, connection: PostgresConnection, session: str, reads: bool
    ) -> SessionClaim | None:
        """Claim a session in a transaction, and return the claim; None if there is no such session.

        The row is locked first, then the lease of its owner: a renewal that is in progress is
        waited for, so a live server never loses a session. `reads`: the session is only read here,
        which every home may do. Raises `SessionElsewhere` if a server with a valid lease has it, or
        if it belongs to another home.
        """
        lease = self._lease_for_work()
        found = connection.rows(
            "SELECT num, node, home, tenant FROM session WHERE id=%s FOR UPDATE", [clean(session)]
        )
        if not found:
            return None
        [(num, node, home, tenant)] = found
        if node is not None and node != lease:
            # Waits for a renewal that is in progress.
            others = connection.rows(
                "SELECT name, host FROM node WHERE num=%s AND until>clock_timestamp() FOR UPDATE",
                [node],
            )
            for name, host in others:
                raise SessionElsewhere(
                    f"the session {session!r} is running on {name} (of {host})", name
                )
        if home and self._home not in (None, home) and not reads:
            raise SessionElsewhere(
                f"the session {session!r} can only be continued by a server of the home {home!r},"
                " which has its folder and its agent's own conversation"
            )
        if not reads:
            self._check_quota(connection, session, tenant)
        [(owner,)] = connection.rows(
            "UPDATE session SET owner=owner+1, node=%s WHERE num=%s RETURNING owner", (lease, num)
        )
        self.takeovers += node not in (None, lease)
        return SessionClaim(num, owner)

    def _current_lease(self) -> int | None:
        """Return the lease of this process, or None without one or if this process uses the store
        alone.
        """
        return None if self._lease is None else self._lease()

    def _lease_for_work(self) -> int | None:
        """Return the lease for new work. Raises `StoreUnavailable` if there is none."""
        lease = self._current_lease()
        if lease is None and self._home is not None:
            raise StoreUnavailable(f"{self.server} could not be reached for too long to claim more")
        return lease

    def release(self, place: SessionClaim) -> None:
        """Give up a session, so that another process can claim it. Without leases, closing is
        enough.
        """
        if self._home is not None:
            self._once_more(
                lambda connection: connection.change(
                    "UPDATE session SET node=NULL WHERE num=%s AND owner=%s",
                    (place.num, place.owner),
                )
            )

    def discard(self, place: SessionClaim) -> None:
        """Delete a session that this process owns. Nothing happens if another one has
        claimed it.
        """

        def job(connection: PostgresConnection) -> None:
            with connection.unhurried(), connection.transaction():
                for (session,) in connection.rows(
                    "SELECT id FROM session WHERE num=%s AND owner=%s FOR UPDATE",
                    (place.num, place.owner),
                ):
                    _forget(connection, session)

        self._once_more(job)

    def delete(self, session: str) -> bool:
        """Delete a session. Returns False if it does not exist.

        In a shared store it is claimed first, so a session that is open on another server is
        refused.
        """

        def job(connection: PostgresConnection) -> bool:
            with connection.unhurried(), connection.transaction():
                if self._home is not None:
                    self._claim(connection, session, reads=True)
                return _forget(connection, session)

        return self._once_more(job)

    def put(self, packed: Packed) -> None:
        """Import a session from another store, unless the stored one is newer."""

        def job(connection: PostgresConnection) -> None:
            with connection.unhurried(), connection.transaction():
                self._put(connection, packed)

        self._once_more(job)

    def _put(self, connection: PostgresConnection, packed: Packed) -> None:
        """Replace a session by a packed one, unless the stored state is newer.

        States are compared by owner and next event. Search texts are made again, because the text
        search of the two databases may differ.
        """
        epoch, owner, next, *row = packed.row
        known = connection.rows(
            "SELECT owner, next FROM session WHERE id=%s", [clean(packed.session)]
        )
        if known and known[0] > (owner, next):
            return
        _forget(connection, packed.session)
        row[2:4] = [None if text is None else clean(text) for text in row[2:4]]
        [(num,)] = connection.rows(
            f"INSERT INTO session(id, generation, epoch, owner, next, {_PACKED_COLUMNS})"
            " VALUES(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,"
            " to_timestamp(%s), to_timestamp(%s), %s, %s, %s) RETURNING num",
            (clean(packed.session), self._generation, epoch, owner, next, *row),
        )
        for number, last, body in packed.records:
            said = text_of(decode_record(body))
            connection.rows(
                "INSERT INTO record VALUES(%s, %s, %s, %s, %s, %s::tsvector)",
                (num, number, last, body, said, vector(said)),
            )
        for first, last, by, _, body in packed.frames:
            connection.rows(
                "INSERT INTO frame(session, first, last, owner, body) VALUES(%s, %s, %s, %s, %s)",
                (num, first, last, by, body),
            )

    def name_chat(self, chat: str, session: str) -> None:
        """Bind a client's name to a session, replacing an earlier binding."""

        def job(connection: PostgresConnection) -> None:
            connection.rows(
                "INSERT INTO chat VALUES(%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET session=excluded.session",
                (clean(chat), clean(session)),
            )

        self._once_more(job)

    # --- removing old data

    def tidy(self, events: float, answers: float) -> None:
        """Delete what has become useless. Ages are in seconds.

        `events`: of events that a record stands for, at least a minute. `answers`: of answers to
        commands. Sessions without a prompt, dead servers, their commands and their watches
        are deleted after fixed times.
        """
        connection = self._connected()
        change = connection.change
        change("DELETE FROM answer WHERE at < now() - make_interval(secs => %s)", [answers])
        change(
            f"DELETE FROM session WHERE NOT {PROMPTED}"
            " AND updated < now() - make_interval(secs => %s)",
            [_UNPROMPTED_KEPT_S],
        )
        change(
            "DELETE FROM node WHERE until < now() - make_interval(secs => %s)", [_DEAD_NODE_KEPT_S]
        )
        change(
            "DELETE FROM command WHERE at < now() - make_interval(secs => %s)", [_DEAD_NODE_KEPT_S]
        )
        change("DELETE FROM watch w WHERE NOT EXISTS (SELECT FROM node WHERE num=w.node)")
        self._make_partitions(connection)
        for hour in self._hours(connection):
            if (hour + 1) * _HOUR_S < self._now(connection) - max(events, 60.0):
                self._drop(connection, hour)
        change(
            f"DELETE FROM {schema.KEPT_PARTITION} f WHERE NOT EXISTS"
            " (SELECT 1 FROM session WHERE num=f.session AND f.last>head_seq)"
        )

    @staticmethod
    def _now(connection: PostgresConnection) -> float:
        """Return the time by the database's clock, in seconds since the epoch: the partitions'
        clock.
        """
        [(now,)] = connection.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now)

    @staticmethod
    def _hours(connection: PostgresConnection) -> list[int]:
        """Return the hours that have a partition."""
        names = connection.rows(
            "SELECT relname::text FROM pg_inherits JOIN pg_class ON oid=inhrelid"
            " WHERE inhparent='frame'::regclass"
        )
        return sorted(hour for (name,) in names if (hour := schema.hour_of(name)) is not None)

    def _make_partitions(self, connection: PostgresConnection) -> None:
        """Create the partitions of this hour and the next ones. They are created apart from the
        table and then attached, which blocks neither readers nor writers."""
        now = int(self._now(connection) // _HOUR_S)
        hours = set(range(now, now + _HOURS_AHEAD + 1))
        if hours.issubset(self._hours(connection)):
            return
        with self._alone(connection):
            self._make_hours(connection, sorted(hours.difference(self._hours(connection))))

    @staticmethod
    def _make_hours(connection: PostgresConnection, hours: Sequence[int]) -> None:
        """Create a partition for each hour. The remains of a failed attempt are dropped first."""
        for hour in hours:
            name = schema.partition(hour)
            begin, end = (f"to_timestamp({each * _HOUR_S})" for each in (hour, hour + 1))
            connection.rows(f"DROP TABLE IF EXISTS {name}")  # from an attempt that failed
            connection.rows(f"CREATE TABLE {name} (LIKE frame INCLUDING ALL)")
            connection.rows(
                f"ALTER TABLE frame ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})"
            )

    @staticmethod
    def _drop(connection: PostgresConnection, hour: int) -> None:
        """Drop a partition. Frames that no head replaces yet are kept: those of a turn that lasts
        for hours, or whose process died. If a long read of the table blocks this, it is retried a
        minute later."""
        name = schema.partition(hour)
        with contextlib.suppress(errors.LockNotAvailable), connection.transaction():
            connection.rows("SELECT set_config('lock_timeout', '200', true)")
            connection.rows("LOCK TABLE frame")
            if connection.rows("SELECT to_regclass(%s)", [name]) == [(None,)]:
                return  # another process has dropped it
            connection.rows(
                "INSERT INTO frame(session, first, last, owner, at, body)"
                " SELECT session, first, last, f.owner, '-infinity', body"
                f" FROM {name} f JOIN session ON num=f.session WHERE last>head_seq"
            )
            connection.rows(f"DROP TABLE {name}")


def _forget(connection: PostgresConnection, session: str) -> bool:
    """Delete a session with its frames, records and chats. Returns False if it does not exist.

    The tables have no foreign keys, so each of them is cleared here.
    """
    found = connection.rows("DELETE FROM session WHERE id=%s RETURNING num", [clean(session)])
    for (num,) in found:
        for table in ("frame", "record"):
            connection.rows(f"DELETE FROM {table} WHERE session=%s", [num])
        connection.rows("DELETE FROM chat WHERE session=%s", [clean(session)])
    return bool(found)


@contextlib.contextmanager
def writing(server: PostgresAddress) -> Iterator[PostgresBackend]:
    """Open a store for changes in the block. Raises `StoreError`."""
    backend = PostgresBackend(server)
    try:
        backend.open()
        with database_errors(server):
            yield backend
    finally:
        backend.close()
