"""Building blocks for session stores in databases: what `agentrt.lowlevel.Backend` needs to save.

The encodings are the same in every store, so that a session can be moved from one to another.

A store has three kinds of data for a session: its *row*, which lists show; its events in *frames*,
one for each flush; and *records*, which replace the frames of finished turns and are searched for
text. A *head* is the state at one event without its turns. `encode_events`, `encode_record` and
`encode`, with their counterparts, convert them to bytes.

`StoreAddress` is a file's path or the address of a database server; `address_of` parses it. For
commands that work on a store without sessions, `reader_of` and `writing` open either. `backend_of`
returns its writer for a store that adds something to a built-in one, such as a copy of each commit.
`repair` saves the readable part of a damaged file.

For a text search, `text_of` is the text of a record, `words_of` the words of a query, and `excerpt`
the line to show for a hit.

A store that implements `ImportingBackend` and `ReportingReader` in addition to the interfaces of
`agentrt.lowlevel` works with the commands of the terminal, too: sessions are moved between stores
as `Packed`, and `agentrt doctor` shows a `StoreReport`.
"""

from ._core.store.address import StoreAddress, address_of, is_server, server_of
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
from ._core.store.files import StoreFile, import_session, open_store_file
from ._core.store.opening import backend_of, reader_of, writing
from ._core.store.repair import Repaired, repair
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
    # addresses of stores
    "StoreAddress",
    "address_of",
    "is_server",
    "server_of",
    "backend_of",
    "reader_of",
    "writing",
    # files of stores
    "open_store_file",
    "StoreFile",
    "import_session",
    "repair",
    "Repaired",
    # search
    "text_of",
    "clean",
    "words_of",
    "QueryWord",
    "excerpt",
]
