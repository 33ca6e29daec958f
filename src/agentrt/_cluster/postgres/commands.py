"""Communication between processes that share a store: commands to sessions of other processes,
their answers, and the sessions that are watched.

A row is a command. Its `node` is the lease of the process that must carry it out; only that one
takes it, and only while the lease lasts. So a command can be given to another process when this one
is dead: the results of the command are stored together with its answer, or not at all.

The life of a row: `post` inserts it, with the process that must carry it out, and notifies that
process. `take` marks it as taken, after which it is not withdrawn any more while its process lives.
`answer` stores the answer and notifies the process that asked, which reads it with `look` and
deletes the row with `forget`. An empty answer means that the process does not own the session;
`pass_on` then gives the row to another one.

A notification is only a hint to read the tables. Small frames of new events are part of it, which
saves the reading; everything else is read there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import psycopg
from msgspec import Struct, structs
from psycopg import sql

from ...errors import RemoteProtocolError, StoreError
from ...events import Event
from ...storage import PROMPTED, clean, decode_events, entry_of
from ...store import CommandStatus, SessionOwner, StoredCommand, StoreEntry
from ..address import PostgresAddress
from ..rows import Tail, Worker
from .connection import PostgresConnection, connect, database_errors, is_lost
from .reader import COLUMNS
from .statements import ALIVE, CHANNEL

T = TypeVar("T")

_FRAMES = 2000  # maximum number of frames that one query reads

_LIVES = "EXISTS (SELECT FROM node WHERE num=%s AND until>clock_timestamp())"

_GONE = (
    "NOT EXISTS (SELECT FROM node n WHERE n.num=c.node AND n.until>clock_timestamp())"
    " AND (answer IS NULL OR answer='')"
)
"""SQL: true if the process for a command `c` is gone and has not answered."""


class PostgresCommands:
    """The `Rows` in PostgreSQL. Used from one thread at a time. Its methods raise `StoreError`."""

    def __init__(self, server: PostgresAddress) -> None:
        self._server = server
        self._connection: PostgresConnection | None = None

    # --- listing sessions

    def entries(self, limit: int) -> list[StoreEntry]:
        """Return the sessions that were prompted or are running, the latest first, with their
        phases."""
        return self._entries(
            f"({PROMPTED} OR node IS NOT NULL) ORDER BY updated DESC, id DESC LIMIT %s",
            limit,
        )

    def entry(self, session: str) -> StoreEntry | None:
        """Return one session, as `entries` does."""
        found = self._entries("id=%s", clean(session))
        return found[0] if found else None

    def _entries(self, which: str, arg: object) -> list[StoreEntry]:
        """Return the sessions that match a condition. The phase is that of a live owner,
        else None.
        """
        rows = self._do(
            lambda each: each.rows(
                f"SELECT {COLUMNS}, CASE WHEN {ALIVE} THEN phase END FROM session s WHERE {which}",
                [arg],
            )
        )
        return [structs.replace(entry_of(row[:-1]), phase=row[-1]) for row in rows]

    def chat(self, name: str) -> str | None:
        """Return the session to which clients gave this name."""
        rows = self._do(
            lambda each: each.rows("SELECT session FROM chat WHERE name=%s", [clean(name)])
        )
        return rows[0][0] if rows else None

    # --- owners of sessions

    def owned(self, session: str) -> SessionOwner | None:
        """Return the owner of a session; None if there is no such session."""
        rows = self._do(
            lambda each: each.rows(
                f"SELECT CASE WHEN {ALIVE} THEN node END, home FROM session s WHERE id=%s",
                [clean(session)],
            )
        )
        return SessionOwner(*rows[0]) if rows else None

    def workers(self) -> list[Worker]:
        """Return the processes that may run sessions."""
        rows = self._do(
            lambda each: each.rows(
                "SELECT num, home, load, (SELECT count(*) FROM session s WHERE s.node=n.num),"
                " (SELECT count(*) FROM command c WHERE c.node=n.num AND answer IS NULL"
                " AND session='') FROM node n"
                " WHERE until>clock_timestamp() AND NOT draining AND role<>'gateway' ORDER BY num"
            )
        )
        return [Worker(*row) for row in rows]

    # --- commands

    def post(self, command: StoredCommand, asker: int, node: int) -> CommandStatus | None:
        """Have a command carried out by `node`, unless it is in progress already: then its answer
        is sent to this asker. Returns None if the id is used by another command."""
        c = command
        rows = self._do(
            lambda each: each.rows(
                "INSERT INTO command(client, id, session, asker, node, digest, body)"
                " VALUES(%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (client, id) DO UPDATE"
                " SET asker=excluded.asker WHERE command.digest=excluded.digest"
                f" RETURNING num, node, answer, pg_notify({CHANNEL} || node, 'take')",
                (clean(c.client), clean(c.id), clean(c.session), asker, node, c.digest, c.body),
            )
        )
        if not rows:
            return None
        [(num, node, answer, _)] = rows
        return CommandStatus(num, node, answer, alive=True)

    def take(self, node: int, known: Collection[int]) -> list[StoredCommand]:
        """Take the commands that this process must carry out, the oldest first, except those that
        are `known` to be in progress here."""
        rows = self._do(
            lambda each: each.rows(
                "UPDATE command SET taken=true WHERE node=%s AND answer IS NULL"
                f" AND num<>ALL(%s::bigint[]) AND {_LIVES}"
                " RETURNING num, client, id, session, digest, body, asker",
                (node, list(known), node),
            )
        )
        return [
            StoredCommand(
                num=num,
                client=client,
                id=id,
                session=session,
                digest=digest,
                body=body,
                asker=asker,
            )
            for num, client, id, session, digest, body, asker in sorted(rows)
        ]

    def answer(self, node: int, answers: Mapping[int, bytes]) -> None:
        """Answer commands. Those that another process has taken since are left unanswered."""
        self._do(
            lambda each: each.rows(
                "UPDATE command c SET answer=a.body FROM unnest(%s::bigint[], %s::bytea[])"
                " AS a(num, body) WHERE c.num=a.num AND node=%s AND taken AND answer IS NULL"
                f" RETURNING pg_notify({CHANNEL} || asker, 'answer')",
                (list(answers), list(answers.values()), node),
            )
        )

    def look(self, nums: Sequence[int]) -> list[CommandStatus]:
        """Return the states of commands."""
        rows = self._do(
            lambda each: each.rows(
                f"SELECT num, node, answer, {ALIVE} FROM command s WHERE num=ANY(%s::bigint[])",
                [list(nums)],
            )
        )
        return [CommandStatus(num, node, answer, alive=alive) for num, node, answer, alive in rows]

    def pass_on(self, num: int, node: int, to: int) -> bool:
        """Give a command to another process, if `node` cannot carry it out: it is gone, or has
        answered that it does not own the session."""
        return bool(
            self._do(
                lambda each: each.rows(
                    "UPDATE command c SET node=%s, taken=false, answer=NULL"
                    f" WHERE num=%s AND node=%s AND (answer='' OR {_GONE})"
                    f" RETURNING pg_notify({CHANNEL} || node, 'take')",
                    (to, num, node),
                )
            )
        )

    def withdraw(self, num: int, node: int) -> bool:
        """Withdraw a command that `node` has not taken, or cannot carry out."""
        return bool(
            self._do(
                lambda each: each.rows(
                    "DELETE FROM command c WHERE num=%s AND node=%s"
                    f" AND ((NOT taken AND answer IS NULL) OR answer='' OR {_GONE}) RETURNING num",
                    (num, node),
                )
            )
        )

    def forget(self, nums: Sequence[int]) -> None:
        """Delete commands whose answers were read."""
        self._do(
            lambda each: each.rows("DELETE FROM command WHERE num=ANY(%s::bigint[])", [list(nums)])
        )

    # --- watching sessions

    def watch(self, session: str, node: int) -> int | None:
        """Subscribe to notifications about new data of a session; returns its number, or None."""
        rows = self._do(
            lambda each: each.rows(
                "WITH s AS (SELECT num FROM session WHERE id=%s),"
                " w AS (INSERT INTO watch SELECT num, %s FROM s ON CONFLICT DO NOTHING)"
                " SELECT num FROM s",
                (clean(session), node),
            )
        )
        return rows[0][0] if rows else None

    def watch_again(self, nums: Sequence[int], node: int) -> None:
        """Renew subscriptions that were made under an earlier lease."""
        self._do(
            lambda each: each.rows(
                "INSERT INTO watch SELECT unnest(%s::bigint[]), %s ON CONFLICT DO NOTHING",
                (list(nums), node),
            )
        )

    def unwatch(self, num: int, node: int) -> None:
        """End a subscription."""
        self._do(
            lambda each: each.rows("DELETE FROM watch WHERE session=%s AND node=%s", (num, node))
        )

    def tails(self, known: Mapping[int, int]) -> list[Tail]:
        """Return the stored events after those that are known of each session, in order. A session
        that was deleted is missing in the result; one without new events is included."""

        def job(connection: PostgresConnection) -> list[Tail]:
            """Read the sessions and their frames in one snapshot.

            A frame that cannot be decoded leaves a gap, which the follower notices by the numbers.
            """
            with connection.transaction():
                # A consistent snapshot, and before any partition is dropped.
                connection.rows("LOCK TABLE frame IN ACCESS SHARE MODE")
                there = connection.rows(
                    "SELECT num, next, epoch, generation,"
                    " (SELECT value FROM meta WHERE key='generation')::integer"
                    " FROM session WHERE num=ANY(%s::bigint[])",
                    [list(known)],
                )
                frames = connection.rows(
                    "SELECT f.session, f.first, f.body FROM"
                    " unnest(%s::bigint[], %s::bigint[]) AS k(session, last)"
                    " JOIN frame f ON f.session=k.session AND f.first>k.last"
                    f" ORDER BY f.session, f.first LIMIT {_FRAMES}",
                    (list(known), list(known.values())),
                )
            found: dict[int, list[tuple[int, list[Event]]]] = {num: [] for num, *_ in there}
            sizes = dict.fromkeys(found, 0)
            for num, first, body in frames:
                if num in found:
                    with contextlib.suppress(RemoteProtocolError):  # a gap remains
                        found[num].append((first, decode_events(body)))
                    sizes[num] += len(body)
            return [
                Tail(
                    num=num,
                    next=next,
                    epoch=epoch_of(epoch, born, now),
                    frames=found[num],
                    size=sizes[num],
                    cut=len(frames) == _FRAMES,
                )
                for num, next, epoch, born, now in there
            ]

        return self._do(job)

    def alive(self) -> list[int]:
        """Return the leases that are not over."""
        rows = self._do(
            lambda each: each.rows("SELECT num FROM node WHERE until>clock_timestamp()")
        )
        return [num for (num,) in rows]

    def connections(self) -> tuple[int, int]:
        """Return the number of all connections to the server, and its maximum for users who are not
        superusers."""
        [found] = self._do(
            lambda each: each.rows(
                "SELECT (SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type='client backend'),"
                " current_setting('max_connections')::bigint"
                " - current_setting('superuser_reserved_connections')::bigint"
            )
        )
        return found[0], found[1]

    # --- the connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, job: Callable[[PostgresConnection], T]) -> T:
        """Run a job of one statement, or one that may be repeated: a lost connection is reopened
        once."""
        with database_errors(self._server):
            if self._connection is not None and not self._connection.closed:
                try:
                    return job(self._connection)
                except psycopg.Error as error:
                    if not is_lost(error) or not self._connection.closed:
                        raise
            self._connection = connect(self._server, writes=True)
            return job(self._connection)


def epoch_of(epoch: str, born: int, now: int) -> str:
    """Return the epoch of a session's log, which changes with each generation of the database."""
    return epoch if born == now else f"{epoch}.{now}"


