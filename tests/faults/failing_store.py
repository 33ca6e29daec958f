"""A store's life on a real file, in which a call of SQLite or of the system fails, and what must be
true of it whatever fails.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

import apsw
import pytest
import trio

import agentrt
from agentrt import Limits
from agentrt._core.store import database, reader
from agentrt._core.store.database import Database
from agentrt.store import Store
from inside.store import sqlite, writer
from journal.kit import RESUMES, again, checked, kept
from runtime.fakes import Incarnations, echo

from .inject import Faults

Where: TypeAlias = Literal["before", "behind", "below"]

IOERR, FULL = apsw.SQLITE_IOERR, apsw.SQLITE_FULL
LIMITS = Limits(store_failure_timeout_s=0.1, cancel_grace_s=2)
SYSTEM = {
    "open": (errno.EIO, errno.ENOSPC),
    "fstat": (errno.EIO, errno.EIO),
    "stat": (errno.EIO, errno.EIO),
    "fchmod": (errno.EIO, errno.EPERM),
    "ftruncate": (errno.EIO, errno.ENOSPC),
    "pwrite": (errno.EIO, errno.ENOSPC),
}
"""By the function of `os`: what it may come to."""


def refusal(code: int) -> Exception:
    """An error as apsw raises it."""
    error: Any = {
        IOERR: apsw.IOError("disk I/O error"),
        FULL: apsw.FullError("database or disk is full"),
    }[code]
    error.extendedresult = code
    return error  # type: ignore[no-any-return]


class FailingDatabase:
    """A connection whose calls fail as they are told to: before anything is done or, where it is
    `in_doubt`, behind it."""

    def __init__(self, database: Database, faults: Faults, *, in_doubt: bool) -> None:
        self._database = database
        self._faults = faults
        self._in_doubt = in_doubt

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        failing = self._faults.failing(name, lambda *given: None, refusal(IOERR), refusal(FULL))
        done = function(*args) if self._in_doubt else None
        failing()
        return done if self._in_doubt else function(*args)

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self._call("execute", self._database.execute, sql, args)
        return found

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._call("many", self._database.many, sql, rows)

    def change(self, sql: str, args: Sequence[Any]) -> int:
        changed: int = self._call("change", self._database.change, sql, args)
        return changed

    @property
    def in_transaction(self) -> bool:
        return self._database.in_transaction

    def close(self) -> None:
        self._database.close()


class OnFailingFiles(Database):
    """A connection on a file system that is written in Python."""

    def __init__(self, path: Path, mode: str) -> None:
        self._connection = apsw.Connection(
            f"{path.as_uri()}?mode={mode}&vfs=failing",
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI,
        )
        self._connection.set_busy_timeout(database._BUSY_TIMEOUT_MS)

    def close(self) -> None:
        # SQLite ignores what fails while it closes; apsw knows what this file system has raised.
        with suppress(apsw.Error):
            super().close()


def file_system(name: str, faults: Faults) -> Any:
    """What SQLite has below it, in apsw: its reads, writes and syncs fail as they are told to."""
    errors = refusal(IOERR), refusal(FULL)

    class File(apsw.VFSFile):
        def __init__(self, name: Any, flags: Any) -> None:
            super().__init__("", name, flags)

        def xRead(self, amount: int, offset: int) -> bytes:
            found: bytes = faults.failing("xRead", super().xRead, *errors)(amount, offset)
            return found

        def xWrite(self, data: bytes, offset: int) -> None:
            faults.failing("xWrite", super().xWrite, *errors)(data, offset)

        def xSync(self, flags: int) -> None:
            faults.failing("xSync", super().xSync, *errors)(flags)

        def xTruncate(self, size: int) -> None:
            faults.failing("xTruncate", super().xTruncate, *errors)(size)

    class System(apsw.VFS):
        def __init__(self) -> None:
            super().__init__(name, "")

        def xOpen(self, name: Any, flags: Any) -> File:
            return faults.failing("xOpen", File, *errors)(name, flags)  # type: ignore[no-any-return]

    return System()


@contextmanager
def failing(faults: Faults, where: Where) -> Iterator[None]:
    """In the block, calls fail: of SQLite, before or behind what they do, or those that it makes
    itself."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch, faults, where)
        if where == "below":
            system = file_system("failing", faults)
            try:
                yield
            finally:
                system.unregister()
        else:
            yield


