"""A store in one SQLite file: one process writes it, and any may read it.

The file is its owner's alone, and one process writes it at a time: a lock beside it says which. All
other connections only read: two that write or checkpoint at the same moment could damage the file,
by a defect of SQLite before 3.51.3.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from .._errors import StoreDamaged, StoreError, StoreInUse
from .._model.checkpoint import Record
from .._model.events import Event
from .base import (
    About,
    Answer,
    Flush,
    Packed,
    Part,
    Place,
    Query,
    Stored,
    StoreEntry,
    StoreHit,
    Unusable,
    decode_about,
    decode_events,
    decode_head,
    decode_record,
    encode,
    encode_events,
    encode_record,
)
from .search import SHIFT, Word, clean, excerpt, text_of, words_of

Library: TypeAlias = Literal["apsw", "sqlite3"]

APPLICATION: Final = 0x61677274
"""What `file` calls it: "agrt"."""

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE session(
        num INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, epoch TEXT NOT NULL,
        generation INTEGER NOT NULL, owner INTEGER NOT NULL, next INTEGER NOT NULL,
        agent TEXT NOT NULL, cwd TEXT NOT NULL, title TEXT, prompt TEXT NOT NULL DEFAULT '',
        phase TEXT NOT NULL, turns INTEGER NOT NULL DEFAULT 0, tenant TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL, updated REAL NOT NULL,
        about BLOB NOT NULL, head BLOB NOT NULL, head_seq INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX session_by ON session(tenant, updated);
    CREATE TABLE frame(
        id INTEGER PRIMARY KEY, session INTEGER NOT NULL, first INTEGER NOT NULL,
        last INTEGER NOT NULL, owner INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL);
    CREATE UNIQUE INDEX frame_at ON frame(session, first);
    CREATE TABLE record(
        session INTEGER NOT NULL, number INTEGER NOT NULL, last INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(session, number));
    """,
    """
    CREATE INDEX session_of ON session(tenant, cwd, updated);
    CREATE VIRTUAL TABLE said USING fts5(text, tokenize="unicode61 remove_diacritics 2");
    """,
    """
    CREATE TABLE answer(
        client TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL,
        at REAL NOT NULL, PRIMARY KEY(client, id)) WITHOUT ROWID;
    """,
    """
    CREATE TABLE chat(name TEXT PRIMARY KEY, session TEXT NOT NULL) WITHOUT ROWID;
    """,
)
"""Each takes the schema from the version of its place here to the next one."""

_SEARCH = "fts5"  # a module that SQLite can be built without
_INDEXED = 2  # the first version whose records are in the index `said`

_ANSWERS = 24 * 3600.0  # seconds for which a client may send a command again
_PAGES = 1000  # of the write-ahead log, after which its writer puts them into the file
_LOOK = 1.0  # seconds between two looks whether the file is still there
_WAIT = 0.05  # seconds between two attempts at a lock
_BUSY = 200  # milliseconds that SQLite itself waits for somebody else's lock

_FEW = 10  # sessions that begin with the same letters: more need no list
_ALL = 2**62  # more than there are

_ENTRIES = "SELECT id, agent, cwd, title, prompt, turns, created, updated, about, num FROM session"

_CARRIED = (
    "owner, next, agent, cwd, title, prompt, phase, turns, tenant, created, updated, about, head,"
    " head_seq"
)
_FRAME = "first, last, owner, at, body"

_CORRUPT, _NOTADB, _MOVED = 11, 26, 1032


class Database(Protocol):
    """What both libraries can do."""

    def execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]: ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def change(self, sql: str, args: Sequence[Any]) -> int:
        """Execute, and return how many rows it changed."""
        ...

    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...


class _Sqlite3:
    def __init__(self, uri: str) -> None:
        import sqlite3

        self._connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY / 1000
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
        self._connection.set_busy_timeout(_BUSY)
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
    """The library to use: `apsw` brings a newer SQLite than most systems, and costs less."""
    try:
        importlib.import_module("apsw")
    except ImportError:
        return "sqlite3"
    return "apsw"


