"""The connection to an SQLite file, and its errors as `StoreError`.

The library is apsw: its SQLite is newer than that of most systems and the same on all of them, it
has full-text search, and it costs less than the `sqlite3` of the standard library.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import apsw

from ..errors import StoreDamaged, StoreError

_BUSY_TIMEOUT_MS = 200  # milliseconds that SQLite itself waits for the lock of another process

_CORRUPT, _NOTADB = 11, 26


class Database:
    """An open file. `mode`: read only, or read and write."""

    def __init__(self, path: Path, mode: Literal["ro", "rw"]) -> None:
        """Connect to a file. `mode` is SQLite's `mode` of a URI: `ro` or `rw`."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        self._connection = apsw.Connection(f"{path.as_uri()}?mode={mode}", flags=flags)
        self._connection.set_busy_timeout(_BUSY_TIMEOUT_MS)

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Execute a statement, and return its rows."""
        return list(self._connection.execute(sql, args))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each of many rows."""
        self._connection.executemany(sql, rows)

    def change(self, sql: str, args: Sequence[Any]) -> int:
        """Execute a statement, and return the number of rows that it changed."""
        self._connection.execute(sql, args)
        return self._connection.changes()

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        return self._connection.in_transaction

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def code_of(error: Exception) -> int | None:
    """Return SQLite's (extended) code of an error; None for other errors."""
    code = getattr(error, "extendedresult", None)
    return code if isinstance(code, int) else None


def is_damage(error: Exception) -> bool:
    """True if SQLite reports that a file is corrupt, or not a database."""
    code = code_of(error)
    return code is not None and code & 0xFF in (_CORRUPT, _NOTADB)


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the system in the block as `StoreError`."""
    try:
        yield
    except Exception as error:
        known = as_store_error(path, error)
        if known is error:
            raise
        raise known from error


def as_store_error(path: Path, error: Exception) -> Exception:
    """Convert an error about a file to a `StoreError`. Errors that come neither from SQLite nor
    from the system are returned unchanged."""
    if is_damage(error):
        repair = "`agentrt sessions repair` recovers the readable parts"
        return StoreDamaged(f"{path} is damaged: {error} ({repair})")
    if isinstance(error, OSError) or code_of(error) is not None:
        return StoreError(f"{path} cannot be used: {error}")
    return error
