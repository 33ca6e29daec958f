"""The reader of a store in PostgreSQL, for use alongside its writer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from psycopg import IsolationLevel

from ...errors import StoreError
from ...events import Event, TurnStarted
from ...storage import (
    PROMPTED,
    Outdated,
    QueryWord,
    ReportingReader,
    StoreReport,
    clean,
    decode_about,
    decode_events,
    decode_head,
    decode_record,
    encode,
    entry_of,
    excerpt,
    words_of,
)
from ...store import (
    CommandAnswer,
    LoadedSession,
    Record,
    SessionQuery,
    StoredHistory,
    StoreEntry,
    StoreHit,
)
from ..address import PostgresAddress
from . import schema
from .connection import PostgresConnection, connect, database_errors, is_lost, is_newer, newer
from .connection import versions as versions_of
from .words import query as query_of

T = TypeVar("T")

_MAX_FOUND = 10  # maximum number of sessions found by a prefix: more are not needed for a choice

COLUMNS: Final = (
    "id, agent, cwd, title, prompt, turns, extract(epoch FROM created)::float8,"
    " extract(epoch FROM updated)::float8, about, num"
)
"""The columns of a session, in the order of `entry_of`."""

_ENTRIES = f"SELECT {COLUMNS} FROM session"


class PostgresReader(ReportingReader):
    """A reader of a store in PostgreSQL."""

    def __init__(self, server: PostgresAddress, *, writes: bool = False) -> None:
        """`writes`: connect only to a server that accepts writes."""
        self._server = server
        self._writes = writes
        self._connection: PostgresConnection | None = None
        self._reading(lambda connection: None)

    def _reading(self, read: Callable[[PostgresConnection], T]) -> T:
        """Read a consistent snapshot. A connection that was lost is reopened."""
        with database_errors(self._server):
            connection = self._connection
            if connection is not None:
                try:
                    return _at_once(connection, read)
                except Exception as error:
                    if not is_lost(error) or not connection.closed:
                        raise
            return _at_once(self._connected(), read)

    def _connected(self) -> PostgresConnection:
        """Return a new read-only connection; the previous one is closed.

        Each transaction sees one state of the database. Raises `StoreError` if the schema contains
        no store or a newer one, and `Outdated` if it has not been migrated.
        """
        self.close()
        connection = connect(self._server, writes=self._writes)
        try:
            found = versions_of(connection)
            if not found[0]:
                raise StoreError(f"{self._server} does not contain a store")
            if is_newer(found):
                raise newer(self._server, found[0])
            if found[0] < len(schema.MIGRATIONS):
                raise Outdated(
                    f"{self._server} was written by an older agentrt and is not migrated yet: open"
                    " it for writing once"
                )
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def sessions(self, query: SessionQuery) -> list[StoreEntry]:
        """Return the prompted sessions that match the query, the latest first.

        Pages continue after the position (`updated`, `id`) of the last entry, so a session that
        changes in between moves to the front and is not lost.
        """
        where, args = PROMPTED, list[Any]()
        if query.before is not None:
            where += ' AND (updated, id) < (to_timestamp(%s), %s COLLATE "C")'
            args += query.before
        if query.cwd is not None:
            where += " AND cwd=%s"
            args.append(clean(query.cwd))
        if query.agent is not None:
            where += " AND agent=%s"
            args.append(query.agent)
        args.append(query.limit)
        return self._reading(
            lambda connection: [
                entry_of(row)
                for row in connection.rows(
                    f"{_ENTRIES} WHERE {where} ORDER BY updated DESC, id DESC LIMIT %s", args
                )
            ]
        )

    def find(self, prefix: str) -> list[StoreEntry]:
        """Return sessions whose id starts with the prefix, at most a few.

        If there are none, those are returned for which the agent's own id starts with it.
        """
        prefix = clean(prefix)

        def read(connection: PostgresConnection) -> list[StoreEntry]:
            """Search by session id, then by the agent's own id, which is part of the stored
            description.
            """
            rows = connection.rows(
                f"{_ENTRIES} WHERE starts_with(id, %s) AND id>=%s ORDER BY id LIMIT {_MAX_FOUND}",
                (prefix, prefix),
            )
            if not rows and prefix:
                rows = connection.rows(
                    f"{_ENTRIES} WHERE position(%s IN about)>0 ORDER BY updated DESC"
                    f" LIMIT {_MAX_FOUND}",
                    [b'"agent_session":' + encode(prefix)[:-1]],
                )
            return [entry_of(row) for row in rows]

        return self._reading(read)

    def report(self) -> StoreReport:
        """Return facts about the store."""

        def read(connection: PostgresConnection) -> StoreReport:
            """Count the prompted sessions, and add up the sizes of the tables and their indexes."""
            [(sessions, size, version)] = connection.rows(
                f"SELECT (SELECT count(*) FROM session WHERE {PROMPTED}), (SELECT"
                " coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE"
                " relnamespace=quote_ident(current_schema())::regnamespace AND relkind='r'),"
                " current_setting('server_version')"
            )
            how = "encrypted" if connection.pgconn.ssl_in_use else "not encrypted"
            return StoreReport(
                path=str(self._server),
                database="PostgreSQL",
                facts=f"{version}, the connection is {how}",
                size=size,
                sessions=sessions,
            )

        return self._reading(read)

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[StoreHit]:
        """Return the sessions that contain all words, newest first.

        A word counts in a title as in the text of a turn. `tenant`: only sessions of this one.
        """
        wanted = words_of(words)
        if not wanted:
            return []
        where, args = PROMPTED, list[Any]()
        if tenant is not None:
            where += " AND tenant=%s"
            args.append(tenant)
        for word in wanted:
            condition, value = _condition(word)
            where += (
                f" AND (num IN (SELECT session FROM record WHERE {condition}) OR title ILIKE %s)"
            )
            args += (value, word.like)

        def read(connection: PostgresConnection) -> list[StoreHit]:
            """Run the query, and fetch an excerpt for each of the few sessions found."""
            rows = connection.rows(
                f"{_ENTRIES} WHERE {where} ORDER BY updated DESC, id DESC LIMIT %s", (*args, limit)
            )
            return [
                StoreHit(entry=entry_of(row), snippet=_snippet(connection, row[-1], wanted))
                for row in rows
            ]

        return self._reading(read)

    def load(self, session: str, last: int | None = None) -> LoadedSession | None:
        """Return a stored session; None if there is none.

        `last`: only that many records from the end are read, and `ahead` describes the rest. All
        statements see the same state, so a writer in between cannot tear it.
        """

        def read(connection: PostgresConnection) -> LoadedSession | None:
            """Read the session's row, its last records and the events after its head.

            The number of turns before those records is the total without the turns that were read.
            """
            found = connection.rows(
                "SELECT num, epoch, generation, next, extract(epoch FROM created)::float8, about,"
                " head, prompt, turns, (SELECT value FROM meta WHERE key='generation')"
                " FROM session WHERE id=%s",
                [clean(session)],
            )
            if not found:
                return None
            [(num, epoch, born, next, created, about, head, prompt, turns, generation)] = found
            records = _records(connection, num, None, last)
            behind = decode_head(head)
            events = [event for _, event in _events(connection, num, behind.seq)]
            ahead = None
            if last is not None and records and (left := records[0].number):
                turns -= sum(len(record.turns) for record in records)
                turns -= sum(isinstance(event, TurnStarted) for event in events)
                ahead = StoredHistory(left, turns, prompt)
            return LoadedSession(
                about=decode_about(about),
                epoch=epoch if int(generation) == born else f"{epoch}.{generation}",
                created=created,
                next=next,
                head=behind,
                records=records,
                ahead=ahead,
                events=events,
            )

        return self._reading(read)

    def chats(self) -> dict[str, str]:
        """Return the names that clients gave to sessions."""
        return dict(self._reading(lambda each: each.rows("SELECT name, session FROM chat")))

    def answers(self) -> list[CommandAnswer]:
        """Return the stored answers to commands, the oldest first."""
        rows = self._reading(
            lambda each: each.rows("SELECT client, id, digest, body FROM answer ORDER BY at")
        )
        return [CommandAnswer(*row) for row in rows]

    def answer(self, client: str, id: str) -> CommandAnswer | None:
        """Return the stored answer to one command, or None."""
        rows = self._reading(
            lambda each: each.rows(
                "SELECT client, id, digest, body FROM answer WHERE client=%s AND id=%s",
                (clean(client), clean(id)),
            )
        )
        return CommandAnswer(*rows[0]) if rows else None

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        """Return the kept events after a number, with their numbers; None if the session does not
        exist.
        """

        def read(connection: PostgresConnection) -> list[tuple[int, Event]] | None:
            num = _number(connection, session)
            return None if num is None else _events(connection, num, after)

        return self._reading(read)

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None:
        """Return records before a number (None: the last ones); None if the session does
        not exist.
        """

        def read(connection: PostgresConnection) -> list[Record] | None:
            num = _number(connection, session)
            return None if num is None else _records(connection, num, before, count)

        return self._reading(read)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _at_once(connection: PostgresConnection, read: Callable[[PostgresConnection], T]) -> T:
    """Run a read in one transaction, which sees one state of the database."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(connection.transaction())
        # Before the first query: dropping a partition in the meantime would remove data that
        # belongs to this snapshot.
        connection.rows("LOCK TABLE frame IN ACCESS SHARE MODE")
        return read(connection)


