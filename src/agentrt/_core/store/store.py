"""A store as a program sees it: `Store`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import trio

from ..errors import SessionNotFound, StoreError
from ..model.events import Event
from ..model.state import Snapshot
from .base import (
    LoadedSession,
    SessionQuery,
    StoreEntry,
    StoreHit,
    StoreReader,
    StoreStatistics,
    StoreStatus,
)

T = TypeVar("T")

_INDEX_WAIT_S = 1.0  # seconds that a search waits for text that is not indexed yet


class Store(ABC):
    """Sessions that outlive the process that runs them. Created by `open_store`.

    Pass the store to `open_session`: events of that session are stored before any viewer sees them.
    The methods of the store read stored sessions. They raise `StoreError` if the store cannot be
    read. A method that is cancelled has had its effect or none; the store remains usable.
    """

    def __init__(self, path: str, reader: StoreReader) -> None:
        """Create a store that reads with `reader`, one call at a time."""
        self.path = path
        """The path of the file, or the URL without its password; for another store its name."""
        self._reader = reader
        self._limiter = trio.CapacityLimiter(1)  # one connection, one reader at a time

    async def sessions(
        self,
        *,
        limit: int | None = None,
        before: tuple[float, str] | None = None,
        cwd: str | None = None,
    ) -> list[StoreEntry]:
        """List the sessions that were prompted, the latest first.

        Running sessions are included; a turn that has just begun is visible a second later.

        - `limit`: the maximum number of sessions.
        - `before`: only sessions that come after the one with this `updated` and `session`, the
          last one of the previous page.
        - `cwd`: only sessions of this folder.

        Raises `ValueError` for a limit that is not a whole number above 0.
        """
        _check_limit(limit)
        query = SessionQuery(limit=limit, before=before, cwd=cwd)
        return await self._read(partial(self._reader.sessions, query))

    async def find(self, prefix: str) -> list[StoreEntry]:
        """Find the sessions with the id prefix `prefix`, or else those with this prefix in
        `agent_session`. Returns only a few if many match."""
        return await self._read(partial(self._reader.find, prefix))

    async def search(
        self, words: str, *, limit: int = 20, tenant: str | None = None
    ) -> list[StoreHit]:
        """Find the sessions that contain all of `words`, the latest first.

        Searches titles, and the prompts and answers of finished turns. Words match by prefix and
        regardless of case; the query has no syntax. `limit`: the maximum number of hits. `tenant`:
        only sessions of this tenant (`""`: sessions without one).

        Raises `ValueError` for a limit that is not a whole number above 0.
        """
        _check_limit(limit)
        with trio.move_on_after(_INDEX_WAIT_S), suppress(StoreError):
            await self._index()
        return await self._read(partial(self._reader.search, words, limit, tenant))

    async def snapshot(self, session: str) -> Snapshot:
        """Return everything a viewer shows of a session, as stored last. Raises
        `SessionNotFound`."""
        return (await self._load(session)).snapshot(session)

    async def events(self, session: str, after: int = 0) -> list[tuple[int, Event]]:
        """Return the events after number `after` that are still kept
        (`limits.store_events_lifetime_s`), with their numbers. Raises `SessionNotFound`."""
        found = await self._read(partial(self._reader.events, session, after))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    @abstractmethod
    async def delete(self, session: str) -> None:
        """Delete a session. Raises `SessionNotFound`, or `LocalProtocolError` if it is open."""

    @property
    @abstractmethod
    def status(self) -> StoreStatus:
        """The state of the store: whether events are stored, and without delay."""

    @abstractmethod
    def statistics(self) -> StoreStatistics:
        """Return counts since the store was opened."""

    @abstractmethod
    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` whenever `status` changes. Returns the function that ends this.

        `changed` must not block or raise.
        """

    async def _load(self, session: str, last: int | None = None) -> LoadedSession:
        """Load a session with all of its records or the `last` ones. Raises `SessionNotFound`."""
        found = await self._read(partial(self._reader.load, session, last))
        if found is None:
            raise SessionNotFound(f"no session {session!r} is stored")
        return found

    @abstractmethod
    async def _index(self) -> None:
        """Index all text that was committed."""

    async def _read(self, read: Callable[[], T], *, abandon: bool = False) -> T:
        """Call the reader in a thread. `abandon`: a cancelled caller does not wait for its end."""
        return await trio.to_thread.run_sync(read, limiter=self._limiter, abandon_on_cancel=abandon)


def _check_limit(limit: int | None) -> None:
    """Raise `ValueError` for a limit that a database cannot take."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 2**63:
        raise ValueError(f"limit must be a whole number above 0, not {limit!r:.40}")
