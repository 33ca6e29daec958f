"""What makes a store wait: a disk that does not answer, a file that somebody else has locked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inside.store import SqliteBackend

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


class Lock:
    """The database's own write lock, in another process: within one, the locks of two SQLite
    libraries do not see each other."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(path)]
        pipe = subprocess.PIPE
        self._holder = subprocess.Popen(command, stdin=pipe, stdout=pipe)

    def take(self) -> None:
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"\n"

    def release(self) -> None:
        if self._holder.returncode is None:
            self._holder.communicate()


def locks_of(path: Path) -> Iterator[Callable[[], Lock]]:
    """For a fixture: locks on a file, which are released behind the test."""
    locks: list[Lock] = []

    def lock() -> Lock:
        locks.append(Lock(path))
        locks[-1].take()
        return locks[-1]

    yield lock
    for each in locks:
        each.release()


def stalled_commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """For a fixture: commits wait in the writer's thread while the event is not set."""
    free = threading.Event()
    free.set()
    commit = SqliteBackend.commit

    def wait(self: SqliteBackend, flush: Any) -> None:
        assert free.wait(60)
        commit(self, flush)

    monkeypatch.setattr(SqliteBackend, "commit", wait)
    yield free
    free.set()
