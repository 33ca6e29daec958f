"""The data that a store keeps, and the interface that a database must provide.

A *frame* is a run of a session's original events, with no gap before the next one. A `Head` and
the `Record`s (`_core/model/checkpoint.py`) replace all frames up to the head's event. Each session
has one owner at a time; a frame is accepted from its owner only, and only directly after the last
one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from ..errors import LimitExceeded, RemoteProtocolError, StoreError
from ..model.checkpoint import Head, Record, restored
from ..model.content import JsonObject
from ..model.events import Event, Notice, Phase
from ..model.state import SessionState, StoredHistory
from ..wire.json import without_surrogates

T = TypeVar("T")


class About(Struct, kw_only=True, omit_defaults=True):
    """The data needed to reopen a session, in addition to its log. Environments and servers are
    left out: they may hold secrets."""

    agent: str
    protocol: str
    cwd: str
    roots: tuple[str, ...] = ()
    model: str | None = None
    mode: str | None = None
    options: JsonObject = {}
    agent_session: str | None = None
    capabilities: JsonObject = {}
    named: bool = False
    """True if a person gave the title: the titles of the agent are not shown then."""
    tenant: str = ""
    """The tenant that owns the session, if several share a server."""
    sandbox: JsonObject | None = None
    """The fields of the sandbox around the agent; None: no sandbox."""


PROMPTED: Final = "(turns>0 OR prompt<>'')"
"""SQL: true for the row of a session that had a turn, or has its first prompt in the queue. Other
sessions are not listed, and are deleted when they end."""


class SessionRow(Struct, kw_only=True):
    """The columns of a session's row that lists show. `prompt`: the beginning of its first prompt,
    which may still be queued; never empty if there is a prompt."""

    title: str | None
    prompt: str
    phase: Phase
    turns: int
    about: About


class StoreEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a store.

    - `prompt`: the beginning of its first prompt.
    - `created`, `updated`: seconds since the Unix epoch. `updated` is the time of the last event
      that was not text: a turn began or ended, or a question was asked.
    - `agent_session`: the agent's own id of the conversation.
    - `phase`: its current phase in another process that shares the store; None if it does not run
      there, or was not looked up.
    - `tenant`: its owner, if several tenants share a server.
    - `roots`: its folders in addition to `cwd`.
    """

    session: str
    """The session's id."""
    agent: str
    """The name of its agent."""
    cwd: str
    """Its working directory."""
    title: str | None = None
    """Its title; None if it has none."""
    prompt: str = ""
    turns: int = 0
    """The number of its turns."""
    created: float
    updated: float
    agent_session: str | None = None
    phase: Phase | None = None
    tenant: str = ""
    roots: tuple[str, ...] = ()


class StoreHit(Struct, frozen=True, kw_only=True):
    """A session found by a search. `snippet`: one line of its text around the first word that
    matched; empty if the words occur in its title only."""

    entry: StoreEntry
    """The session."""
    snippet: str


class StoreStatistics(Struct, frozen=True, kw_only=True):
    """Counts since a store was opened. `backlog`: bytes that wait to be stored; `size`: bytes of
    its files; `failures`: commits that failed, most of which succeed later."""

    backlog: int
    size: int
    commits: int
    """Transactions written."""
    commit_seconds: float
    """Seconds spent in them."""
    failures: int


class SharedStatistics(Struct, frozen=True, kw_only=True):
    """The figures of one process among those that share a store.

    - `lease`: seconds until its agents would be ended if it cannot reach the database; 0 if it has
      no lease.
    - `takeovers`: sessions that it has closed or continued because their owner was gone.
    - `fenced`: its sessions that another process has taken over.
    - `lag`: the number of seconds for which new events of a followed session have been unread.
    - `commands`: its clients' commands that other processes must carry out; `waits`: the number of
      seconds for which the oldest of them has waited.
    - `connections`, `most_connections`: the connections of all users of the database, and their
      maximum; 0 until first queried.
    """

    lease: float
    takeovers: int
    fenced: int
    lag: float
    commands: int
    waits: float
    connections: int
    most_connections: int


class StoreReport(Struct, frozen=True, kw_only=True):
    """Facts about a store. `database`: the name of its kind; `facts`: its version and settings;
    `size`: in bytes; `sessions`: the number of sessions that were prompted."""

    path: str
    database: str
    facts: str
    size: int
    sessions: int


