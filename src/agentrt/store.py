"""Session stores: sessions that outlive the process that runs them."""

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
