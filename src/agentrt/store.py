"""Session stores: sessions that outlive the process that runs them."""

from ._core.runtime.open import reopen_session
from ._core.runtime.options import ReopenOptions
from ._core.store.base import StoreEntry, StoreHit, StoreStatistics, StoreStatus
from ._core.store.store import Store, open_store

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
]
