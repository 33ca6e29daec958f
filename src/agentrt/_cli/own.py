"""The storage of an interactive session in a terminal.

Only one process at a time writes a file, while several terminals and a server may be open. So each
terminal has its own file while it is open. When the user leaves, the sessions move to the file that
all terminals share, or back to the file that they came from. A session to resume is first taken
from there. So only a server locks a file for long, and each session is in one place only.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from .._errors import SessionNotFound, StoreError, StoreInUse, StoreUnavailable
from .._journal.address import StoreAddress
from .._journal.base import StoreEntry
from .._journal.sqlite import SqliteBackend, writing
from .._journal.store import Store, open_address, open_store
from .held import HeldSession
from .kept import Kept
from .setup import UsageError
from .state import state_folder
from .stores import SHORT, named_store
from .text import plain

TERMINALS: Final = 32
"""The maximum number of open terminals; sessions in further ones are not stored."""
PATIENCE: Final = 3.0
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
        self.report: Callable[[str], None] = warn
        """Reports a change of the store's state to the user."""
        self._failing = False
        store.listen(self._changed)

    def kept(self, session: HeldSession, cwd: str) -> Kept | None:
        """Return a reference for resuming a session of this process; None if it has no turns."""
        if not session.snapshot().turns:
            return None
        name = session.agent.name
        entry = StoreEntry(session=session.id, agent=name, cwd=cwd, created=0, updated=0)
        return Kept(file=self.file, entry=entry)

    @property
    def hint(self) -> str:
        """The command that resumes the last session; empty if there is none."""
        if self.last is None:
            return ""
        store = "" if self.shared else f" --store {shlex.quote(plain(str(self.file)))}"
        return f"To go on with it: agentrt --resume {self.last[:SHORT]}{store}"

    def _changed(self) -> None:
        """Report when the store starts to fail, and when it works again."""
        status = self.store.status
        if status.state == "failing" and not self._failing:
            self._failing = True
            self.report(f"{status.message}; what is said now is stored when that works again")
        elif status.state == "ok" and self._failing:
            self._failing = False
            self.report("the store can be written again, and has all that was said")

    async def fetch(self, kept: Kept) -> None:
        """Move a stored session into this store, to resume it.

        Raises `AgentrtError`, for example if another process has it open.
        """
        file = kept.file
        if file == self.file or not self.shared:
            return
        session = kept.entry.session
        if not isinstance(file, Path):
            raise UsageError(f"the session is in {file}: go on there, with --store")

        def take() -> None:
            with writing(file) as source:
                packed = source.pack(session)
                if packed is None:
                    raise SessionNotFound(f"no session {session!r} is stored any more")
                trio.from_thread.run(self.store.put, packed)
                source.delete(session)

        try:
            await trio.to_thread.run_sync(take)
        except StoreInUse as error:
            who = f"process {error.pid}" if error.pid is not None else "another process"
            raise UsageError(
                f"the session is in {file}, which {who} has open: go on there, or end it"
            ) from error
        self.homes[session] = file


@asynccontextmanager
async def open_own(said: str | None) -> AsyncIterator[OwnStore | None]:
    """Open the store of this process, or the one that `--store` names; yields None without one.

    Raises `StoreError` if a named store cannot be opened. If the default one cannot be opened, a
    warning is printed.
    """
    named = None if said is None else named_store(said)
    if said is not None and named is None:
        yield None
        return
    done = False
    own: OwnStore | None = None
    try:
        async with AsyncExitStack() as stack:
            store: Store | None
            if named is not None:
                store = await stack.enter_async_context(open_address(named, show_only_stored=False))
            else:
                store = await _opened(stack)
            if store is not None:
                own = OwnStore(store, named or Path(store.path), shared=named is None)
            yield own
            done = True
    except StoreUnavailable as error:
        if not done:
            raise
        warn(f"the end of this conversation is not stored: {error}")
    finally:
        if own is not None and isinstance(own.file, Path) and own.shared:
            with trio.CancelScope(shield=True):  # a thread, which gives up after `PATIENCE`
                await trio.to_thread.run_sync(_send_home, own.file, own.homes)


async def _opened(stack: AsyncExitStack) -> Store | None:
    for number in range(1, TERMINALS + 1):
        try:
            file = state_folder() / f"terminal-{number}.db"
            return await stack.enter_async_context(open_store(file, show_only_stored=False))
        except StoreInUse:
            continue
        except StoreError as error:
            warn(f"this conversation is not stored: {error}")
            return None
    warn("this conversation is not stored: too many terminals are open")
    return None


def _send_home(file: Path, homes: dict[str, Path]) -> None:
    """Move the sessions of this terminal's file to their own files, or to the shared one.

    If both are in use, the sessions stay: lists find them here, and the next owner of this file
    moves them.
    """
    try:
        with writing(file) as source:
            for session in source.sessions():
                for home in dict.fromkeys((homes.get(session, home_file()), home_file())):
                    if _moved(source, session, home):
                        break
            source.database.execute("PRAGMA incremental_vacuum")
    except StoreInUse:
        pass  # another terminal has opened this file
    except StoreError as error:
        warn(str(error))


def _moved(source: SqliteBackend, session: str, home: Path) -> bool:
    try:
        with writing(home, timeout_s=PATIENCE if home == home_file() else 0) as target:
            packed = source.pack(session)
            if packed is not None:
                target.put(packed)
    except StoreError:
        return False
    source.delete(session)
    return True


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"agentrt: warning: {plain(text)}", file=sys.stderr)
