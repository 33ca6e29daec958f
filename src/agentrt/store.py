"""Session stores: sessions that outlive the process that runs them.

With a store, a session continues in another process: its events are written to an SQLite file, to
PostgreSQL, or to a `Backend` that you write (`agentrt.lowlevel`)::

    async with open_store("sessions.db") as store:
        async with agentrt.open_session("claude", store=store) as session:
            await session.run("Fix the failing test.")
            id = session.id

    async with open_store("sessions.db") as store, reopen_session(id, store) as again:
        await again.run("Now commit it.")

By default, an event is shown to readers only after it is stored, and a prompt reaches the agent
only after that, so a reader or an agent never knows more than the store. No session waits for the
disk: a thread writes the events of all sessions together.

One process writes a store at a time. Servers that share a PostgreSQL database have a lease each
(`NodeEntry`), and each session has one owner among them (`SessionOwner`). Commands of clients at
other servers are stored for the owner (`StoredCommand`, `CommandStatus`).
"""

from ._core.model.checkpoint import Head, Record
from ._core.model.state import StoredHistory
from ._core.runtime.open import reopen_session
from ._core.runtime.options import ReopenOptions
from ._core.store.base import (
    CommandAnswer,
    LoadedSession,
    SessionDescription,
    SessionQuery,
    SessionRow,
    StoreEntry,
    StoreHit,
    StoreStatistics,
    StoreStatus,
)
from ._core.store.opening import open_store
from ._core.store.shared import (
    CommandStatus,
    NodeEntry,
    SessionOwner,
    StoredCommand,
    StoreProcess,
)
from ._core.store.store import Store

__all__ = [
    # opening a store
    "open_store",
    "Store",
    # continuing a stored session
    "reopen_session",
    "ReopenOptions",
    # reading a store
    "StoreEntry",
    "StoreHit",
    "StoreStatus",
    "StoreStatistics",
    # values of a session in a store, for authors of stores
    "SessionDescription",
    "SessionRow",
    "SessionQuery",
    "LoadedSession",
    "Head",
    "Record",
    "StoredHistory",
    "CommandAnswer",
    # values of a store that several processes share
    "StoreProcess",
    "NodeEntry",
    "SessionOwner",
    "StoredCommand",
    "CommandStatus",
]
