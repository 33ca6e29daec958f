"""One interface for the two SQLite libraries, and their errors as `StoreError`."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from ..errors import StoreDamaged, StoreError

Library: TypeAlias = Literal["apsw", "sqlite3"]
"""A Python library for SQLite."""

_BUSY_TIMEOUT_MS = 200  # milliseconds that SQLite itself waits for the lock of another process

_CORRUPT, _NOTADB = 11, 26


class Database(Protocol):
    """The operations that both libraries provide."""

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        """Execute a statement, and return its rows."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each of many rows."""
        ...

    def change(self, sql: str, args: Sequence[Any]) -> int:
        """Execute a statement, and return the number of rows that it changed."""
        ...

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _Sqlite3:
    def __init__(self, uri: str) -> None:
        import sqlite3

        self._connection = sqlite3.connect(
            uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_TIMEOUT_MS / 1000,
        )
        self._execute = self._connection.execute

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        return self._execute(sql, args).fetchall()

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def change(self, sql: str, args: Sequence[Any]) -> int:
        return self._execute(sql, args).rowcount

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        self._connection.close()


class _Apsw:
    def __init__(self, uri: str) -> None:
        apsw = importlib.import_module("apsw")
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        self._connection: Any = apsw.Connection(uri, flags=flags)
        self._connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        self._execute = self._connection.execute

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        return list(self._execute(sql, args))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def change(self, sql: str, args: Sequence[Any]) -> int:
        self._execute(sql, args)
        changed: int = self._connection.changes()
        return changed

    @property
    def in_transaction(self) -> bool:
        inside: bool = self._connection.in_transaction
        return inside

    def close(self) -> None:
        self._connection.close()


def installed() -> Library:
    """Return the library to use: `apsw`, which brings a newer SQLite than most systems and costs
    less, or else `sqlite3`."""
    try:
        importlib.import_module("apsw")
    except ImportError:
        return "sqlite3"
    return "apsw"


def connect(path: Path, library: Library, *, mode: Literal["ro", "rw"]) -> Database:
    """Open a file with a library; `mode`: read only, or read and write."""
    uri = f"{path.as_uri()}?mode={mode}"
    return _Apsw(uri) if library == "apsw" else _Sqlite3(uri)


def code_of(error: Exception) -> int | None:
    """Return SQLite's (extended) code of an error of either library; None for other errors."""
    for name in ("sqlite_errorcode", "extendedresult"):
        code = getattr(error, name, None)
        if isinstance(code, int):
            return code
    return None


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
