"""What makes a store wait: a disk that does not answer, a file that somebody else has locked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from agentrt.lowlevel import Backend, Flush
from agentrt.storage import backend_of

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


class Disk:
    """A store in a file, whose commits wait in the writer's thread while the disk hangs."""

    def __init__(self, path: Path) -> None:
        self.backend: Backend = backend_of(path)
        """To be opened."""
        self._answers = threading.Event()
        self._answers.set()
        commit = self.backend.commit

        def wait(flush: Flush) -> None:
            assert self._answers.wait(60)
            commit(flush)

        self.backend.commit = wait  # type: ignore[method-assign]

    def hang(self) -> None:
        self._answers.clear()

    def answer(self) -> None:
        self._answers.set()


def disk_of(path: Path) -> Iterator[Disk]:
    """For a fixture: a disk that does not hang behind the test."""
    disk = Disk(path)
    yield disk
    disk.answer()
