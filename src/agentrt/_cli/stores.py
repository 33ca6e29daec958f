"""The stores with the user's sessions.

`agentrt serve` writes one, and interactive sessions in terminals write others; commands that list
sessions read all of them.

Only one process at a time writes a file, while several terminals and a server may be open. So each
terminal has its own file while it is open (`OwnStore`). When the user leaves, the sessions move to
the file that all terminals share, or back to the file that they came from. A session to resume is
first taken from there. So only a server locks a file for long, and each session is in one place
only.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import trio
from msgspec import Struct

from .._base.home import state_folder
from ..agents import AgentSession
from ..config import Config
from ..errors import SessionNotFound, StoreError, StoreInUse, StoreUnavailable
from ..storage import (
    Outdated,
    ReportingReader,
    StoreAddress,
    StoreFile,
    import_session,
    is_server,
    open_store_file,
    reader_of,
    server_of,
    writing,
)
from ..store import LoadedSession, SessionQuery, Store, StoreEntry, open_store
from .exit_status import UsageError
from .printing import print_warning
from .session_view import SessionView
from .text import one_line, plain


class StoredRef(Struct, frozen=True, kw_only=True):
    """A stored session and the address of its store."""

    file: StoreAddress
    entry: StoreEntry
    snippet: str = ""


T = TypeVar("T")

OFF: Final = "off"
"""The value of `--store` for no store."""


ID_CHARS: Final = 8
"""Characters of an id that are shown; a prefix is enough for every command that takes an id."""


class EarlierSession(AgentSession, kw_only=True):
    """An earlier session, and a reference to it if agentrt has stored it."""

    stored_ref: StoredRef | None = None


def server_file() -> Path:
    """Return the file in which `agentrt serve` stores its sessions."""
    return state_folder() / "journal.db"


def store_files(given: str | None, config: Config) -> list[StoreAddress]:
    """Return the existing stores.

    `given`: the store that `--store` names, or `off`.
    """
    if given is not None:
        one = parse_store(given)
        return [] if one is None else [one]
    named = [parse_store(config.serve.store or "sqlite"), parse_store(config.terminal.store or OFF)]
    named += sorted(state_folder().glob("terminal*.db"))
    return [
        each
        for each in dict.fromkeys(named)
        if each is not None and (not isinstance(each, Path) or each.is_file())
    ]


def parse_store(given: str) -> StoreAddress | None:
    """Return the store that `--store` names; None for no store.

    Raises `UsageError`.
    """
    if given in (OFF, "memory"):
        return None
    if is_server(given):
        try:
            return server_of(given)
        except ValueError as error:
            raise UsageError(f"--store: {error}") from None
    name = given.removeprefix("sqlite:")
    scheme, is_url, _ = name.partition("://")
    if is_url:
        raise UsageError(f"--store takes a file, a URL of PostgreSQL or `off`, not {scheme}://")
    path = server_file() if given == "sqlite" else Path(name)
    if not path.name:
        raise UsageError(f"--store takes a file, a URL of PostgreSQL or `off`, not {given!r}")
    if path.is_dir():
        raise UsageError(f"--store takes a file, and {path} is a folder")
    return path


def read(file: StoreAddress, look: Callable[[ReportingReader], T]) -> T:
    """Open a store for reading and return the result of `look`.

    An outdated store is updated first. Raises `StoreError`.
    """
    try:
        reader = reader_of(file)
    except Outdated:
        with writing(file):
            pass  # opening it updates its schema
        reader = reader_of(file)
    try:
        return look(reader)
    finally:
        reader.close()


def read_all(
    files: Iterable[StoreAddress], look: Callable[[ReportingReader], list[T]]
) -> tuple[list[tuple[StoreAddress, T]], list[StoreError]]:
    """Read several stores; returns the results, and the errors of those that could not be read."""
    found: list[tuple[StoreAddress, T]] = []
    errors: list[StoreError] = []
    for file in files:
        try:
            found += [(file, each) for each in read(file, look)]
        except StoreError as error:
            errors.append(error)
    return found, errors


def listed(
    files: Iterable[StoreAddress], *, cwd: str | None, limit: int | None
) -> tuple[list[StoredRef], list[StoreError]]:
    """Return the latest sessions of a directory, and the errors of unreadable stores.

    `cwd`: None for all directories. `limit`: None for all sessions.
    """
    query = SessionQuery(limit=limit, cwd=cwd)
    found, errors = read_all(files, lambda reader: reader.sessions(query))
    return _latest((StoredRef(file=file, entry=entry) for file, entry in found), limit), errors


def searched(
    files: Iterable[StoreAddress], words: str, *, limit: int
) -> tuple[list[StoredRef], list[StoreError]]:
    """Return the latest sessions that contain all the words, and the errors of unreadable
    stores.
    """
    found, errors = read_all(files, lambda reader: reader.search(words, limit))
    hits = (StoredRef(file=file, entry=hit.entry, snippet=hit.snippet) for file, hit in found)
    return _latest(hits, limit), errors


def latest(files: Iterable[StoreAddress], cwd: str, agent: str | None = None) -> StoredRef:
    """Return the latest session of a directory, or of one agent in it.

    Raises `SessionNotFound` or `StoreError`.
    """
    query = SessionQuery(cwd=cwd, agent=agent, limit=1)
    found, errors = read_all(files, lambda reader: reader.sessions(query))
    if not found and errors:
        raise errors[0]
    for ref in _latest((StoredRef(file=file, entry=entry) for file, entry in found), 1):
        return ref
    raise SessionNotFound(f"no stored session for {cwd}")


def find(files: Iterable[StoreAddress], prefix: str, agent: str | None = None) -> StoredRef:
    """Return the one session with this id prefix, or else with this prefix of the agent's own id.

    `agent` restricts the search to one agent. Raises `SessionNotFound`, `UsageError` if several
    sessions match, or `StoreError`.
    """
    found, errors = read_all(files if prefix else (), lambda reader: reader.find(prefix))
    refs = _latest((StoredRef(file=file, entry=entry) for file, entry in found), len(found))
    refs = [each for each in refs if agent in (None, each.entry.agent)]
    if any(each.entry.session.startswith(prefix) for each in refs):
        refs = [each for each in refs if each.entry.session.startswith(prefix)]
    exact = [each for each in refs if prefix in (each.entry.session, each.entry.agent_session)]
    match exact[:1] or refs:
        case [one]:
            return one
        case []:
            if errors:
                raise errors[0]
            raise SessionNotFound(f"no session {one_line(prefix)!r} is stored")
        case several:
            names = ", ".join(one_line(each.entry.session) for each in several[:5])
            raise UsageError(f"several sessions begin with {one_line(prefix)!r}: {names}")


def load(ref: StoredRef) -> LoadedSession:
    """Load everything that is stored of a session.

    Raises `AgentrtError`.
    """
    stored = read(ref.file, lambda reader: reader.load(ref.entry.session))
    if stored is None:
        raise SessionNotFound(f"no session {ref.entry.session!r} is stored now")
    return stored


def _latest(found: Iterable[StoredRef], limit: int | None) -> list[StoredRef]:
    """Sort sessions by age, newest first; of a session in several files, only the newest counts."""
    newest: dict[str, StoredRef] = {}
    for each in found:
        known = newest.get(each.entry.session)
        if known is None or known.entry.updated < each.entry.updated:
            newest[each.entry.session] = each
    return sorted(newest.values(), key=lambda each: each.entry.updated, reverse=True)[:limit]


MAX_TERMINALS: Final = 32
"""The maximum number of open terminals; sessions in further ones are not stored."""
SHARED_FILE_WAIT_S: Final = 3.0
"""Seconds to wait while other terminals move their sessions to the shared file."""


def home_file() -> Path:
    """Return the file that has the sessions of all terminals after they are left."""
    return state_folder() / "terminal.db"


class OwnStore:
    """The store of this process, in which its sessions are stored."""

    def __init__(self, store: Store, file: StoreAddress, *, shared: bool) -> None:
        """Wrap an open store.

        `file`: its address. `shared`: sessions of other files can be taken into it, and move back
        at the end.
        """
        self.store = store
        self.file = file
        self.homes: dict[str, Path] = {}
        """The files that sessions were taken from."""
        self.last: str | None = None
        """The session of the latest turn."""
        self.shared = shared
        self._report: Callable[[str], None] = print_warning
        self._failing = False
        store.listen(self._changed)

    @contextmanager
    def reporting(self, report: Callable[[str], None]) -> Iterator[None]:
        """Report changes of the store's state with `report` while the block runs.

        Otherwise they are warnings on standard error.
        """
        self._report = report
        try:
            yield
        finally:
            self._report = print_warning

    def ref_of(self, session: SessionView, cwd: str) -> StoredRef | None:
        """Return a reference for resuming a session of this process; None if it has no turns."""
        if not session.snapshot().turns:
            return None
        name = session.agent.name
        entry = StoreEntry(session=session.id, agent=name, cwd=cwd, created=0, updated=0)
        return StoredRef(file=self.file, entry=entry)

    @property
    def hint(self) -> str:
        """The command that resumes the last session; empty if there is none."""
        if self.last is None:
            return ""
        store = "" if self.shared else f" --store {shlex.quote(plain(str(self.file)))}"
        return f"Resume: agentrt --resume {self.last[:ID_CHARS]}{store}"

    def _changed(self) -> None:
        """Report when the store starts to fail, and when it works again."""
        status = self.store.status
        if status.state == "failing" and not self._failing:
            self._failing = True
            self._report(f"{status.message}; new messages are stored when it works again")
        elif status.state == "ok" and self._failing:
            self._failing = False
            self._report("the store works again, and nothing was lost")

    async def fetch(self, ref: StoredRef) -> None:
        """Move a stored session into this store, to resume it.

        Raises `AgentrtError`, for example if another process has it open.
        """
        file = ref.file
        if file == self.file or not self.shared:
            return
        session = ref.entry.session
        if not isinstance(file, Path):
            raise UsageError(f"the session is in {file}; resume it with --store {file}")

        def take() -> None:
            with open_store_file(file) as source:
                packed = source.pack(session)
                if packed is None:
                    raise SessionNotFound(f"no session {session!r} is stored now")
                trio.from_thread.run(import_session, self.store, packed)
                source.delete(session)

        try:
            await trio.to_thread.run_sync(take)
        except StoreInUse as error:
            who = f"process {error.pid}" if error.pid is not None else "another process"
            raise UsageError(
                f"the session is in {file}, which {who} has open; use it there, or end that process"
            ) from error
        self.homes[session] = file


@asynccontextmanager
async def open_own_store(given: str | None) -> AsyncIterator[OwnStore | None]:
    """Open the store of this process, or the one that `--store` names; yields None without one.

    Raises `StoreError` if a named store cannot be opened. If the default one cannot be opened, a
    warning is printed.
    """
    named = None if given is None else parse_store(given)
    if given is not None and named is None:
        yield None
        return
    done = False
    own: OwnStore | None = None
    try:
        async with AsyncExitStack() as stack:
            store: Store | None
            if named is not None:
                store = await stack.enter_async_context(open_store(named, show_only_stored=False))
            else:
                store = await _opened(stack)
            if store is not None:
                own = OwnStore(store, named or Path(store.path), shared=named is None)
            yield own
            done = True
    except StoreUnavailable as error:
        if not done:
            raise
        print_warning(f"the end of this conversation is not stored: {error}")
    finally:
        if own is not None and isinstance(own.file, Path) and own.shared:
            with trio.CancelScope(
                shield=True
            ):  # a thread, which gives up after `SHARED_FILE_WAIT_S`
                await trio.to_thread.run_sync(_send_home, own.file, own.homes)


async def _opened(stack: AsyncExitStack) -> Store | None:
    """Open the first free file of a terminal's sessions, or return None with a warning.

    Each terminal that is open has its own file, because one process at a time writes a file.
    """
    for number in range(1, MAX_TERMINALS + 1):
        try:
            file = state_folder() / f"terminal-{number}.db"
            return await stack.enter_async_context(open_store(file, show_only_stored=False))
        except StoreInUse:
            continue
        except StoreError as error:
            print_warning(f"this conversation is not stored: {error}")
            return None
    print_warning("this conversation is not stored: too many terminals are open")
    return None


def _send_home(file: Path, homes: dict[str, Path]) -> None:
    """Move the sessions of this terminal's file to their own files, or to the shared one.

    If both are in use, the sessions stay: lists find them here, and the next owner of this file
    moves them.
    """
    try:
        with open_store_file(file) as source:
            for session in source.sessions():
                for home in dict.fromkeys((homes.get(session, home_file()), home_file())):
                    if _moved(source, session, home):
                        break
            source.shrink()
    except StoreInUse:
        pass  # another terminal has opened this file
    except StoreError as error:
        print_warning(str(error))


def _moved(source: StoreFile, session: str, home: Path) -> bool:
    """Move a session to the file that all terminals read. Returns False if that is in use now.

    It is deleted here only after it was stored there.
    """
    try:
        with open_store_file(
            home, timeout_s=SHARED_FILE_WAIT_S if home == home_file() else 0
        ) as target:
            packed = source.pack(session)
            if packed is not None:
                target.put(packed)
    except StoreError:
        return False
    source.delete(session)
    return True