def install(patch: pytest.MonkeyPatch, faults: Faults, where: Where) -> None:
    def connect(path: Path, mode: Any) -> Any:
        if where == "below":
            return OnFailingFiles(path, mode)
        faults.failing("connect", lambda: None, refusal(IOERR), refusal(FULL))()
        return FailingDatabase(Database(path, mode), faults, in_doubt=where == "behind")

    copy = ModuleType("os")
    copy.__dict__.update(os.__dict__)
    for name, errors in SYSTEM.items():
        setattr(copy, name, faults.failing(name, getattr(os, name), *errors))
    patch.setattr(sqlite, "os", copy)
    patch.setattr(sqlite, "Database", connect)
    patch.setattr(reader, "Database", connect)
    patch.setattr(sqlite, "_FILE_CHECK_INTERVAL_S", 0.0)  # the file is looked at before each commit
    patch.setattr(writer, "RETRY_DELAYS_S", (0.01, 0.02))
    patch.setattr(writer, "TIDY_INTERVAL_S", 0.0)


class StoreLife:
    """Two sessions in a store, one of which is gone on with, on agents that say what they hear."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: list[str] = []
        self.raised: list[Exception] = []
        self.shown: dict[str, int] = {}
        """The last event of each session that somebody saw."""
        self.finished: dict[str, list[str]] = {}
        """The prompts whose turns somebody saw the end of."""
        self._agents: dict[str, list[Incarnations]] = {"one": [], "two": []}

    async def live(self) -> None:
        """All of it, as far as it gets."""
        for name, act in (("begins", self._begin), ("goes on", self._go_on), ("finds", self._find)):
            try:
                async with agentrt.store.open_store(self.path, limits=LIMITS) as store:
                    await act(store)
                    self.done.append(name)
            except agentrt.AgentrtError as error:
                self.raised.append(error)

    async def _begin(self, store: Store) -> None:
        for id in ("one", "two"):
            async with kept(store, self._new(id), id=id, limits=LIMITS) as session:
                session.rename(f"named {id}")
                await self._prompt(session, "hello", "and")

    async def _go_on(self, store: Store) -> None:
        async with again(store, self._new("one"), id="one", limits=LIMITS) as session:
            self._watch(session)
            await self._prompt(session, "again")

    async def _find(self, store: Store) -> None:
        known = {entry.session for entry in await store.sessions()}
        assert known >= self.shown.keys()
        found = {hit.entry.session for hit in await store.search("hello")}
        assert found >= {id for id, prompts in self.finished.items() if "hello" in prompts}
        self.shown.pop("two", None)  # it may be deleted, and nobody is told so
        self.finished.pop("two", None)
        await store.delete("two")

    def _new(self, id: str) -> Incarnations:
        self._agents[id].append(Incarnations(echo, **RESUMES))
        return self._agents[id][-1]

    def _watch(self, session: agentrt.Session) -> None:
        log = session.log

        def seen() -> None:
            if log.state.turns:  # else nobody looks for it
                self.shown[session.id] = log.seq

        seen()
        log.listen(seen)

    async def _prompt(self, session: agentrt.Session, *prompts: str) -> None:
        self._watch(session)
        for prompt in prompts:
            with trio.fail_after(20):
                result = await session.run(prompt)
            assert result.text == prompt
            self.finished.setdefault(session.id, []).append(prompt)

    def heard(self, id: str) -> list[str]:
        """The prompts that the agents of a session got."""
        return [
            message["params"]["prompt"][0]["text"]
            for agents in self._agents[id]
            for agent in agents.agents
            for message in agent.received
            if message.get("method") == "session/prompt"
        ]

    # --- what must be true afterwards

    async def check(self) -> None:
        """J3, J4, J7: what was seen is there, once and in its order; and it goes on."""
        async with agentrt.store.open_store(self.path) as store:
            for id, seen in self.shown.items():
                snapshot = await store.snapshot(id)
                assert snapshot.seq >= seen, f"{id}: {seen} was seen"
                asked = [
                    item.content[0].text  # type: ignore[union-attr]
                    for item in snapshot.items
                    if item.type == "user"
                ]
                ended = [turn for turn in snapshot.turns if turn.outcome == "completed"]
                assert len(ended) >= len(self.finished.get(id, []))
                heard = self.heard(id)
                assert len(set(heard)) == len(heard), f"{id}: sent twice: {heard}"
                assert [prompt for prompt in asked if prompt in heard] == heard
            for entry in await store.sessions():
                async with again(store, Incarnations(echo, **RESUMES), id=entry.session) as session:
                    assert (await session.run("afterwards")).text == "afterwards"
        checked(self.path)
