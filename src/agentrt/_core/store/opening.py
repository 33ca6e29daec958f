"""Open a store by its address, or its writer or reader alone."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal

import trio

from ..._base.nesting import bare_errors, open_service_nursery
from ..._version import __version__
from ..errors import StoreError
from ..limits import Limits
from ..trio_task import check_trio
from .address import StoreAddress, address_of
from .base import Backend, ImportingBackend, ReportingReader
from .reader import SqliteReader
from .service import SLOW_COMMIT_S, OpenSessions, StoreService
from .shared import StoreProcess, StoreServer
from .sqlite import SqliteBackend
from .sqlite import writing as writing_file
from .store import Store
from .wakeups import Wakeups, open_wakeups
from .writer import StoreWriter

MAX_NODE_NAME_CHARS: Final = 200
"""Maximum length, in characters, of the name of a process that shares a store: people read it, and
type it to drain the process."""


def backend_of(address: StoreAddress, limits: Limits | None = None) -> ImportingBackend:
    """Return the writer of a store that is not shared, not yet opened.

    Pass it to `open_store`, itself or inside a `Backend` of your own.

    - `limits`: the limits with the prefix `store_`.

    Raises `StoreError` if the store needs a package that is not installed.
    """
    if isinstance(address, Path):
        return SqliteBackend(address)
    return address.backend(limits or Limits())


def reader_of(address: StoreAddress, *, writes: bool = False) -> ReportingReader:
    """Return the reader of a store. `writes`: it is used alongside a writer. Raises
    `StoreError`."""
    if isinstance(address, Path):
        return SqliteReader(address)
    return address.reader(writes=writes)


def writing(address: StoreAddress) -> contextlib.AbstractContextManager[ImportingBackend]:
    """Open a store for changes in the block. Raises `StoreError`."""
    return writing_file(address) if isinstance(address, Path) else address.writing()


@asynccontextmanager
async def open_store(
    path: str | os.PathLike[str] | Backend | StoreServer,
    *,
    limits: Limits | None = None,
    show_only_stored: bool = True,
    node: str | None = None,
    home: str | None = None,
    role: Literal["both", "gateway", "worker"] = "both",
) -> AsyncIterator[Store]:
    """Open a store of sessions.

    The store is the SQLite file `path`, which is created if it is missing; a PostgreSQL database if
    `path` is a URL (`postgresql://USER@HOST/DATABASE`, with the extra `postgres`); or any other
    store if `path` is its `agentrt.lowlevel.Backend` or `StoreServer`::

        async with agentrt.store.open_store("sessions.db") as store:
            async with agentrt.open_session("claude", store=store) as session:
                ...

    - `limits`: the limits with the prefix `store_`.
    - `show_only_stored`: if false, events are shown immediately instead of when they are stored:
      the last ones that were seen may be missing after a kill. This is meant for a person who reads
      along at a terminal and should not wait for a slow disk. Input to the agent still waits.
    - `node`: for PostgreSQL, a name for this process, which then shares the store with other
      processes that have names. A session has one owner at a time, by a lease
      (`limits.store_lease_s`).
    - `home`: with `node`, a name that is equal on all machines that have the same files; by default
      the name of this machine. A session is continued only in the home in which it was created.
    - `role`: with `node`, the purpose of this process. A `gateway` opens no sessions: workers carry
      out the commands of its clients. A `worker` serves no clients.

    Leaving the block writes everything that is still buffered. Leave it after every session in it.

    Raises `StoreInUse` while another process writes the store, `StoreError` if it cannot be opened,
    `ValueError` for an invalid URL or name, and `StoreUnavailable` at the end if something could
    not be stored.
    """
    check_trio("open_store")
    address = address_of(path) if isinstance(path, str | os.PathLike) else path
    process = None if node is None else process_of(node, home, role)
    async with open_address(
        address, limits=limits, show_only_stored=show_only_stored, process=process
    ) as store:
        yield store


def process_of(name: str, home: str | None = None, role: str = "both") -> StoreProcess:
    """Describe this process to the others that share a store. Raises `ValueError` for an invalid
    name."""
    for option, given in (("node", name), ("home", home)):
        if given is not None and not (
            0 < len(given) <= MAX_NODE_NAME_CHARS and given.isprintable()
        ):
            raise ValueError(
                f"{option} must have 1 to {MAX_NODE_NAME_CHARS} printable characters, got"
                f" {given[:40]!r}"
            )
    host = socket.gethostname()
    return StoreProcess(
        name=name, host=host, pid=os.getpid(), home=home or host, role=role, version=__version__
    )


@asynccontextmanager
async def open_address(
    address: StoreAddress | Backend,
    *,
    limits: Limits | None = None,
    show_only_stored: bool = True,
    process: StoreProcess | None = None,
) -> AsyncIterator[StoreService]:
    """Open a store by its address or its writer, as `open_store` does."""
    limits = limits or Limits()
    sessions, quotas = OpenSessions(limits), dict[str, int | None]()
    membership = cluster = None
    backend: Backend
    if process is not None and isinstance(address, Path | Backend):
        raise ValueError(f"{address} is for one process only; to share a store, use PostgreSQL")
    if isinstance(address, Path):
        backend = SqliteBackend(address)
    elif isinstance(address, Backend):
        backend = address
    else:
        if process is not None:
            membership, cluster = address.share(process, limits, sessions.end_all)
        backend = address.backend(limits, membership=membership, tenant_quotas=quotas)
    try:
        await trio.to_thread.run_sync(backend.open)
        reader = await trio.to_thread.run_sync(backend.reader)
        try:
            with open_wakeups() as wakeups:
                writer = StoreWriter(backend, wakeups.soon, limits)
                store = StoreService(
                    str(backend),
                    reader,
                    writer,
                    limits,
                    sessions=sessions,
                    show_only_stored=show_only_stored,
                    tenant_quotas=quotas,
                    membership=membership,
                    cluster=cluster,
                )
                async with _writing(wakeups, writer, store), _sharing(store):
                    yield store
        finally:
            reader.close()  # before the writer: the last one to close tidies up
    finally:
        backend.close()
    if store.trouble is not None:
        raise store.trouble


@asynccontextmanager
async def _sharing(store: StoreService) -> AsyncIterator[None]:
    """If the store is shared, have a lease for the block, and ask for a new one whenever it is
    lost."""
    membership, cluster = store.membership, store.cluster
    if membership is None or cluster is None:
        yield
        return
    async with bare_errors(), trio.open_nursery() as nursery:
        await nursery.start(membership.run)
        await nursery.start(cluster.run)
        try:
            yield
        finally:
            with trio.move_on_after(SLOW_COMMIT_S, shield=True), suppress(StoreError):
                await store._call(lambda backend: None)  # after the releases of the sessions
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _writing(
    wakeups: Wakeups, writer: StoreWriter, store: StoreService
) -> AsyncIterator[None]:
    """Run the writer's thread for the block, and wait for it to end."""
    trio.lowlevel.add_instrument(writer)
    try:
        async with open_service_nursery() as services:
            services.start_soon(wakeups.run)
            async with bare_errors(), trio.open_nursery() as nursery:
                # Items put before the thread runs wait for it.
                nursery.start_soon(_in_thread, partial(writer.run, store))  # noqa: ASYNC113
                nursery.start_soon(store._watch)
                nursery.start_soon(store._measure)
                try:
                    yield
                finally:
                    writer.stop()
                    nursery.cancel_scope.cancel()  # not the thread, which is awaited
    finally:
        trio.lowlevel.remove_instrument(writer)
        wakeups.call_all()


async def _in_thread(run: Callable[[], object]) -> None:
    await trio.to_thread.run_sync(run, limiter=trio.CapacityLimiter(1))
