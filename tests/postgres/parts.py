"""The parts of a server that shares a store in PostgreSQL, each at a URL.

Tests let leases end, connections break and rows be told between two statements of one part. The
public API of such a store has all parts together.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import asdict

from agentrt._cluster.postgres import connection as connections
from agentrt._cluster.postgres.backend import PostgresBackend
from agentrt._cluster.postgres.commands import PostgresCommands, PostgresListener
from agentrt._cluster.postgres.connection import PostgresConnection
from agentrt._cluster.postgres.leases import PostgresLeases
from agentrt._cluster.postgres.statements import CHANNEL
from agentrt.errors import StoreUnavailable
from agentrt.lowlevel import StoreServer
from agentrt.storage import server_of
from agentrt.store import StoreProcess
from inside.postgres import Notified, notified_of


def _server(at: str | StoreServer) -> Any:
    return server_of(at) if isinstance(at, str) else at


class Writer(PostgresBackend):
    """What writes a store: under the lease `held`, if it has a home."""

    def __init__(self, at: str | StoreServer, home: str | None = None) -> None:
        self.held: int | None = None
        shared = {} if home is None else {"home": home, "lease": lambda: self.held}
        super().__init__(_server(at), **shared)


class Commands(PostgresCommands):
    """The rows of commands."""

    def __init__(self, at: str | StoreServer) -> None:
        super().__init__(_server(at))


class Leases(PostgresLeases):
    """The rows of leases."""

    def __init__(self, at: str | StoreServer) -> None:
        super().__init__(_server(at))


class Listener(PostgresListener):
    """What a node hears."""

    def __init__(self, at: str | StoreServer, node: int) -> None:
        super().__init__(_server(at), node)

    def heard(self, patience_s: float = 10) -> dict[str, Any] | None:
        """Return what is heard next, or None after a while."""
        return _said(self.received()) if select.select([self], [], [], patience_s)[0] else None

    def heard_now(self) -> dict[str, Any]:
        """Wait for what is heard next."""
        return _said(self.received())


def meaning(told: Iterable[str]) -> dict[str, Any]:
    """Return what notifications mean together."""
    return _said(notified_of([*told]))


def _said(found: Notified) -> dict[str, Any]:
    """Return all that notifications say, by name, without what they do not."""
    return {name: value for name, value in asdict(found).items() if value}


def notify(connection: Any, node: int, text: str) -> None:
    """Tell a node something, from any connection."""
    connection.execute(f"SELECT pg_notify({CHANNEL} || %s::bigint, %s)", (node, text))


def process(name: str, home: str = "here") -> StoreProcess:
    return StoreProcess(name=name, host="host", pid=1, home=home)


@contextmanager
def member(url: str, name: str, home: str = "here") -> Iterator[tuple[Writer, int]]:
    """What writes a store under a lease, which is not renewed."""
    backend, leases = Writer(url, home), Leases(url)
    backend.open()
    try:
        num = backend.held = leases.join(process(name, home), 60)
        yield backend, num
    finally:
        backend.close()
        leases.close()


def limit_replies(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a server have so long to reply, before and after it lets in."""
    patch.setattr(PostgresConnection, "reply_timeout_s", seconds)
    patch.setattr(connections, "REPLY_TIMEOUT_S", seconds)


def before_each_query(patch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    """Call a function with each statement that asks for rows, before it is sent."""
    ask = PostgresConnection.rows

    def rows(connection: PostgresConnection, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        act(statement)
        return ask(connection, statement, *args)

    patch.setattr(PostgresConnection, "rows", rows)


# --- a database that cannot be read, or says nothing


class Tails:
    """What servers read of sessions of others, until the database is away."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.away = False
        self.reading = 0
        real = PostgresCommands.tails

        def tails(commands: PostgresCommands, known: Any) -> Any:
            if self.away:
                raise StoreUnavailable("the database is away")
            self.reading += 1
            try:
                return real(commands, known)
            finally:
                self.reading -= 1

        patch.setattr(PostgresCommands, "tails", tails)


def hear_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let nodes take what they are told for nothing."""
    received = PostgresListener.received

    def deaf(listener: PostgresListener) -> Notified:
        received(listener)
        return Notified()

    patch.setattr(PostgresListener, "received", deaf)


def hide_owners(patch: pytest.MonkeyPatch) -> None:
    """Let the database be away for whoever asks whose a session is."""

    def away(commands: PostgresCommands, session: str) -> Any:
        raise StoreUnavailable("the database is away")

    patch.setattr(PostgresCommands, "owned", away)