def connect(path: Path, library: Library, *, mode: Literal["ro", "rw"]) -> Database:
    uri = f"{path.as_uri()}?mode={mode}"
    return _Apsw(uri) if library == "apsw" else _Sqlite3(uri)


def code_of(error: Exception) -> int | None:
    """SQLite's own (extended) code of an error of either library; None: it is none of theirs."""
    for name in ("sqlite_errorcode", "extendedresult"):
        code = getattr(error, name, None)
        if isinstance(code, int):
            return code
    return None


class FileReport(Struct, frozen=True, kw_only=True):
    """What there is to say of a file. `version`: of SQLite; `mode`: of its journal; `size` in
    bytes."""

    path: str
    library: Library
    version: str
    mode: str
    size: int
    sessions: int


class SqliteBackend:
    """The one that writes."""

    def __init__(self, path: str | os.PathLike[str], library: Library | None = None) -> None:
        self.path = Path(os.path.abspath(path))
        self.library: Library = library or installed()
        self._lock: int | None = None
        self._file: tuple[int, int] = (0, 0)
        self._looked = 0.0
        self._full = True  # SQLite's own default
        self.database: Database
        self._generation = 0

    # --- opening

    def open(self) -> None:
        try:
            with store_errors(self.path):
                self._open()
        except Exception:
            self.close()
            raise

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.take_lock()
        # SQLite gives the files beside it the mode of this one, which it makes by the umask.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o600)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise StoreError(f"{self.path} is no file")
            if found.st_uid != os.geteuid():
                raise StoreError(f"{self.path} belongs to another user")
            if found.st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        self._file = found.st_dev, found.st_ino
        self.database = connect(self.path, self.library, mode="rw")
        self._prepare(new=found.st_size == 0)
        self._looked = time.monotonic()

    def take_lock(self, patience: float = 0) -> None:
        """Within so many seconds. Raises `StoreInUse`."""
        deadline = time.monotonic() + patience
        while self._lock is None:
            try:
                self._take_lock()
            except StoreInUse:
                self.close()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_WAIT)

    def _take_lock(self) -> None:
        name = f"{self.path}.lock"
        self._lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(self._lock, 20, 0)
            pid = int(text) if text.strip().isdigit() else None
            who = f"process {pid}" if pid is not None else "another process"
            raise StoreInUse(f"{self.path} is being written by {who}", pid) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    def _prepare(self, *, new: bool) -> None:
        x = self.database.execute
        if new:
            x("PRAGMA auto_vacuum=INCREMENTAL")
            x(f"PRAGMA application_id={APPLICATION}")
        elif x("PRAGMA application_id")[0][0] != APPLICATION:
            raise StoreError(f"{self.path} is not a store of agentrt")
        [[version]] = x("PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} was written by a newer agentrt (its schema is {version}, and"
                f" {len(MIGRATIONS)} the newest that is known here)"
            )
        if not x("SELECT 1 FROM pragma_module_list WHERE name=?", (_SEARCH,)):
            raise StoreError(
                f"the SQLite of Python's {self.library} has no full-text search ({_SEARCH}); apsw"
                " brings one that has: pip install agentrt[sqlite]"
            )
        x("PRAGMA journal_mode=WAL")
        x(f"PRAGMA wal_autocheckpoint={_PAGES}")
        if version and version < len(MIGRATIONS):
            copy = f"{self.path}.bak-{version}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(copy)  # of an attempt that failed
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            x("VACUUM INTO ?", (copy,))
        with self.transaction():
            for migration in MIGRATIONS[version:]:
                for statement in migration.split(";"):
                    if statement.strip():
                        x(statement)
            if 0 < version < _INDEXED:
                self._index_all()
            x(f"PRAGMA user_version={len(MIGRATIONS)}")
            self._begin_generation()
            # Whoever opened them has never had a turn.
            x("DELETE FROM frame WHERE session IN (SELECT num FROM session WHERE turns=0)")
            x("DELETE FROM session WHERE turns=0")

    def _index_all(self) -> None:
        """Take the records of an older version into the index."""
        x = self.database.execute
        for num, number in x("SELECT session, number FROM record"):
            [[body]] = x("SELECT body FROM record WHERE session=? AND number=?", (num, number))
            self.index(num, decode_record(body))

    def _begin_generation(self) -> None:
        """Viewers may go on where they were, unless the machine went down under the store: then
        the last things they saw may be lost, and another generation begins."""
        x = self.database.execute
        meta = dict(x("SELECT key, value FROM meta"))
        boot = _boot()
        sure = bool(meta.get("closed")) or (boot and boot == meta.get("boot"))
        self._generation = meta.get("generation", 0) + (0 if sure or not meta else 1)
        self._set_meta(boot=boot, closed=0, generation=self._generation)

    def _set_meta(self, **values: object) -> None:
        self.database.many("INSERT OR REPLACE INTO meta VALUES(?, ?)", values.items())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        x = self.database.execute
        x("BEGIN IMMEDIATE")
        try:
            yield
            x("COMMIT")
        except BaseException:
            if self.database.in_transaction:  # SQLite may have rolled back by itself
                x("ROLLBACK")
            raise

    def finish(self) -> None:
        with self.transaction():
            self._set_meta(closed=1)
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        database = self.__dict__.pop("database", None)
        try:
            if database is not None:
                database.close()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    # --- writing

    def commit(self, flush: Flush) -> None:
        try:
            self._look()
            if flush.firm is not self._full:
                self.database.execute(f"PRAGMA synchronous={'FULL' if flush.firm else 'NORMAL'}")
                self._full = flush.firm
            with self.transaction():
                now = time.time()
                for part in flush.parts:
                    self._write(part, now)
                if flush.answers:
                    self.database.many(
                        "INSERT OR REPLACE INTO answer VALUES(?, ?, ?, ?, ?)",
                        [(a.client, a.id, a.digest, a.body, now) for a in flush.answers],
                    )
        except Exception as error:
            if is_damage(error) or code_of(error) == _MOVED:
                raise Unusable(str(as_store_error(self.path, error))) from error
            raise

    def _look(self) -> None:
        """SQLite goes on "committing" to a file that was deleted."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            raise Unusable(f"{self.path} was deleted") from None
        if (found.st_dev, found.st_ino) != self._file:
            raise Unusable(f"{self.path} was replaced by another file")

    def _write(self, part: Part, now: float) -> None:
        database = self.database
        num, owner = part.place.num, part.place.owner
        last = part.first + len(part.events) - 1
        if not database.change(
            "UPDATE session SET next=?, updated=? WHERE num=? AND owner=? AND next=?",
            (last + 1, now, num, owner, part.first),
        ):
            found = database.execute("SELECT owner, next FROM session WHERE num=?", (num,))
            if not found:
                return  # it was deleted
            if found[0] != (owner, last + 1):
                raise Unusable(f"a session of {self.path} was written by somebody else")
            return  # its commit failed only as far as we know
        database.execute(
            "INSERT INTO frame(session, first, last, owner, at, body) VALUES(?,?,?,?,?,?)",
            (num, part.first, last, owner, now, encode_events(part.events)),
        )
        if part.row is not None:
            row = part.row
            database.execute(
                "UPDATE session SET title=?, prompt=?, phase=?, turns=?, about=? WHERE num=?",
                (row.title, row.prompt, row.phase, row.turns, encode(row.about), num),
            )
        for record in part.records.values():
            database.execute(
                "INSERT OR REPLACE INTO record(session, number, last, body) VALUES(?,?,?,?)",
                (num, record.number, last, encode_record(record)),
            )
            self.index(num, record)
        if part.head is not None:
            database.execute(
                "UPDATE session SET head=?, head_seq=? WHERE num=?",
                (encode(part.head), part.head.seq, num),
            )

    def index(self, num: int, record: Record) -> None:
        text = text_of(record)
        if text:
            self.database.execute(
                "INSERT OR REPLACE INTO said(rowid, text) VALUES(?,?)",
                (num << SHIFT | record.number, text),
            )

    def create(self, session: str, epoch: str, about: About) -> Place:
        with self.transaction():
            now = time.time()
            self.database.execute(
                "INSERT INTO session(id, epoch, generation, owner, next, agent, cwd, phase,"
                " created, updated, about, head) VALUES(?,?,?,1,1,?,?,'starting',?,?,?,x'')",
                (
                    *(session, epoch, self._generation, about.agent, about.cwd),
                    *(now, now, encode(about)),
                ),
            )
            [[num]] = self.database.execute("SELECT num FROM session WHERE id=?", (session,))
        return Place(num, 1)

    def claim(self, session: str) -> Place | None:
        with self.transaction():
            x = self.database.execute
            x("UPDATE session SET owner=owner+1 WHERE id=?", (session,))
            found = x("SELECT num, owner FROM session WHERE id=?", (session,))
        return Place(*found[0]) if found else None

    def delete(self, session: str) -> bool:
        with self.transaction():
            return self._forget(session)

    def _forget(self, session: str) -> bool:
        x = self.database.execute
        found = x("SELECT num FROM session WHERE id=?", (session,))
        if found:
            [[num]] = found
            x("DELETE FROM said WHERE rowid>=? AND rowid<?", (num << SHIFT, num + 1 << SHIFT))
            x("DELETE FROM frame WHERE session=?", found[0])
            x("DELETE FROM record WHERE session=?", found[0])
            x("DELETE FROM session WHERE num=?", found[0])
            x("DELETE FROM chat WHERE session=?", (session,))
        return bool(found)

    def sessions(self) -> list[str]:
        """The ids of those that had a turn."""
        found = self.database.execute("SELECT id FROM session WHERE turns>0")
        return [id for (id,) in found]

    def pack(self, session: str) -> Packed | None:
        """All of a session, for `put` of another file; it stays here."""
        x = self.database.execute
        found = x(f"SELECT num, epoch, generation, {_CARRIED} FROM session WHERE id=?", (session,))
        if not found:
            return None
        [[num, epoch, born, *row]] = found
        if born != self._generation:
            epoch = f"{epoch}.{self._generation}"
        return Packed(
            session,
            (epoch, *row),
            x("SELECT number, last, body FROM record WHERE session=? ORDER BY number", (num,)),
            x(f"SELECT {_FRAME} FROM frame WHERE session=? ORDER BY first", (num,)),
        )

    def put(self, packed: Packed) -> None:
        x = self.database.execute
        owner, next = packed.row[1:3]
        known = x("SELECT owner, next FROM session WHERE id=?", (packed.session,))
        if known and known[0] > (owner, next):
            return
        x("PRAGMA synchronous=FULL")  # it will be deleted where it was
        self._full = True
        with self.transaction():
            self._forget(packed.session)
            places = ", ".join("?" * (len(packed.row) + 2))
            x(
                f"INSERT INTO session(id, generation, epoch, {_CARRIED}) VALUES({places})",
                (packed.session, self._generation, *packed.row),
            )
            [[num]] = x("SELECT num FROM session WHERE id=?", (packed.session,))
            for number, last, body in packed.records:
                x("INSERT INTO record VALUES(?,?,?,?)", (num, number, last, body))
                self.index(num, decode_record(body))
            self.database.many(
                f"INSERT INTO frame(session, {_FRAME}) VALUES(?,?,?,?,?,?)",
                [(num, *frame) for frame in packed.frames],
            )

    def vacuum(self) -> None:
        """Make the file as small as what is in it. What was deleted is gone from it then."""
        x = self.database.execute
        x("INSERT INTO said(said) VALUES('optimize')")
        x("VACUUM")
        x("PRAGMA wal_checkpoint(TRUNCATE)")

    def name_chat(self, chat: str, session: str) -> None:
        self.database.change("INSERT OR REPLACE INTO chat VALUES(?, ?)", (chat, session))

    def tidy(self, older: float) -> None:
        self.database.change("DELETE FROM answer WHERE at<?", (time.time() - _ANSWERS,))
        before = time.time() - older
        gone = 1
        while gone:  # in pieces: other sessions wait for the commit meanwhile
            with self.transaction():
                gone = self.database.change(
                    "DELETE FROM frame WHERE id IN (SELECT frame.id FROM frame JOIN session"
                    " ON num=session WHERE at<? AND last<=head_seq LIMIT 500)",
                    (before,),
                )
        self.database.execute("PRAGMA incremental_vacuum(200)")


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], *, patience: float = 0) -> Iterator[SqliteBackend]:
    """A file, to be changed in the block; `patience`: seconds to wait for whoever writes it now.
    Raises `StoreError`."""
    backend = SqliteBackend(path)
    try:
        with store_errors(backend.path):
            backend.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            backend.take_lock(patience)
            backend.open()
            yield backend
            backend.finish()
    finally:
        backend.close()


class Outdated(StoreError):
    """A file of an older version: who opens it to write brings it up to date."""


class SqliteReader:
    """Reads, beside the one that writes; also where none does."""

    def __init__(self, path: str | os.PathLike[str], library: Library | None = None) -> None:
        self._path = Path(os.path.abspath(path))
        self._library: Library = library or installed()
        if not self._path.exists():
            raise StoreError(f"there is no store {self._path}")
        with store_errors(self._path):
            self._database = connect(self._path, self._library, mode="ro")
            try:
                [[application]] = self._execute("PRAGMA application_id")
                [[version]] = self._execute("PRAGMA user_version")
            except Exception:
                self.close()
                raise
        if application != APPLICATION or version != len(MIGRATIONS):
            self.close()
            if application == APPLICATION and 0 < version < len(MIGRATIONS):
                raise Outdated(f"{self._path} is of an older agentrt, and not brought up to date")
            raise StoreError(f"{self._path} is not a store that this agentrt can read")

    def _execute(self, sql: str, args: Sequence[Any] = ()) -> list[Any]:
        return self._database.execute(sql, args)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """What is read in the block is of one moment."""
        with store_errors(self._path):
            self._execute("BEGIN")
            try:
                yield
            finally:
                self._execute("ROLLBACK")

    def sessions(self, query: Query) -> list[StoreEntry]:
        where, args = "tenant='' AND turns>0", list[Any]()
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
        return [_entry(row) for row in rows]

    def find(self, prefix: str) -> list[StoreEntry]:
        prefix = clean(prefix)
        with self._reading():
            rows = self._execute(
                f"{_ENTRIES} WHERE id>=? AND id<? ORDER BY id LIMIT {_FEW}",
                (prefix, prefix + "\U0010ffff"),
            )
            if not rows and prefix:
                rows = self._execute(
                    f"{_ENTRIES} WHERE instr(about, ?) ORDER BY updated DESC LIMIT {_FEW}",
                    (b'"agent_session":' + encode(prefix)[:-1],),
                )
        return [_entry(row) for row in rows]

    def report(self) -> FileReport:
        with self._reading():
            [[sessions]] = self._execute("SELECT count(*) FROM session WHERE turns>0")
            [[mode]] = self._execute("PRAGMA journal_mode")
            [[version]] = self._execute("SELECT sqlite_version()")
        size = sum(
            os.path.getsize(file)
            for end in ("", "-wal")
            if os.path.exists(file := f"{self._path}{end}")
        )
        return FileReport(
            path=str(self._path),
            library=self._library,
            version=version,
            mode=mode,
            size=size,
            sessions=sessions,
        )

    def search(self, words: str, limit: int) -> list[StoreHit]:
        wanted = words_of(words)
        if not wanted:
            return []
        where, args = "tenant='' AND turns>0", list[Any]()
        for word in wanted:
            condition, value = _condition(word)
            where += (
                f" AND (num IN (SELECT rowid>>{SHIFT} FROM said WHERE {condition})"
                r" OR title LIKE ? ESCAPE '\')"
            )
            args += (value, word.like)
        with self._reading():
            rows = self._execute(
                f"{_ENTRIES} WHERE {where} ORDER BY updated DESC, id DESC LIMIT ?", (*args, limit)
            )
            return [StoreHit(entry=_entry(row), snippet=self._snippet(row, wanted)) for row in rows]

    def _snippet(self, row: Sequence[Any], words: list[Word]) -> str:
        """Of the record of a session that has the most of the words, more or less."""
        num = row[-1]
        known = [word.match for word in words if word.match is not None]
        within = f"rowid>={num << SHIFT} AND rowid<{num + 1 << SHIFT}"
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

    def load(self, session: str) -> Stored | None:
        with self._reading():
            found = self._execute(
                "SELECT num, epoch, generation, next, created, about, head FROM session WHERE id=?",
                (session,),
            )
            if not found:
                return None
            [[num, epoch, born, next, created, about, head]] = found
            bodies = self._execute(
                "SELECT body FROM record WHERE session=? ORDER BY number", (num,)
            )
            behind = decode_head(head)
            events = [event for _, event in self._events(num, behind.seq)]
            generation = dict(self._execute("SELECT key, value FROM meta"))["generation"]
        return Stored(
            about=decode_about(about),
            epoch=epoch if generation == born else f"{epoch}.{generation}",
            created=created,
            next=next,
            head=behind,
            records=[decode_record(body) for (body,) in bodies],
            events=events,
        )

    def chats(self) -> dict[str, str]:
        with self._reading():
            return dict(self._execute("SELECT name, session FROM chat"))

    def answers(self) -> list[Answer]:
        with self._reading():
            rows = self._execute("SELECT client, id, digest, body FROM answer ORDER BY at")
        return [Answer(*row) for row in rows]

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        with self._reading():
            found = self._execute("SELECT num FROM session WHERE id=?", (session,))
            return self._events(found[0][0], after) if found else None

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None:
        with self._reading():
            found = self._execute("SELECT num FROM session WHERE id=?", (session,))
            if not found:
                return None
            rows = self._execute(
                "SELECT body FROM record WHERE session=? AND number<? ORDER BY number DESC LIMIT ?",
                (found[0][0], _ALL if before is None else before, count),
            )
        return [decode_record(body) for (body,) in reversed(rows)]

    def _events(self, num: int, after: int) -> list[tuple[int, Event]]:
        """Those behind number `after` that are kept, with their numbers."""
        rows = self._execute(
            "SELECT first, body FROM frame WHERE session=? AND last>? ORDER BY first", (num, after)
        )
        numbered = (each for first, body in rows for each in enumerate(decode_events(body), first))
        return [each for each in numbered if each[0] > after]

    def close(self) -> None:
        self._database.close()


def _condition(word: Word) -> tuple[str, str]:
    """For the rows of `said` that have a word."""
    if word.match is not None:
        return "said MATCH ?", word.match
    return r"text LIKE ? ESCAPE '\'", word.like


def _entry(row: Sequence[Any]) -> StoreEntry:
    """Of a row of `_ENTRIES`."""
    id, agent, cwd, title, prompt, turns, created, updated, about, _ = row
    return StoreEntry(
        session=id,
        agent=agent,
        cwd=cwd,
        title=title,
        prompt=prompt,
        turns=turns,
        created=created,
        updated=updated,
        agent_session=decode_about(about).agent_session,
    )


def _boot() -> str:
    """Another one after each start of the machine; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that a file is corrupt, or no database at all."""
    code = code_of(error)
    return code is not None and code & 0xFF in (_CORRUPT, _NOTADB)


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise what SQLite and the system say in the block as `StoreError`."""
    try:
        yield
    except Exception as error:
        known = as_store_error(path, error)
        if known is error:
            raise
        raise known from error


def as_store_error(path: Path, error: Exception) -> Exception:
    """What went wrong with a file, as a `StoreError`; an error that is none of SQLite's or of the
    system's stays what it is."""
    if is_damage(error):
        repair = "`agentrt sessions repair` saves what can be read"
        return StoreDamaged(f"{path} is damaged: {error} ({repair})")
    if isinstance(error, OSError) or code_of(error) is not None:
        return StoreError(f"{path} cannot be used: {error}")
    return error