class StoreStatus(Struct, frozen=True, kw_only=True):
    """The state of a store since `since`, in seconds since the Unix epoch.

    - `ok`: events are stored without delay.
    - `slow`: a write has taken longer than a second, without an error. New events wait.
    - `failing`: events cannot be stored, and `message` gives the reason. New prompts are refused.
    """

    state: Literal["ok", "slow", "failing"] = "ok"
    """The state."""
    since: float
    message: str | None = None


class SessionQuery(Struct, frozen=True, kw_only=True):
    """A filter for a list of sessions; see `Store.sessions`."""

    limit: int | None = None
    before: tuple[float, str] | None = None
    cwd: str | None = None
    agent: str | None = None


class Stored(Struct, kw_only=True):
    """A session as its store has it. `events`: the events after the head. `ahead`: the data that
    precedes the first record, if not all records were loaded."""

    about: About
    epoch: str
    created: float
    next: int
    head: Head
    records: list[Record]
    ahead: StoredHistory | None
    events: list[Event]

    def state(self) -> SessionState:
        """Build the state at the head."""
        return restored(self.head, self.records, self.ahead)


class Packed(Struct, frozen=True):
    """A session in transit from one file to another: its row, records and frames."""

    session: str
    row: tuple[Any, ...]
    records: list[tuple[Any, ...]]
    frames: list[tuple[Any, ...]]


class SessionClaim(Struct, frozen=True):
    """The destination of a session's frames: its number in the store, and its owner's number."""

    num: int
    owner: int


class CommandAnswer(Struct):
    """The answer to a client's command, kept in case the client repeats it. `digest`: the hash of
    the command."""

    client: str
    id: str
    digest: bytes
    body: bytes


class Part(Struct):
    """The part of a flush that belongs to one session."""

    place: SessionClaim
    first: int
    events: list[Event]
    row: SessionRow | None = None
    head: Head | None = None
    records: dict[int, Record] = {}


class Flush(Struct):
    """Data that is committed together. `fsync`: it must survive a power failure, too."""

    parts: list[Part]
    fsync: bool = False
    answers: list[CommandAnswer] = []


def quota_reached(tenant: str, open: int, quota: int) -> LimitExceeded:
    """Return the error for a tenant that has reached its number of open sessions."""
    return LimitExceeded(
        f"the tenant {tenant!r} has {open} sessions open, and may have {quota}"
        f" (serve.tenants.{tenant}.sessions): close one first"
    )


class Unusable(Exception):
    """This process cannot write to the database any more: nothing is retried."""


class Outdated(StoreError):
    """A store of an older version: opening it for writing upgrades it."""


class Fenced(Exception):
    """Some sessions of a flush have a new owner or are deleted: nothing of the flush was written.
    It can be written without these sessions."""

    def __init__(self, places: Collection[SessionClaim]) -> None:
        super().__init__(f"{len(places)} sessions were taken over by another process, or deleted")
        self.places = frozenset(places)


class Backend(Protocol):
    """A database as the writer thread uses it: synchronous, and from one thread at a time."""

    gather_s: float
    """Seconds between flushes if no caller waits for their data."""
    min_interval_s: float
    """Minimum seconds between flushes, whatever they contain."""
    takeovers: int
    """Number of sessions claimed from another process that is gone."""

    def open(self) -> None:
        """Open the database. Raises `StoreError`."""
        ...

    def commit(self, flush: Flush) -> None:
        """Commit a flush, entirely or not at all. Data of an earlier commit that only seemed to
        fail is not written twice. Raises `Unusable`, `Fenced`, or an error that permits a retry."""
        ...

    def create(self, session: str, epoch: str, about: About) -> SessionClaim:
        """Create a session. Raises `LimitExceeded` if its tenant has reached its number of open
        sessions."""
        ...

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        """Become the owner of a session. Returns None if the session does not exist.

        `reads`: no agent will be started. Raises `SessionElsewhere` if another process owns the
        session and is alive, and unless `reads` also if the session belongs to another home, and
        `LimitExceeded` as `create` does.
        """
        ...

    def release(self, place: SessionClaim) -> None:
        """Give up a session: others may claim it immediately."""
        ...

    def discard(self, place: SessionClaim) -> None:
        """Delete a session, unless another process has owned it since."""
        ...

    def delete(self, session: str) -> bool:
        """Delete a session. Returns False if the session does not exist."""
        ...

    def put(self, packed: Packed) -> None:
        """Import a session from another file, unless a later state of it is here."""
        ...

    def name_chat(self, chat: str, session: str) -> None:
        """Record a client's name for a session."""
        ...

    def catch_up(self) -> None:
        """Do the work that was postponed to make commits cheaper: index all committed text."""
        ...

    def tidy(self, events: float, answers: float) -> None:
        """Drop the frames that a head replaces, and the answers to commands, that are older than
        `events` and `answers` seconds."""
        ...

    def finish(self) -> None:
        """Make everything that was committed durable: nothing that was shown can be lost later."""
        ...

    def close(self) -> None:
        """Close the database, and release its lock."""
        ...