class Notified(Struct, frozen=True):
    """The notifications that a process received: that there are commands to take, that there are
    answers, new events of sessions (`tails`), or sessions that have new events (`sessions`)."""

    takes: bool = False
    answers: bool = False
    sessions: frozenset[int] = frozenset()
    tails: tuple[Tail, ...] = ()


def notified_of(payloads: Iterable[str]) -> Notified:
    """Parse notifications: the first line has words, each other line a frame."""
    words: set[str] = set()
    tails: list[Tail] = []
    for payload in payloads:
        first, *lines = payload.split("\n")
        said = set(first.split(","))
        for line in lines:
            tail = _tail(line)
            if tail is not None:
                tails.append(tail)
                said.discard(str(tail.num))
        words |= said
    numbers = frozenset(int(word) for word in words if word.isdecimal())
    return Notified("take" in words, "answer" in words, numbers, tuple(tails))


def _tail(line: str) -> Tail | None:
    """Parse a frame; None if it cannot be read, which leaves a gap."""
    num, first, epoch, text = line.split(" ", 3)
    body = text.encode()
    try:
        events = decode_events(body)
    except RemoteProtocolError:
        return None
    at = int(first)
    frames = [(at, events)]
    return Tail(num=int(num), next=at + len(events), epoch=epoch, frames=frames, size=len(body))


class PostgresListener:
    """A connection that receives the notifications of a process. It is opened and closed in a
    thread; notifications are read in the thread that waits for its socket."""

    def __init__(self, server: PostgresAddress, node: int) -> None:
        """Connect and listen. Raises `StoreError`."""
        self._connection = connect(server, writes=True)
        with database_errors(server):
            try:
                [(channel,)] = self._connection.rows(f"SELECT {CHANNEL} || %s::bigint", [node])
                name = sql.Identifier(channel).as_string(self._connection)
                self._connection.rows(f"LISTEN {name}")
            except BaseException:
                self._connection.close()
                raise

    def fileno(self) -> int:
        """Return the socket to wait for."""
        return self._connection.fileno()

    def received(self) -> Notified:
        """Return the notifications that have arrived. Never waits. Raises `StoreError` if the
        connection is lost."""
        pgconn = self._connection.pgconn
        try:
            pgconn.consume_input()
        except psycopg.Error as error:
            raise StoreError(f"the connection to the database was lost: {error}") from error
        payloads: list[str] = []
        while (notify := pgconn.notifies()) is not None:
            payloads.append(notify.extra.decode())
        return notified_of(payloads)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