def _number(connection: PostgresConnection, session: str) -> int | None:
    """Return the number of a session, by which other tables refer to it, or None."""
    found = connection.rows("SELECT num FROM session WHERE id=%s", [clean(session)])
    return found[0][0] if found else None


def _records(
    connection: PostgresConnection, num: int, before: int | None, last: int | None
) -> list[Record]:
    """Return the last records, or the last ones before number `before`."""
    rows = connection.rows(
        "SELECT body FROM record WHERE session=%s AND number<coalesce(%s::bigint, 2::bigint^62)"
        " ORDER BY number DESC LIMIT %s",
        (num, before, last),
    )
    return [decode_record(body) for (body,) in reversed(rows)]


def _events(connection: PostgresConnection, num: int, after: int) -> list[tuple[int, Event]]:
    """Return the events after number `after` that are kept, with their numbers."""
    rows = connection.rows(
        "SELECT first, body FROM frame WHERE session=%s AND last>%s ORDER BY first", (num, after)
    )
    numbered = (each for first, body in rows for each in enumerate(decode_events(body), first))
    return [each for each in numbered if each[0] > after]


def _snippet(connection: PostgresConnection, num: int, words: Sequence[QueryWord]) -> str:
    """Return an excerpt of the record of a session that best matches the words."""
    found = []
    known = query_of(words, "|")
    if known is not None:
        found = connection.rows(
            "SELECT said FROM record, (SELECT %s::tsquery AS wanted) AS q WHERE session=%s"
            " AND words @@ wanted ORDER BY ts_rank(words, wanted) DESC, number LIMIT 1",
            (known, num),
        )
    for word in words:
        if not found and word.match is None:
            condition, value = _condition(word)
            found = connection.rows(
                f"SELECT said FROM record WHERE session=%s AND {condition} LIMIT 1", (num, value)
            )
    return excerpt(found[0][0], words) if found else ""


def _condition(word: QueryWord) -> tuple[str, str]:
    """Return the condition, with its argument, for records that contain a word."""
    known = query_of([word])
    return ("words @@ %s::tsquery", known) if known is not None else ("said ILIKE %s", word.like)