class StoreReader(Protocol):
    """A database as its readers use it, concurrently with the writer."""

    def sessions(self, query: SessionQuery) -> list[StoreEntry]:
        """List the sessions that were prompted, the latest first."""
        ...

    def find(self, prefix: str) -> list[StoreEntry]:
        """Find the sessions with this id prefix, or else those with this prefix in the agent's id.
        Returns only a few if many match."""
        ...

    def load(self, session: str, last: int | None = None) -> Stored | None:
        """Load a session; None if it does not exist. `last`: the maximum number of
        records."""
        ...

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[StoreHit]:
        """Find the sessions that contain all of these words, the latest first; `tenant`: only the
        sessions of that tenant."""
        ...

    def chats(self) -> dict[str, str]:
        """Map the names that clients gave to sessions to the ids of these sessions."""
        ...

    def answers(self) -> list[CommandAnswer]:
        """Return all answers that are kept, the oldest first."""
        ...

    def answer(self, client: str, id: str) -> CommandAnswer | None:
        """Return the answer to a client's command."""
        ...

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        """Return the events after number `after` that are kept; None without such a session."""
        ...

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None:
        """Return the last `count` records, or those before number `before`; None without such
        a session."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


COMPRESSED_SIZES_BYTES = (512, 1024 * 1024)
"""The smallest and the largest size, in bytes, of records that are compressed: smaller ones do not
shrink, and larger ones would delay the sessions that are written after them."""

Job = Callable[[Backend], T]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(list[Event])
_heads = msgspec.json.Decoder(Head)
_records = msgspec.json.Decoder(Record)
_abouts = msgspec.json.Decoder(About)


def encode(value: object) -> bytes:
    """Encode a value as JSON. A surrogate, which JSON cannot hold, becomes U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(without_surrogates(msgspec.to_builtins(value)))


def encode_events(events: list[Event]) -> bytes:
    """Encode the body of a frame. An event that cannot be encoded is replaced by a `Notice`, so
    that no gap is left."""
    try:
        return encode(events)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return b"[" + b",".join(map(_encode_event, events)) + b"]"


def _encode_event(event: Event) -> bytes:
    try:
        return encode(event)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return encode(Notice("warning", "not_stored", f"an event could not be stored: {error}"))


def encode_record(record: Record) -> bytes:
    """Encode a record, compressed if its size is within `COMPRESSED_SIZES_BYTES`."""
    plain = encode(record)
    return (
        zlib.compress(plain, 3)
        if COMPRESSED_SIZES_BYTES[0] <= len(plain) <= COMPRESSED_SIZES_BYTES[1]
        else plain
    )


def decode_events(body: bytes) -> list[Event]:
    """Decode the body of a frame. Raises `RemoteProtocolError`."""
    return _decode(_events, body)


def decode_head(body: bytes) -> Head:
    """Decode a head; empty data is an empty head. Raises `RemoteProtocolError`."""
    return _decode(_heads, body) if body else Head()


def decode_record(body: bytes) -> Record:
    """Decode a record, compressed or not. Raises `RemoteProtocolError`."""
    try:
        plain = body if body.startswith(b"{") else zlib.decompress(body)
    except zlib.error as error:
        raise RemoteProtocolError(f"the store contains unreadable data: {error}") from error
    return _decode(_records, plain)


def decode_about(body: bytes) -> About:
    """Decode an `About`. Raises `RemoteProtocolError`."""
    return _decode(_abouts, body)


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the store contains unreadable data: {error}") from error


def plain(value: Any) -> Any:
    """Return a value as JSON would restore it; None if it cannot be encoded."""
    try:
        return msgspec.json.decode(encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None


def entry_of(row: Sequence[Any]) -> StoreEntry:
    """Make an entry of a row that begins with these columns, in this order; for either database."""
    id, agent, cwd, title, prompt, turns, created, updated, body, _ = row
    about = decode_about(body)
    return StoreEntry(
        session=id,
        agent=agent,
        cwd=cwd,
        title=title,
        prompt=prompt,
        turns=turns,
        created=created,
        updated=updated,
        agent_session=about.agent_session,
        tenant=about.tenant,
        roots=about.roots,
    )
