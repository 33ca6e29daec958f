"""The interface of a database to the processes that share a store in it: their leases, the commands
between them, and the events that they follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ..events import Event
from ..store import CommandStatus, NodeEntry, SessionOwner, StoredCommand, StoreEntry, StoreProcess


class Worker(Struct, frozen=True):
    """A process that runs sessions. `load`: its own report, some seconds old; `sessions`: the
    number of sessions that it owns now; `coming`: new ones that were given to it and are not
    opened yet."""

    num: int
    home: str
    load: bytes
    sessions: int
    coming: int


class Tail(Struct, frozen=True, kw_only=True):
    """The new stored events of a session. `size`: their size in bytes. `frames`: runs of events,
    each with the number of its first event. `cut`: there may be more."""

    num: int
    next: int
    epoch: str
    frames: list[tuple[int, list[Event]]]
    size: int
    cut: bool = False


class Notifications(Protocol):
    """The content of the notifications that were received."""

    @property
    def takes(self) -> bool:
        """True if there are commands to take."""
        ...

    @property
    def answers(self) -> bool:
        """True if there are answers."""
        ...

    @property
    def sessions(self) -> frozenset[int]:
        """The sessions that have new events, which must be read."""
        ...

    @property
    def tails(self) -> Sequence[Tail]:
        """New events of sessions."""
        ...


class NotificationListener(Protocol):
    """Receives the notifications for this process."""

    def fileno(self) -> int:
        """Return the socket to wait for."""
        ...

    def received(self) -> Notifications:
        """Return the notifications that have arrived. Never waits."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Rows(Protocol):
    """The database rows, used by one thread at a time. Methods that fail raise `StoreError`."""

    def owned(self, session: str) -> SessionOwner | None:
        """Return the owner of a session; None if there is no such session."""
        ...

    def workers(self) -> list[Worker]:
        """Return the processes that may run sessions."""
        ...

    def post(self, command: StoredCommand, asker: int, node: int) -> CommandStatus | None:
        """Have a command carried out by `node`; None if another command uses its id."""
        ...

    def take(self, node: int, known: Collection[int]) -> list[StoredCommand]:
        """Take the commands for this process, except those that are `known`."""
        ...

    def answer(self, node: int, answers: Mapping[int, bytes]) -> None:
        """Answer commands."""
        ...

    def look(self, nums: Sequence[int]) -> list[CommandStatus]:
        """Return the states of commands."""
        ...

    def pass_on(self, num: int, node: int, to: int) -> bool:
        """Give a command to another process, if `node` cannot carry it out."""
        ...

    def withdraw(self, num: int, node: int) -> bool:
        """Withdraw a command that `node` has not taken, or cannot carry out."""
        ...

    def forget(self, nums: Sequence[int]) -> None:
        """Delete commands whose answers were read."""
        ...

    def watch(self, session: str, node: int) -> int | None:
        """Subscribe to notifications of a session; return its number, or None."""
        ...

    def watch_again(self, nums: Sequence[int], node: int) -> None:
        """Renew subscriptions under this lease."""
        ...

    def unwatch(self, num: int, node: int) -> None:
        """End a subscription."""
        ...

    def tails(self, known: Mapping[int, int]) -> list[Tail]:
        """Return the stored events after those that are known of each session."""
        ...

    def alive(self) -> list[int]:
        """Return the leases that are not over."""
        ...

    def connections(self) -> tuple[int, int]:
        """Return the number of database connections, and its maximum."""
        ...

    def entries(self, limit: int) -> list[StoreEntry]:
        """Return the most recently active sessions, the latest first."""
        ...

    def entry(self, session: str) -> StoreEntry | None:
        """Return one session, as `entries` does."""
        ...

    def chat(self, name: str) -> str | None:
        """Return the session to which clients gave this name."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Leases(Protocol):
    """The database rows, used by one thread at a time. Methods that fail raise `StoreError`."""

    def join(self, process: StoreProcess, length: float) -> int:
        """Request a lease of `length` seconds; return its number."""
        ...

    def renew(self, num: int, length: float, load: bytes) -> bool | None:
        """Extend a lease. Returns true if its process should drain; None if the lease is over."""
        ...

    def leave(self, num: int) -> None:
        """Give a lease back."""
        ...

    def nodes(self) -> list[NodeEntry]:
        """Return all processes that are alive."""
        ...

    def left(self, limit: int) -> list[str]:
        """Return some sessions whose owners are gone without having released them."""
        ...

    def release(self, session: str) -> None:
        """Release a session whose owner is gone."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
