"""Addresses of stores: a file, or a database server that another package connects to."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Final, TypeAlias, cast

from ..model.repeats import listed
from .shared import StoreServer

SERVERS: Final = {
    "postgresql": "agentrt._cluster.server",
    "postgres": "agentrt._cluster.server",
}
"""The modules for the schemes of URLs, imported only for such a URL. Nothing else names them.

Each has a function `parse`, which returns the `StoreServer` of a URL, or raises `ValueError`
without quoting it: it may contain a password."""

StoreAddress: TypeAlias = Path | StoreServer


def is_server(said: str | os.PathLike[str]) -> bool:
    """True if this is the URL of a database server, not a file."""
    return isinstance(said, str) and said.partition("://")[0] in SERVERS and "://" in said


def server_of(said: str) -> StoreServer:
    """Parse the URL of a database server. Raises `ValueError`, with a message that quotes none of
    it."""
    module = importlib.import_module(SERVERS[said.partition("://")[0]])
    return cast("StoreServer", module.parse(said))


def address_of(said: str | os.PathLike[str]) -> StoreAddress:
    """Parse a URL or a path. Raises `ValueError`, with a message that quotes no URL."""
    if isinstance(said, str) and is_server(said):
        return server_of(said)
    name = os.fspath(said)
    scheme, is_url, _ = name.partition("://")
    if is_url:
        known = listed(f"{each}://" for each in SERVERS)
        raise ValueError(
            f"a store is a file or a URL that begins with one of {known}, not {scheme}://"
        )
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a store's file")
    return Path(os.path.abspath(name))
