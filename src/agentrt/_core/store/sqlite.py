"""The writer of a store's file: one process writes at a time, and any process may read.

The file belongs to one user, and one process writes it at a time, which holds a lock file next to
it. All other connections only read: two connections that write or checkpoint at the same moment
could damage the file, by a defect of SQLite before 3.51.3.

**Data.** A `session` row has the present facts about a session and its `head`; `record` rows have
the turns and items up to the head; `frame` rows have the events, in the order in which they were
committed. Rows and records are derived from the events and may be written later. `_late`,
`_late_rows` and `_unindexed` have the data that is postponed, until the next flush that needs a
transaction anyway, the amount exceeds a limit, or the file is closed. If the process ends before,
`_prepare` derives the rows from the frames.

**Commits.** The usual flush only has frames and is one INSERT, which is atomic without BEGIN and
COMMIT. `commit` is called from one thread, the store's writer.

**Owners.** Each claim of a session increments its `owner`. A flush names the owner and the first
event that it expects to write; if the row differs from that, another program has written the
session (`Unusable`), or the flush was committed although its commit reported an error.

**Lost events.** A file can lose its last events: by a power failure with `synchronous=NORMAL`, by a
restored backup, or by a deleted write-ahead log. `_begin_generation` recognizes this when the file
is opened, by the boot id, a random mark that is stored in the file and in the lock file, and the
inode of the log. The generation is part of each log's epoch, so that viewers do not continue at
event numbers that now mean something else.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ..errors import RemoteProtocolError, StoreError, StoreInUse
from ..logging import get_logger
from ..model.checkpoint import Head, Record
from ..model.events import TurnStarted
from ..process.chosen import LAYER
from . import schema
from .base import (
    PROMPTED,
    Flush,
    FlushPart,
    ImportingBackend,
    Packed,
    SessionClaim,
    SessionDescription,
    SessionRow,
    Unusable,
    decode_events,
    decode_record,
    encode,
    encode_events,
    encode_record,
)
from .database import Database, as_store_error, code_of, is_damage, store_errors
from .reader import SqliteReader
from .search import RECORD_BITS, text_of

logger = get_logger("store")

_MAX_UNINDEXED_RECORDS = 64  # maximum number of records that wait for being indexed
_FIRST_INDEXED_VERSION = 2  # the first version whose records are in the index `said`

_CHECKPOINT_PAGES = 1000  # of the write-ahead log, after which the writer checkpoints it
_FILE_CHECK_INTERVAL_S = 1.0  # seconds between two checks that the file is still there
_LOCK_RETRY_S = 0.05  # seconds between two attempts to take a lock
_FRAMES_PER_STATEMENT = 64  # frames per statement; apsw caches as many statements, and some more
_LARGE_RECORD_CHARS = (
    512 * 1024
)  # characters of a record that is too large to be written during a commit
_MAX_POSTPONED_CHARS = 32 * _LARGE_RECORD_CHARS  # of all records that are postponed
_TURN = b'"turn.started"'  # occurs in each frame with the start of a turn
_MAX_ROW_DELAY_S = 1.0  # seconds for which a session's row is postponed, or a little more

_PACKED_COLUMNS = (
    "agent, cwd, title, prompt, phase, turns, tenant, created, updated, about, head, head_seq"
)
_FRAME = "first, last, owner, at, body"
_INSERT = f"INSERT INTO frame(session, {_FRAME}) VALUES(?,?,?,?,?,?)"
_ROW = "next=?, updated=?, title=?, prompt=?, phase=?, turns=?, about=?, cwd=?"
_HEAD = "head=?, head_seq=?"
_SET_ROW = f"UPDATE session SET {_ROW} WHERE num=?"
_SET_HEAD = f"UPDATE session SET {_HEAD} WHERE num=?"
_SET_BOTH = f"UPDATE session SET {_ROW}, {_HEAD} WHERE num=?"

_READONLY_DBMOVED = 1032

_WAL, _SHM = "-wal", "-shm"
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # the first bytes of a write-ahead log

_written: set[tuple[int, int]] = set()
"""The files that this process writes: device and inode."""


class SqliteBackend(ImportingBackend):
    """The writer of a file."""

    gather_s = 0.0025  # with many streaming sessions, each flush has events of several of them
    min_interval_s = 0.0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Prepare to write the file at `path`; `open` creates it."""
        self.path = Path(os.path.abspath(path))
        self._lock: int | None = None
        self._ahead_s = 0.0
        """Seconds by which the clock was set back since the file was written last."""
        self._inode: int | None = None
        """The file itself, open for a lock that applies under any name of the file."""
        self._last = ""
        """The identity of the file that was written here last, from the lock file."""
        self._file: tuple[int, int] = (0, 0)
        self._side_files: dict[str, tuple[int, int] | None] = {}
        """Device and inode of the other files in use, by the suffix of their names."""
        self._last_wal = ""
        """The inode of the write-ahead log that was written here last; empty if it is unknown."""
        self._checked_at = 0.0
        self._full = True  # SQLite's own default
        self.database: Database
        self._generation = 0
        self._places: dict[int, tuple[int, int]] = {}
        """The owner and the next event of each session that was written, where they are certain."""
        self._unindexed: dict[tuple[int, int], Record] = {}
        self._late: dict[int, tuple[Head, dict[int, Record]]] = {}
        """Postponed checkpoints, by session; until then the frames contain the same data."""
        self._late_size = 0
        self._rows: dict[int, tuple[str | None, str, SessionDescription, bytes]] = {}
        """The fields of the sessions' rows, except phase and turns, as they were written last; and
        the last field encoded."""
        self._late_rows: dict[int, tuple[SessionRow, int, float]] = {}
        """Postponed rows, with the session's next event and the time: see `_is_minor`."""
        self._late_since = math.inf

    # --- opening

    def open(self) -> None:
        """Open and migrate the file. Nothing stays open or locked after an error."""
        try:
            with store_errors(self.path):
                self._open()
        except Exception:
            self.close()
            raise

    def _open(self) -> None:
        """Lock the file and open the database, with access for this user only.

        Raises `StoreError` for a file that is no regular one or belongs to another user, and
        `StoreInUse` if another process writes it, also under another name. The lock is held until
        `close`.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.take_lock()
        # SQLite creates its other files with the mode of this one, which it creates by the umask.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with contextlib.suppress(FileNotFoundError):
            self._check_other_name(os.lstat(self.path))
        descriptor = self._inode = os.open(self.path, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{self.path} is not a regular file")
        if found.st_uid != os.geteuid():
            raise StoreError(f"{self.path} belongs to another user")
        if found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(
                f"{self.path} is being written by another process, under another name", None
            ) from None
        self._file = found.st_dev, found.st_ino
        _written.add(self._file)
        wal = _identity(f"{self.path}{_WAL}")  # before SQLite creates a new one
        self._prepare_on(wal)
        self._checked_at = time.monotonic()

    def _check_other_name(self, found: os.stat_result) -> None:
        """Raise `StoreInUse` if this process writes the file under another name. To open and close
        it once more would release the locks of SQLite."""
        if (found.st_dev, found.st_ino) in _written:
            raise StoreInUse(
                f"{self.path} is being written by this process, under another name", os.getpid()
            )

    def take_lock(self, timeout_s: float = 0) -> None:
        """Take the lock within `timeout_s` seconds. Raises `StoreInUse`."""
        deadline = time.monotonic() + timeout_s
        while self._lock is None:
            try:
                self._take_lock()
            except StoreInUse:
                self.close()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOCK_RETRY_S)

    def _take_lock(self) -> None:
        """Take the lock once, without waiting, and enter this process in the lock file.

        The first line of the lock file is the writer's process id, for the error message of others.
        The second and third are left by the previous writer; see `_write_last`. Raises
        `StoreInUse`.
        """
        name = f"{self.path}.lock"
        self._lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(self._lock, 20, 0).partition(b"\n")[0]
            pid = int(text) if text.isdigit() else None
            who = f"process {pid}" if pid is not None else "another process"
            raise StoreInUse(f"{self.path} is being written by {who}", pid) from None
        lines = os.pread(self._lock, 200, 0).decode("ascii", "replace").split("\n")
        _, self._last, self._last_wal, *_ = [*lines, "", "", ""]
        self._write_last()

    def _write_last(self) -> None:
        """Store in the lock file the process that writes the store, the file that was written here
        last, and the inode of its write-ahead log."""
        assert self._lock is not None
        text = f"{os.getpid()}\n{self._last}\n{self._last_wal}\n"
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text.encode(), 0)

    def _prepare_on(self, wal: tuple[int, int] | None) -> None:
        """Connect to the file with the write-ahead log `wal`."""
        self.database = Database(self.path, "rw")
        lost = bool(self._last_wal) and (wal is None or str(wal[1]) != self._last_wal)
        self._prepare(lost=lost)
        [[newest]] = self.database.execute("SELECT max(updated) FROM session")
        self._ahead_s = max(0.0, (newest or 0.0) - time.time())
        self._side_files = {end: _identity(f"{self.path}{end}") for end in (_WAL, _SHM)}
        assert self._lock is not None
        lock = os.fstat(self._lock)
        self._side_files[".lock"] = lock.st_dev, lock.st_ino
        wal = self._side_files[_WAL]
        self._last_wal = "" if wal is None else str(wal[1])
        self._write_last()

    def _time(self) -> float:
        """Return the time in seconds, but never less than the times that are stored, also if the
        clock was set back."""
        return time.time() + self._ahead_s

    def _new_mark(self) -> None:
        """Change the file's mark, in a transaction, so that earlier copies of the file are known to
        be older. Call `_write_last` after the transaction."""
        mark = secrets.token_hex(8)
        self._last = self._marked(mark)
        self._set_meta(mark=mark)

    def _marked(self, mark: object) -> str:
        """Return the text by which the lock file identifies a file: its mark and its inode.

        A copy has the same mark but another inode; an older version of the file has another mark.
        """
        return f"{mark} {self._file[1]}"

    def _prepare(self, *, lost: bool) -> None:
        """Configure, migrate and clean the file. `lost`: its write-ahead log is not the one that
        was written last."""
        x = self.database.execute
        [[application]] = x("PRAGMA application_id")
        if not application and not x("SELECT 1 FROM sqlite_master LIMIT 1"):
            # A new file; or one whose creation was interrupted, which need not be empty.
            x("PRAGMA auto_vacuum=INCREMENTAL")
            x(f"PRAGMA application_id={schema.APPLICATION_ID}")
        elif application != schema.APPLICATION_ID:
            raise StoreError(f"{self.path} is not a store of agentrt")
        [[version]] = x("PRAGMA user_version")
        if version > len(schema.MIGRATIONS):
            raise StoreError(
                f"{self.path} was written by a newer agentrt (its schema is {version}, and"
                f" {len(schema.MIGRATIONS)} the newest that is known here)"
            )
        x("PRAGMA journal_mode=WAL")
        x(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        if version and version < len(schema.MIGRATIONS):
            copy = f"{self.path}.bak-{version}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(copy)  # from an attempt that failed
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            x("VACUUM INTO ?", (copy,))
        with self.transaction():
            for migration in schema.MIGRATIONS[version:]:
                for statement in migration.split(";"):
                    if statement.strip():
                        x(statement)
            x(f"PRAGMA user_version={len(schema.MIGRATIONS)}")
            self._index_since(0 if 0 < version < _FIRST_INDEXED_VERSION else None)
            if not dict(x("SELECT key, value FROM meta")).get("closed", True):
                self._catch_up_rows()
            self._begin_generation(lost=lost)
            never = f"NOT {PROMPTED}"
            x(f"DELETE FROM frame WHERE session IN (SELECT num FROM session WHERE {never})")
            x(f"DELETE FROM session WHERE {never}")
        self._write_last()

    def _index_since(self, moment: float | None) -> None:
        """Index records that are missing from the index: those of sessions written since `moment`;
        None: since the index was last complete."""
        x = self.database.execute
        meta = dict(x("SELECT key, value FROM meta"))
        if moment is None and meta.get("closed", True):
            return
        if moment is None:
            moment = meta.get("indexed", 0)
        for num, number in x(
            "SELECT session, number FROM record JOIN session ON num=session WHERE updated>=?",
            (moment,),
        ):
            [[body]] = x("SELECT body FROM record WHERE session=? AND number=?", (num, number))
            with contextlib.suppress(RemoteProtocolError):  # it cannot be shown either
                self.index(num, decode_record(body))

    def _catch_up_rows(self) -> None:
        """Count the turns that are only in frames: their rows were postponed when the process, or
        the machine, went down."""
        x = self.database.execute
        found = x(
            "SELECT num, last, at, body FROM session JOIN frame ON frame.session=num"
            " AND first>=next WHERE instr(body, ?) ORDER BY first",
            (_TURN,),
        )
        for num, last, at, body in found:
            with contextlib.suppress(RemoteProtocolError):  # it cannot be shown either
                if turns := sum(isinstance(event, TurnStarted) for event in decode_events(body)):
                    x(
                        "UPDATE session SET next=?, updated=?, turns=turns+? WHERE num=?",
                        (last + 1, at, turns, num),
                    )

    def _begin_generation(self, *, lost: bool) -> None:
        """Begin a new generation if the last events may be lost, so that viewers do not continue.

        This is the case if the machine went down while the store was open, if the file is not the
        one that was written here last (a backup was restored), or if its write-ahead log is `lost`.
        """
        x = self.database.execute
        meta = dict(x("SELECT key, value FROM meta"))
        boot = LAYER.boot_id()
        sure = bool(meta.get("closed")) or (boot and boot == meta.get("boot"))
        mark = meta.get("mark")
        if mark is not None:  # files of older versions have none
            sure = sure and self._last == self._marked(mark)
        if lost and not meta.get("closed"):
            sure = False
        if meta and not sure:
            logger.error(
                "%s: the last events may be lost (the machine went down, or the file or its"
                " write-ahead log was replaced): the logs of its sessions have a new epoch",
                self.path,
            )
        self._generation = meta.get("generation", 0) + (0 if sure or not meta else 1)
        self._set_meta(boot=boot, closed=0, generation=self._generation)
        self._new_mark()

    def _set_meta(self, **values: object) -> None:
        """Set keys of the table `meta`."""
        self.database.many("INSERT OR REPLACE INTO meta VALUES(?, ?)", values.items())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction, which is rolled back if the block raises."""
        x = self.database.execute
        x("BEGIN IMMEDIATE")
        try:
            yield
            x("COMMIT")
        except BaseException:
            if self.database.in_transaction:  # SQLite may have rolled back by itself
                x("ROLLBACK")
            raise

    def __str__(self) -> str:
        return str(self.path)

    def reader(self) -> SqliteReader:
        return SqliteReader(self.path)

    def finish(self) -> None:
        """Write everything that is postponed, and mark the file as closed in order.

        A file that is closed in order needs neither recovery nor a new generation when it is
        opened.
        """
        with self.transaction():
            self._write_postponed()
            self._set_meta(closed=1)
            self._new_mark()
        self._write_last()
        self._forget_postponed()
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the database, then release the locks. Can be called at any time, more than once.

        The order matters: another process may write the file as soon as it has the lock.
        """
        database = vars(self).pop("database", None)
        try:
            if database is not None:
                database.close()
        finally:
            if self._inode is not None:
                os.close(self._inode)
                self._inode = None
                _written.discard(self._file)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    # --- writing

    def commit(self, flush: Flush) -> None:
        """Write a flush, atomically.

        After an error the caches are dropped, because the commit may have succeeded: the flush can
        be tried again, and `_write` recognizes frames that are there. Raises `Unusable` if the file
        is damaged or was moved, so that another attempt is pointless.
        """
        try:
            self._check_files()
            self._set_synchronous(fsync=flush.fsync)
            now = self._time()
            due = now - self._late_since > _MAX_ROW_DELAY_S
            if not due and self._is_one_statement(flush):
                self._write_all(flush.parts, now)
            else:
                self._commit_transaction(flush, now, late_rows=due)
        except Exception as error:
            self._forget_known()  # the data may be written nevertheless
            if is_damage(error) or code_of(error) == _READONLY_DBMOVED:
                raise Unusable(str(as_store_error(self.path, error))) from error
            raise

    def _set_synchronous(self, *, fsync: bool) -> None:
        """Set whether commits survive a power failure."""
        if fsync is not self._full:
            self.database.execute(f"PRAGMA synchronous={'FULL' if fsync else 'NORMAL'}")
            self._full = fsync

    def _is_one_statement(self, flush: Flush) -> bool:
        """True if one statement writes the flush. It needs no transaction to be atomic."""
        few = not flush.answers and len(flush.parts) <= _FRAMES_PER_STATEMENT
        return few and all(map(self._is_plain, flush.parts))

    def _commit_transaction(self, flush: Flush, now: float, *, late_rows: bool) -> None:
        """Write a flush in a transaction. `late_rows`: write the postponed rows, too."""
        with self.transaction():
            self._write_all(flush.parts, now)
            if late_rows:
                self._write_late_rows()
            if flush.answers:
                self.database.many(
                    "INSERT OR REPLACE INTO answer VALUES(?, ?, ?, ?, ?)",
                    [(a.client, a.id, a.digest, a.body, now) for a in flush.answers],
                )
            many = (
                len(self._unindexed) >= _MAX_UNINDEXED_RECORDS
                or self._late_size >= _MAX_POSTPONED_CHARS
            )
            if many:
                self._write_postponed()
        if late_rows:
            self._forget_late_rows()
        if many:
            self._forget_postponed()

    def _check_files(self) -> None:
        """Check that all files are in place: SQLite continues to "commit" to deleted ones."""
        now = time.monotonic()
        if now - self._checked_at < _FILE_CHECK_INTERVAL_S:
            return
        self._checked_at = now
        self._check_file("", self._file)
        try:
            for end, identity in self._side_files.items():
                self._check_file(end, identity)
        except Unusable:
            # The file itself is in place, and the commits are in the log that SQLite has open:
            # checkpoint it while that is possible.
            with contextlib.suppress(Exception):
                self.database.execute("PRAGMA wal_checkpoint(PASSIVE)")
            raise
        with open(f"{self.path}{_WAL}", "rb") as log:
            if log.read(4) not in _WAL_MAGIC:
                raise Unusable(f"{self.path}{_WAL} was overwritten or cut off")

    def _check_file(self, end: str, identity: tuple[int, int] | None) -> None:
        """Raise `Unusable` unless a file is still the one that was opened."""
        path = f"{self.path}{end}"
        found = _identity(path)
        if found is None and identity is not None:
            raise Unusable(f"{path} was deleted")
        if found != identity:
            raise Unusable(f"{path} was replaced by another file")

    def _write_all(self, parts: list[FlushPart], now: float) -> None:
        """Write parts, many frames per statement: after each statement the thread must get the
        interpreter back from the threads that use it."""
        frames = [frame for part in parts if (frame := self._write(part, now)) is not None]
        for start in range(0, len(frames), _FRAMES_PER_STATEMENT):
            some = frames[start : start + _FRAMES_PER_STATEMENT]
            self.database.execute(
                _INSERT + ",(?,?,?,?,?,?)" * (len(some) - 1),
                tuple(chain.from_iterable(some)),
            )

    def _write(self, part: FlushPart, now: float) -> tuple[object, ...] | None:
        """Write a session's records and row, and return its frame, if it must be written."""
        num, owner = part.place.num, part.place.owner
        last = part.first + len(part.events) - 1
        known = self._places.get(num) or self._place(num)
        if known is None:
            return None  # it was deleted
        if known != (owner, part.first):
            if known != (owner, last + 1):
                raise Unusable(f"a session of {self.path} was written by another program")
            return None  # it was committed: only the report of that failed
        self._places[num] = owner, last + 1
        row, head = part.row, part.head
        if head is not None:
            size = sum(map(_text, part.records.values()))
            late = self._late.get(num)
            if late is not None or size > _LARGE_RECORD_CHARS:
                self._late[num] = head, {**(late[1] if late else {}), **part.records}
                self._late_size += size
                head = None
            else:
                self._write_records(num, head, part.records)
        if row is not None:
            if self._is_minor(part):
                self._late_rows[num] = row, last + 1, now
                self._late_since = min(self._late_since, now)
            else:
                self._write_row(num, row, last + 1, now, head)
                if self._late_rows.pop(num, None) is not None and not self._late_rows:
                    self._late_since = math.inf
        return num, part.first, last, owner, now, encode_events(part.events)

    def _is_plain(self, part: FlushPart) -> bool:
        """True if only the frame of the part must be written now."""
        return part.row is None or self._is_minor(part)

    def _is_minor(self, part: FlushPart) -> bool:
        """True if the part's row can be postponed: it only reports that a turn has begun, other
        than the session's first, or that a question is open. The frame contains this, too."""
        row, known = part.row, self._rows.get(part.place.num)
        if row is None or known is None or part.head is not None or row.turns < 2:
            return False
        return known[:3] == (row.title, row.prompt, row.about)

    def _write_row(
        self, num: int, row: SessionRow, next: int, now: float, head: Head | None
    ) -> None:
        """Write a session's row, with its head if that is new.

        `next`: the number of the next event.

        The description is encoded again only if it is another object than last time, as it rarely
        changes.
        """
        known = self._rows.get(num)
        about = known[3] if known is not None and known[2] is row.about else encode(row.about)
        self._rows[num] = row.title, row.prompt, row.about, about
        values = (next, now, row.title, row.prompt, row.phase, row.turns, about, row.about.cwd)
        if head is None:
            self.database.execute(_SET_ROW, (*values, num))
        else:
            self.database.execute(_SET_BOTH, (*values, encode(head), head.seq, num))

    def _write_late_rows(self) -> None:
        """Write the postponed rows, which are forgotten after the transaction is committed."""
        for num, (row, next, at) in self._late_rows.items():
            self._write_row(num, row, next, at, None)

    def _forget_late_rows(self) -> None:
        """Drop the postponed rows, which are committed now."""
        self._late_rows.clear()
        self._late_since = math.inf

    def _forget_known(self) -> None:
        """Forget the cached contents of the file, which are uncertain."""
        self._places.clear()
        self._rows.clear()

    def _write_records(self, num: int, head: Head, records: dict[int, Record]) -> None:
        """Write records of a session's history, to be indexed for search later."""
        for record in records.values():
            self.database.execute(
                "INSERT OR REPLACE INTO record(session, number, last, body) VALUES(?,?,?,?)",
                (num, record.number, head.seq, encode_record(record)),
            )
            self._unindexed[num, record.number] = record

    def _place(self, num: int) -> tuple[int, int] | None:
        """Return the owner and the next event of a session; None if it does not exist."""
        found = self.database.execute(
            f"SELECT owner, {schema.NEXT} FROM session WHERE num=?", (num,)
        )
        return found[0] if found else None

    def index(self, num: int, record: Record) -> None:
        """Add the text of a record to the index."""
        text = text_of(record)
        if text:
            self.database.execute(
                "INSERT OR REPLACE INTO said(rowid, text) VALUES(?,?)",
                (num << RECORD_BITS | record.number, text),
            )

    def catch_up(self) -> None:
        """Write the postponed data now, for readers that need it, such as a search."""
        if self._unindexed or self._late or self._late_rows:
            with self.transaction():
                self._write_postponed()
            self._forget_postponed()

    def _write_postponed(self) -> None:
        """Write all postponed data, which is forgotten after the transaction is committed."""
        for num, (head, records) in self._late.items():
            self._write_records(num, head, records)
            self.database.execute(_SET_HEAD, (encode(head), head.seq, num))
        # Many together cost a tenth of what they cost one by one.
        for (num, _), record in self._unindexed.items():
            self.index(num, record)
        self._write_late_rows()
        self._set_meta(indexed=self._time())

    def _forget_postponed(self) -> None:
        """Drop the postponed data, which is committed now."""
        self._forget_late_rows()
        self._unindexed.clear()
        self._late.clear()
        self._late_size = 0

    def create(self, session: str, epoch: str, about: SessionDescription) -> SessionClaim:
        """Add a session with its description. The head stays empty until its first checkpoint."""
        with self.transaction():
            now = self._time()
            self.database.execute(
                "INSERT INTO session(id, epoch, generation, owner, next, agent, cwd, tenant, phase,"
                " created, updated, about, head) VALUES(?,?,?,1,1,?,?,?,'starting',?,?,?,x'')",
                (
                    session,
                    epoch,
                    self._generation,
                    about.agent,
                    about.cwd,
                    about.tenant,
                    now,
                    now,
                    encode(about),
                ),
            )
            [[num]] = self.database.execute("SELECT num FROM session WHERE id=?", (session,))
        return SessionClaim(num, 1)

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        """Take a session over, by making every earlier claim of it invalid.

        None: it does not exist.

        Returns no lease that could expire: no other process can write the file.
        """
        self.catch_up()  # its next records are numbered after those that are read now
        with self.transaction():
            x = self.database.execute
            x("UPDATE session SET owner=owner+1 WHERE id=?", (session,))
            found = x("SELECT num, owner FROM session WHERE id=?", (session,))
        self._forget_known()
        return SessionClaim(*found[0]) if found else None

    def release(self, place: SessionClaim) -> None:
        pass  # no other process could claim it

    def discard(self, place: SessionClaim) -> None:
        """Delete a session that this claim still owns."""
        with self.transaction():
            for (session,) in self.database.execute(
                "SELECT id FROM session WHERE num=? AND owner=?", (place.num, place.owner)
            ):
                self._forget(session)

    def delete(self, session: str) -> bool:
        with self.transaction():
            return self._forget(session)

    def _forget(self, session: str) -> bool:
        """Delete a session with all its data, within a transaction.

        Returns False if it does not exist.
        """
        x = self.database.execute
        found = x("SELECT num FROM session WHERE id=?", (session,))
        if found:
            [[num]] = found
            self._places.pop(num, None)
            self._rows.pop(num, None)
            self._late_rows.pop(num, None)
            self._late.pop(num, None)
            self._unindexed = {k: r for k, r in self._unindexed.items() if k[0] != num}
            x(
                "DELETE FROM said WHERE rowid>=? AND rowid<?",
                (num << RECORD_BITS, num + 1 << RECORD_BITS),
            )
            x("DELETE FROM frame WHERE session=?", found[0])
            x("DELETE FROM record WHERE session=?", found[0])
            x("DELETE FROM session WHERE num=?", found[0])
            x("DELETE FROM chat WHERE session=?", (session,))
        return bool(found)

    def sessions(self) -> list[str]:
        """Return the ids of the sessions that were prompted."""
        found = self.database.execute(f"SELECT id FROM session WHERE {PROMPTED}")
        return [id for (id,) in found]

    def pack(self, session: str) -> Packed | None:
        """Export a session, for `put` of another file; it stays in this one."""
        x = self.database.execute
        found = x(
            f"SELECT num, epoch, generation, owner, {schema.NEXT}, {_PACKED_COLUMNS} FROM session"
            " WHERE id=?",
            (session,),
        )
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

    def shrink(self) -> None:
        """Return some of the unused space to the file system."""
        self.database.execute("PRAGMA incremental_vacuum")

    def put(self, packed: Packed) -> None:
        """Replace a session by a packed one, unless the stored state is newer.

        The commit is on the disk when this returns, because the caller then deletes the original.
        """
        x = self.database.execute
        owner, next = packed.row[1:3]
        known = x(f"SELECT owner, {schema.NEXT} FROM session WHERE id=?", (packed.session,))
        if known and known[0] > (owner, next):
            return
        x("PRAGMA synchronous=FULL")  # the caller deletes the original afterwards
        self._full = True
        with self.transaction():
            self._forget(packed.session)
            columns = f"id, generation, epoch, owner, next, {_PACKED_COLUMNS}"
            places = ", ".join("?" * (len(packed.row) + 2))
            x(
                f"INSERT INTO session({columns}) VALUES({places})",
                (packed.session, self._generation, *packed.row),
            )
            [[num]] = x("SELECT num FROM session WHERE id=?", (packed.session,))
            for number, last, body in packed.records:
                x("INSERT INTO record VALUES(?,?,?,?)", (num, number, last, body))
                self.index(num, decode_record(body))
            self.database.many(
                _INSERT,
                [(num, *frame) for frame in packed.frames],
            )

    def vacuum(self) -> None:
        """Compact the file. Deleted data is erased from it."""
        x = self.database.execute
        x("INSERT INTO said(said) VALUES('optimize')")
        x("VACUUM")
        x("PRAGMA wal_checkpoint(TRUNCATE)")

    def name_chat(self, chat: str, session: str) -> None:
        """Store a client's name for a session; a later name of the same chat replaces it."""
        self.database.change("INSERT OR REPLACE INTO chat VALUES(?, ?)", (chat, session))

    def tidy(self, events: float, answers: float) -> None:
        """Delete answers and frames older than these numbers of seconds.

        Frames are deleted only up to the session's head, from which the remaining history is
        restored. Some free pages are returned to the file system each time.
        """
        self.database.change("DELETE FROM answer WHERE at<?", (self._time() - answers,))
        before = self._time() - events
        gone = 1
        while gone:  # in pieces: other sessions wait for the commits
            with self.transaction():
                gone = self.database.change(
                    "DELETE FROM frame WHERE id IN (SELECT frame.id FROM frame JOIN session"
                    " ON num=session WHERE at<? AND last<=head_seq LIMIT 500)",
                    (before,),
                )
        self.database.execute("PRAGMA incremental_vacuum(200)")


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], *, timeout_s: float = 0) -> Iterator[SqliteBackend]:
    """Open a file for changes in the block. `timeout_s`: seconds to wait for another process that
    writes it. Raises `StoreError`."""
    backend = SqliteBackend(path)
    try:
        with store_errors(backend.path):
            backend.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            backend.take_lock(timeout_s)
            backend.open()
            yield backend
            backend.finish()
    finally:
        backend.close()


def _text(record: Record) -> int:
    """Return the number of characters of text in a record."""
    return sum(len(item.text) for item in record.items)


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
