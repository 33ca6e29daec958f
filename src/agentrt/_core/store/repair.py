"""Recovery of the readable parts of a damaged file into a new one.

SQLite's own recovery is part of its shell and not of its library. Here each table is read in ranges
of rows, which are halved where SQLite finds damage until the rows around it have been read. The
consistent part of each session is kept: turns in order, and events up to the first one that is
lost.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from ..errors import AgentrtError, StoreError
from .base import decode_about, decode_events, decode_head, decode_record, encode, encode_record
from .database import Database, is_damage, store_errors
from .schema import APPLICATION_ID
from .sqlite import SqliteBackend

MAX_FAILED_RANGES: Final = 20_000
"""Maximum number of failing ranges of a table: below a damaged root nothing can be read at all."""

ROWS_PER_READ: Final = 256
"""Rows that are read, and written, at a time."""

_SIDES: Final = ("", "-wal", "-shm")
_TABLES: Final[dict[str, Sequence[str]]] = {
    "session": [
        "num",
        "id",
        "epoch",
        "generation",
        "owner",
        "next",
        "agent",
        "cwd",
        "title",
        "prompt",
        "phase",
        "turns",
        "tenant",
        "created",
        "updated",
        "about",
        "head",
        "head_seq",
    ],
    "frame": ("id", "session", "first", "last", "owner", "at", "body"),
    "record": ("session", "number", "last", "body"),
}
_KEYED: Final = {
    "answer": (("client", "id"), ("client", "id", "digest", "body", "at")),
    "chat": (("name",), ("name", "session")),
}
"""Tables without row numbers: their keys, and all of their columns."""
_NONSENSE: Final = (AgentrtError, TypeError, ValueError)


class Repaired(Struct, frozen=True, kw_only=True):
    """The result of a repair."""

    aside: Path | None = None
    """The new path of the damaged file; None: the file was sound."""
    sessions: int = 0
    """Number of sessions in the new file."""
    parts: int = 0
    """Number of these sessions of which something is lost."""
    lost: int = 0
    """Number of sessions of which only unusable remains were found."""


def repair(path: Path) -> Repaired:
    """Move a damaged file to `PATH.corrupt-TIME` and copy everything readable into a new one.

    Raises `StoreInUse` while another process writes the file, `StoreError` if it is not a store.
    """
    backend = SqliteBackend(path)
    try:
        with store_errors(backend.path):
            return _repair(backend)
    finally:
        backend.close()


def _repair(backend: SqliteBackend) -> Repaired:
    """Move a damaged file aside, and copy everything readable into a new store.

    A sound file is left alone. If copying fails, the damaged file gets its name back. Raises
    `StoreError` if there is no SQLite database to recover.
    """
    path = backend.path
    if not path.is_file():
        raise StoreError(f"the store {path} does not exist")
    with open(path, "rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            raise StoreError(f"{path} is not an SQLite database: nothing can be recovered")
    backend.take_lock()
    if _is_sound(path):
        return Repaired()
    aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}")
    _rename(path, aside)
    try:
        database = Database(aside, "ro")
        try:
            backend.open()
            return _copied(database, backend, aside)
        finally:
            database.close()
    except BaseException:  # for example, the disk is full: undo everything
        backend.close()
        for side in _SIDES:
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{side}")
        _rename(aside, path)
        raise


def _rename(path: Path, new: Path) -> None:
    """Rename the file together with its write-ahead log and its shared memory."""
    for side in _SIDES:
        with suppress(FileNotFoundError):
            os.rename(f"{path}{side}", f"{new}{side}")


def _is_sound(path: Path) -> bool:
    """Return True if SQLite finds no damage. Raises `StoreError` for a file of another program."""
    database = Database(path, "ro")
    try:
        if database.execute("PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise StoreError(f"{path} is not a store of agentrt")
        return bool(database.execute("PRAGMA integrity_check(1)") == [("ok",)])
    except Exception as error:
        if is_damage(error):
            return False
        raise
    finally:
        database.close()


def _copied(damaged: Database, backend: SqliteBackend, aside: Path) -> Repaired:
    """Copy the readable rows of a damaged database, and drop what makes no sense alone.

    Tables with a key are read from both ends, because a damaged page hides everything after it from
    one direction. Records and events without a session are counted as lost.
    """
    new = backend.database
    [[generation]] = new.execute("SELECT value FROM meta WHERE key='generation'")
    for table, columns in _TABLES.items():
        _put(backend, table, columns, _rows(damaged, table, ", ".join(columns)))
    for table, (key, columns) in _KEYED.items():
        for forward in (True, False):
            _put(backend, table, columns, _keyed_rows(damaged, table, key, columns, forward))
    sessions = parts = 0
    for (num,) in new.execute("SELECT num FROM session"):
        with backend.transaction():
            whole = _make_sense(backend, num, generation)
        sessions += whole is not None
        parts += whole is False
    known = "SELECT num FROM session"
    [[lost]] = new.execute(
        "SELECT count(*) FROM (SELECT session FROM frame UNION SELECT session FROM record)"
        f" WHERE session NOT IN ({known})"
    )
    with backend.transaction():
        for table in ("frame", "record"):
            new.execute(f"DELETE FROM {table} WHERE session NOT IN ({known})")
        new.execute("DELETE FROM chat WHERE session NOT IN (SELECT id FROM session)")
    backend.finish()
    return Repaired(aside=aside, sessions=sessions, parts=parts, lost=lost)


def _put(
    backend: SqliteBackend, table: str, columns: Sequence[str], found: Iterable[list[Any]]
) -> None:
    """Insert rows into the new file; those with a key that is there already are skipped."""
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    for rows in found:
        with backend.transaction():
            backend.database.many(f"INSERT OR IGNORE INTO {table}({names}) VALUES({places})", rows)


def _make_sense(backend: SqliteBackend, num: int, generation: int) -> bool | None:
    """Repair the rows of a session so that it can be opened again. Returns true if it is complete,
    false if parts are lost, and None if it cannot be a session any more and was deleted."""
    x = backend.database.execute
    [[next, about, head]] = x("SELECT next, about, head FROM session WHERE num=?", (num,))
    try:
        decode_about(about)
        then = decode_head(head)
    except _NONSENSE:
        x("DELETE FROM session WHERE num=?", (num,))
        return None
    kept = 0
    # They are renumbered: otherwise a missing number would be assigned a second time.
    for number, last in x(
        "SELECT number, last FROM record WHERE session=? ORDER BY number", (num,)
    ):
        [[body]] = x("SELECT body FROM record WHERE session=? AND number=?", (num, number))
        x("DELETE FROM record WHERE session=? AND number=?", (num, number))
        try:
            record = structs.replace(decode_record(body), number=kept)
        except _NONSENSE:
            continue
        if number < then.records:
            x("INSERT INTO record VALUES(?,?,?,?)", (num, kept, last, encode_record(record)))
            backend.index(num, record)
            kept += 1
    following = then.seq + 1
    for id, first, last, body in x(
        "SELECT id, first, last, body FROM frame WHERE session=? ORDER BY first", (num,)
    ):
        try:
            readable = len(decode_events(body)) == last - first + 1
        except _NONSENSE:
            readable = False
        if readable and first <= following <= last:
            following = last + 1
        else:  # the head replaces it, or there is a gap before it
            x("DELETE FROM frame WHERE id=?", (id,))
    whole = kept == then.records and following >= next
    then.records = kept
    x(
        "UPDATE session SET epoch=?, generation=?, next=?, head=? WHERE num=?",
        (secrets.token_urlsafe(), generation, following, encode(then), num),
    )
    return whole


def _rows(database: Database, table: str, columns: str) -> Iterator[list[Any]]:
    """Yield the readable rows of a table, in order, some at a time."""
    try:
        [[last]] = database.execute(f"SELECT max(rowid) FROM {table}")
    except Exception as error:
        if not is_damage(error):
            raise
        last = 2**32
    failures = 0
    ranges = [(1, last or 0)]
    while ranges and failures < MAX_FAILED_RANGES:
        low, high = ranges.pop()
        if high - low >= ROWS_PER_READ:
            ranges += [(low + ROWS_PER_READ, high)]
            high = low + ROWS_PER_READ - 1
        try:
            yield database.execute(
                f"SELECT {columns} FROM {table} WHERE rowid>=? AND rowid<=?", (low, high)
            )
        except Exception as error:
            if not is_damage(error):
                raise
            failures += 1
            middle = (low + high) // 2
            if low < high:
                ranges += [(middle + 1, high), (low, middle)]


def _keyed_rows(
    database: Database, table: str, key: Sequence[str], columns: Sequence[str], forward: bool
) -> Iterator[list[Any]]:
    """Yield the rows of a table that has only a key, from one of its ends up to the first that
    cannot be read."""
    beyond, direction = (">", "") if forward else ("<", " DESC")
    order = ", ".join(f"{column}{direction}" for column in key)
    places = ", ".join("?" * len(key))
    last: Sequence[Any] = ()
    count = ROWS_PER_READ
    while count:
        where = f"WHERE ({', '.join(key)}){beyond}({places})" if last else ""
        try:
            rows = database.execute(
                f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {order} LIMIT {count}",
                last,
            )
        except Exception as error:
            if not is_damage(error) and f"no such table: {table}" not in str(error):
                raise
            count //= 2
            continue
        if not rows:
            return
        yield rows
        last = rows[-1][: len(key)]
