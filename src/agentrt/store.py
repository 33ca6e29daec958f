"""Session stores: sessions that outlive the process that runs them."""

from ._journal.base import StoreEntry, StoreHit, StoreStatistics, StoreStatus
from ._journal.libraries import Library
from ._journal.store import Store, open_store
from ._runtime.open import reopen_session
from ._runtime.options import ReopenOptions

__all__ = [
    # opening a store
    "open_store",
    "Store",
    "Library",
    # continuing a stored session
    "reopen_session",
    "ReopenOptions",
    # reading a store
    "StoreEntry",
    "StoreHit",
    "StoreStatus",
    "StoreStatistics",
]
