"""Stored sessions on agents in memory, and what there is to see of them afterwards."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import msgspec
import trio

import agentrt
from agentrt import Limits
from agentrt.lowlevel import Opening, SessionClaim
from agentrt.permissions import Policy
from agentrt.store import LoadedSession, Store
from runtime.fakes import Incarnations

from .composed import composed

RESUMES: dict[str, Any] = {"capabilities": {"loadSession": True}}
"""What a fake agent says that can resume its conversation."""


@asynccontextmanager
async def kept(
    store: Store | None,
    agents: Incarnations,
    *,
    id: str = "one",
    permissions: Policy | None = None,
    limits: Limits | None = None,
    **opening: Any,
) -> AsyncIterator[agentrt.Session]:
    """A new session, which the store keeps."""
    limits = limits or Limits(cancel_grace_s=5)
    async with composed(
        lambda: agents.start().connect(),
        opening=Opening(**{"cwd": "/", **opening}),
        limits=limits,
        permissions=permissions,
        ids=chain((id,), repeat(f"{id}-epoch")).__next__,
        store=store,
    ) as session:
        yield session


@asynccontextmanager
async def again(
    store: Store,
    agents: Incarnations,
    *,
    id: str = "one",
    permissions: Policy | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[agentrt.Session]:
    """A stored session, as `reopen_session` gives it."""
    place, stored = await store.claim(id)
    going_on = gone_on_with(
        store, agents, id, place, stored, permissions=permissions, limits=limits
    )
    async with going_on as session:
        yield session


@asynccontextmanager
async def gone_on_with(
    store: Store,
    agents: Incarnations,
    id: str,
    place: SessionClaim,
    stored: LoadedSession,
    *,
    permissions: Policy | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[agentrt.Session]:
    """One that was claimed."""
    limits = limits or Limits(cancel_grace_s=5)
    async with composed(
        lambda: agents.start().connect(),
        limits=limits,
        permissions=permissions,
        store=store,
        again=(id, place, stored),
        first_key=f"r{place.owner}.",
    ) as session:
        yield session


async def ended(session: agentrt.Session) -> None:
    """Wait until a session is closed."""
    async for _ in session.subscribe():
        pass


def whole(snapshot: agentrt.events.Snapshot) -> Any:
    """All that a snapshot shows, as viewers get it."""
    return msgspec.json.decode(msgspec.json.encode(snapshot))


def checked(path: Path | str) -> dict[str, int]:
    """Look through a store that nobody writes: every session's frames follow each other without a
    gap or an overlap, and are no fewer than its row says. Returns the last event of each."""
    with _looking(path) as rows:
        last: dict[str, int] = {}
        for num, id, following in rows("SELECT num, id, next FROM session"):
            expected, owner = None, 0
            for first, end, by, body in rows(
                f"SELECT first, last, owner, body FROM frame WHERE session={num} ORDER BY first"
            ):
                assert expected in (None, first), f"{id}: {first} follows {expected}"
                assert by >= owner, f"{id}: an earlier owner wrote {first}"
                assert len(msgspec.json.decode(body)) == end - first + 1
                expected, owner = end + 1, by
            assert expected is None or following <= expected, f"{id}: {expected} is lost"
            last[id] = (expected or following) - 1
        return last


@contextmanager
def _looking(path: Path | str) -> Iterator[Callable[[str], list[Any]]]:
    if isinstance(path, Path):
        import sqlite3

        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            yield lambda sql: connection.execute(sql).fetchall()
        finally:
            connection.close()
    else:
        from postgres.kit import rows

        yield partial(rows, path)


_OTHER = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2], sys.argv[3:])"


async def done_by_another(path: Path, sql: str, *values: str) -> None:
    """Let another program work on a file that may be open here: two SQLites in one process do not
    see each other's locks of a file, and the second one cuts what the first one has mapped."""
    await trio.run_process([sys.executable, "-c", _OTHER, str(path), sql, *values])


def abandoned(path: Path, copy: Path) -> None:
    """Copy a store as it is now, as if the process had been killed here."""
    for end in ("", "-wal"):
        source = path.with_name(path.name + end)
        copy.with_name(copy.name + end).write_bytes(source.read_bytes())
    # The copy stands for the very file, which the lock says by its number.
    pid, mark, *_ = path.with_name(f"{path.name}.lock").read_text().split()
    wal = copy.with_name(f"{copy.name}-wal").stat().st_ino
    copy.with_name(f"{copy.name}.lock").write_text(f"{pid}\n{mark} {copy.stat().st_ino}\n{wal}\n")


def prompts(agents: Incarnations) -> list[str]:
    """The prompts that the last agent got."""
    return [m["params"]["prompt"][0]["text"] for m in agents.sent("session/prompt")]


def left(request: agentrt.PermissionRequest) -> agentrt.permissions.Ask:
    """A policy that leaves the answer to people."""
    return agentrt.permissions.Ask()
