"""`agentrt nodes`: list the servers that share a store in PostgreSQL, or drain one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ...config import Config
from ...errors import StoreError
from ...lowlevel import StoreServer
from ...store import NodeEntry
from ..exit_status import UsageError
from ..options import Work, server_store
from ..printing import print_json, print_table
from ..text import one_line, plain

T = TypeVar("T")


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError`."""
    store = server_store(options.store or config.serve.store)
    if isinstance(store, Path | None):
        raise UsageError("servers share a store in PostgreSQL; use --store postgresql://…")
    if options.verb == "drain":
        return partial(drain, store, options.name)
    return partial(show_list, store, as_json=options.json)


async def show_list(store: StoreServer, *, as_json: bool) -> int:
    """Print the running servers; returns the exit status."""
    nodes = await _do(store.nodes)
    if nodes is None:
        return 2
    if as_json:
        rows = [{**msgspec.to_builtins(each), "load": _load(each)} for each in nodes]
        print_json(rows)
    elif nodes:
        print_table(
            ("NODE", "ROLE", "MACHINE", "PROCESS", "UP", "LEASE", "SESSIONS", "TURNS", "STATE"),
            [_row(each) for each in nodes],
        )
    else:
        print("No server uses this store now.")
    return 0


async def drain(store: StoreServer, name: str) -> int:
    """Have the servers of that name finish their work, take no new sessions, and exit.

    Returns the exit status.
    """
    found = await _do(partial(store.drain, name))
    if not found:
        if found is not None:
            print(f"agentrt: no server {plain(name)!r} shares this store now", file=sys.stderr)
        return 2 if found is None else 4
    print(f"{name} takes no new sessions, and exits when its turns have ended.")
    return 0


async def _do(work: Callable[[], T]) -> T | None:
    try:
        return await trio.to_thread.run_sync(work)
    except StoreError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        return None


def _load(node: NodeEntry) -> dict[str, int]:
    return msgspec.json.decode(node.load, type=dict[str, int])


def _row(node: NodeEntry) -> tuple[str, ...]:
    return (
        one_line(node.name),
        one_line(node.role),
        one_line(node.host),
        str(node.pid),
        f"{max(0.0, time.time() - node.since):.0f} s",
        f"{node.lease:.1f} s",
        str(node.sessions),
        str(_load(node).get("turns", 0)),
        "draining" if node.draining else "ready",
    )
