"""The reader of a store's file: for use alongside its writer, or without one.

Each method reads in one transaction, so its result is one state of the file. The file is in WAL
mode, so the writer does not wait for a reader. A reader never changes the file; one that is of an
older version must be opened by a writer first (`Outdated`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..model.checkpoint import Record
from ..model.events import Event, TurnStarted
from ..model.state import StoredHistory
from . import schema
from .base import (
    PROMPTED,
    CommandAnswer,
    LoadedSession,
    Outdated,
    ReportingReader,
    SessionQuery,
    StoreEntry,
    StoreHit,
    StoreReport,
    decode_about,
    decode_events,
    decode_head,
    decode_record,
    encode,
    entry_of,
)
from .database import Database, store_errors
from .search import RECORD_BITS, QueryWord, clean, excerpt, words_of

_MAX_FOUND = 10  # maximum number of sessions found by a prefix: more are not needed for a choice
_NO_LIMIT = 2**62  # more than can exist

_ENTRIES = "SELECT id, agent, cwd, title, prompt, turns, created, updated, about, num FROM session"


class SqliteReader(ReportingReader):
    """A reader of a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file for reading.

        Raises `Outdated` for a file of an older version, which only a writer migrates, and
        `StoreError` for one of a newer version or that is not a store.
        """
        self._path = Path(os.path.abspath(path))
        if not self._path.exists():
            raise StoreError(f"the store {self._path} does not exist")
        with store_errors(self._path):
            self._database = Database(self._path, "ro")
            try:
                [[application]] = self._execute("PRAGMA application_id")
                [[version]] = self._execute("PRAGMA user_version")
            except Exception:
                self.close()
                raise
        if application != schema.APPLICATION_ID or version != len(schema.MIGRATIONS):
            self.close()
            if application == schema.APPLICATION_ID and 0 < version < len(schema.MIGRATIONS):
                raise Outdated(
                    f"{self._path} was written by an older agentrt and is not migrated yet: open"
                    " it for writing once"
                )
            raise StoreError(f"{self._path} is not a store that this agentrt can read")

    def _execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Execute a statement, and return its rows."""
        return self._database.execute(sql, args)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Read a consistent snapshot in the block."""
        with store_errors(self._path):
            self._execute("BEGIN")
            try:
                yield
            finally:
                self._execute("ROLLBACK")

    def sessions(self, query: SessionQuery) -> list[StoreEntry]:
        """Return the sessions that match a query, the latest first, in one page of the index."""
        where, args = PROMPTED, list[Any]()
        if query.before is not None:
            where += " AND (updated, id) < (?, ?)"
            args += query.before
        if query.cwd is not None:
            where += " AND cwd=?"
            args.append(query.cwd)
        if query.agent is not None:
            where += " AND agent=?"
            args.append(query.agent)
        with self._reading():
            rows = self._execute(
                f"{_ENTRIES} WHERE {where} ORDER BY updated DESC, id DESC LIMIT ?",
                (*args, -1 if query.limit is None else query.limit),
            )
        return [entry_of(row) for row in rows]

    def find(self, prefix: str) -> list[StoreEntry]:
        """Return the sessions with this id prefix, or else those whose agent's id begins with it.

        The agent's id is in the encoded description, so the second search looks into all of them.
        """
        prefix = clean(prefix)
        with self._reading():
            rows = self._execute(
                f"{_ENTRIES} WHERE id>=? AND id<? ORDER BY id LIMIT {_MAX_FOUND}",
                (prefix, prefix + "\U0010ffff"),
            )
            if not rows and prefix:
                rows = self._execute(
                    f"{_ENTRIES} WHERE instr(about, ?) ORDER BY updated DESC LIMIT {_MAX_FOUND}",
                    (b'"agent_session":' + encode(prefix)[:-1],),
                )
        return [entry_of(row) for row in rows]

    def report(self) -> StoreReport:
        """Return facts about the file."""
        with self._reading():
            [[sessions]] = self._execute(f"SELECT count(*) FROM session WHERE {PROMPTED}")
            [[mode]] = self._execute("PRAGMA journal_mode")
            [[version]] = self._execute("SELECT sqlite_version()")
        size = sum(
            os.path.getsize(file)
            for end in ("", "-wal")
            if os.path.exists(file := f"{self._path}{end}")
        )
        return StoreReport(
            path=str(self._path),
            database="SQLite",
            facts=f"{version}, mode {mode}",
            size=size,
            sessions=sessions,
        )

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[StoreHit]:
        """Return the sessions that contain all words, newest first.

        A word counts in a title as in the text of a turn. `tenant`: only sessions of this one.
        """
        wanted = words_of(words)
        if not wanted:
            return []
        where, args = PROMPTED, list[Any]()
        if tenant is not None:
            where += " AND tenant=?"
            args.append(tenant)
        for word in wanted:
            condition, value = _condition(word)
            where += (
                f" AND (num IN (SELECT rowid>>{RECORD_BITS} FROM said WHERE {condition})"
                r" OR title LIKE ? ESCAPE '\')"
            )
            args += (value, word.like)
        with self._reading():
            rows = self._execute(
                f"{_ENTRIES} WHERE {where} ORDER BY updated DESC, id DESC LIMIT ?", (*args, limit)
            )
            return [
                StoreHit(entry=entry_of(row), snippet=self._snippet(row, wanted)) for row in rows
            ]

    def _snippet(self, row: Sequence[Any], words: list[QueryWord]) -> str:
        """Return an excerpt of the record of a session that best matches the words."""
        num = row[-1]
        known = [word.match for word in words if word.match is not None]
        within = f"rowid>={num << RECORD_BITS} AND rowid<{num + 1 << RECORD_BITS}"
        found = []
        if known:
            found = self._execute(
                f"SELECT text FROM said WHERE said MATCH ? AND {within} ORDER BY rank LIMIT 1",
                (" OR ".join(known),),
            )
        for word in words:
            if not found and word.match is None:
                condition, value = _condition(word)
                found = self._execute(
                    f"SELECT text FROM said WHERE {within} AND {condition} LIMIT 1", (value,)
                )
        return excerpt(found[0][0], words) if found else ""

    def load(self, session: str, last: int | None = None) -> LoadedSession | None:
        """Return a stored session; None if there is none.

        `last`: only that many records from the end are read, and `ahead` describes the rest. One
        transaction reads everything, so a writer in between cannot tear it.
        """
        with self._reading():
            found = self._execute(
                f"SELECT num, epoch, generation, {schema.NEXT}, created, about, head, prompt, turns"
                " FROM session WHERE id=?",
                (session,),
            )
            if not found:
                return None
            [[num, epoch, born, next, created, about, head, prompt, turns]] = found
            records = self._records(num, None, last)
            behind = decode_head(head)
            events = [event for _, event in self._events(num, behind.seq)]
            generation = dict(self._execute("SELECT key, value FROM meta"))["generation"]
        ahead = None
        if last is not None and records and (left := records[0].number):
            turns -= sum(len(record.turns) for record in records)
            turns -= sum(isinstance(event, TurnStarted) for event in events)
            ahead = StoredHistory(left, turns, prompt)
        return LoadedSession(
            about=decode_about(about),
            epoch=epoch if generation == born else f"{epoch}.{generation}",
            created=created,
            next=next,
            head=behind,
            records=records,
            ahead=ahead,
            events=events,
        )

    def chats(self) -> dict[str, str]:
        """Return the sessions by the names that clients gave them."""
        with self._reading():
            return dict(self._execute("SELECT name, session FROM chat"))

    def answers(self) -> list[CommandAnswer]:
        """Return the stored answers to commands, the oldest first."""
        with self._reading():
            rows = self._execute("SELECT client, id, digest, body FROM answer ORDER BY at")
        return [CommandAnswer(*row) for row in rows]

    def answer(self, client: str, id: str) -> CommandAnswer | None:
        """Return the stored answer to a command, or None."""
        with self._reading():
            rows = self._execute(
                "SELECT client, id, digest, body FROM answer WHERE client=? AND id=?", (client, id)
            )
        return CommandAnswer(*rows[0]) if rows else None

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        """Return the events after number `after` that are kept; None for an unknown session."""
        with self._reading():
            found = self._execute("SELECT num FROM session WHERE id=?", (session,))
            return self._events(found[0][0], after) if found else None

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None:
        """Return up to `count` records before number `before`; None for an unknown session."""
        with self._reading():
            found = self._execute("SELECT num FROM session WHERE id=?", (session,))
            return self._records(found[0][0], before, count) if found else None

    def _records(self, num: int, before: int | None, last: int | None) -> list[Record]:
        """Return the last records, or the last ones before number `before`."""
        rows = self._execute(
            "SELECT body FROM record WHERE session=? AND number<? ORDER BY number DESC LIMIT ?",
            (num, _NO_LIMIT if before is None else before, -1 if last is None else last),
        )
        return [decode_record(body) for (body,) in reversed(rows)]

    def _events(self, num: int, after: int) -> list[tuple[int, Event]]:
        """Return the events after number `after` that are kept, with their numbers."""
        rows = self._execute(
            "SELECT first, body FROM frame WHERE session=? AND last>? ORDER BY first", (num, after)
        )
        numbered = (each for first, body in rows for each in enumerate(decode_events(body), first))
        return [each for each in numbered if each[0] > after]

    def close(self) -> None:
        self._database.close()


def _condition(word: QueryWord) -> tuple[str, str]:
    """Return the condition, with its argument, for rows of `said` that contain a word."""
    if word.match is not None:
        return "said MATCH ?", word.match
    return r"text LIKE ? ESCAPE '\'", word.like
