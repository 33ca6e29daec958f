"""Building blocks for session stores in databases: what `agentrt.lowlevel.Backend` needs to save.

The encodings are the same in every store, so that a session can be moved from one to another.
"""

from ._core.store.base import (
    PROMPTED,
    ImportingBackend,
    Outdated,
    Packed,
    ReportingReader,
    StoreReport,
    decode_about,
    decode_events,
    decode_head,
    decode_record,
    encode,
    encode_events,
    encode_record,
    entry_of,
    quota_reached,
)
from ._core.store.search import QueryWord, clean, excerpt, text_of, words_of

__all__ = [
    # stores that the command line can use
    "ImportingBackend",
    "ReportingReader",
    "StoreReport",
    "Packed",
    "Outdated",
    # encodings
    "encode",
    "encode_events",
    "encode_record",
    "decode_about",
    "decode_events",
    "decode_head",
    "decode_record",
    # rows and quotas
    "entry_of",
    "PROMPTED",
    "quota_reached",
    # search
    "text_of",
    "clean",
    "words_of",
    "QueryWord",
    "excerpt",
]
