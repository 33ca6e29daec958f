"""What a store keeps, and what a database must be able to do to be one.

A *frame* is a run of a session's events as they were, without a gap to the next one. A `Head` and
the `Record`s (`_model/checkpoint.py`) stand for all frames up to the head's event. Each session has
one owner at a time; a frame is taken from its owner only, and only behind the last one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from .._errors import LimitExceeded, RemoteProtocolError, StoreError
from .._model.checkpoint import Head, Record, restored
from .._model.content import JsonObject
from .._model.events import Event, Notice, Phase
from .._model.state import Ahead, SessionState
from .._wire.json import without_surrogates

T = TypeVar("T")


class About(Struct, kw_only=True, omit_defaults=True):
    """What a session needs to be opened again, beside what its log says. No environment and no
    server is in it: they may hold secrets."""

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
    """Whether a person gave the title: then the agent's own are not shown."""
    tenant: str = ""
    """Whose it is, where several share a server."""


PROMPTED: Final = "(turns>0 OR prompt<>'')"
"""SQL: true for the row of a session that had a turn, or whose first prompt still waits in its
queue. Other sessions are not listed, and are deleted when they are over."""


class Row(Struct, kw_only=True):
    """The columns of a session's row that lists show. `prompt`: the beginning of its first prompt,
    which may still wait; never empty if there is one."""

    title: str | None
    prompt: str
    phase: Phase
    turns: int
    about: About


class StoreEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a store. `prompt` is the beginning of its first one; times are seconds since the
    Unix epoch. `updated`: when something but text came last: a turn began or ended, or somebody was
    asked. `agent_session`: the agent's own id of the conversation. `phase`: what it does now, in
    another process that shares the store; None: it rests, or nobody has asked. `tenant`: whose it
    is, where several share a server. `roots`: its folders beside `cwd`."""

    session: str
    agent: str
    cwd: str
    title: str | None = None
    prompt: str = ""
    turns: int = 0
    created: float
    updated: float
    agent_session: str | None = None
    phase: Phase | None = None
    tenant: str = ""
    roots: tuple[str, ...] = ()


class StoreHit(Struct, frozen=True, kw_only=True):
    """A session that was found by words. `snippet`: what was said there, in a line around the first
    of them; empty if they are in its title only."""

    entry: StoreEntry
    snippet: str


class StoreStatistics(Struct, frozen=True, kw_only=True):
    """What a store has done since it was opened. `backlog`: bytes that wait to be stored; `size`:
    of its files, in bytes; `failures`: commits that failed, of which most succeed later."""

    backlog: int
    size: int
    commits: int
    commit_seconds: float
    failures: int


class SharedStatistics(Struct, frozen=True, kw_only=True):
    """How a process does among those that share its store.

    - `lease`: seconds until its agents would be ended, if it did not reach the database; 0: it has
      no lease.
    - `takeovers`: sessions that it has closed or gone on with because their owner was gone.
    - `fenced`: sessions of its own that another one has taken over.
    - `lag`: for how many seconds something new of a session that is followed was not read.
    - `commands`: those of its clients that others are to carry out; `waits`: for how many seconds
      the oldest of them has waited.
    - `connections`, `most_connections`: of all who use the database, and how many it takes; 0: that
      was not asked yet.
    """

    lease: float
    takeovers: int
    fenced: int
    lag: float
    commands: int
    waits: float
    connections: int
    most_connections: int


class StoreStatus(Struct, frozen=True, kw_only=True):
    """How a store does, and `since` when, in seconds since the Unix epoch.

    - `ok`: what happens is stored at once.
    - `slow`: it has taken longer than a second, and no error came. What is new waits.
    - `failing`: it cannot be stored, and `message` says why. New prompts are refused.
    """

    state: Literal["ok", "slow", "failing"] = "ok"
    since: float
    message: str | None = None


class Query(Struct, frozen=True, kw_only=True):
    """Which sessions a list has; see `Store.sessions`."""

    limit: int | None = None
    before: tuple[float, str] | None = None
    cwd: str | None = None
    agent: str | None = None


class Stored(Struct, kw_only=True):
    """A session as its store has it: `events` are those behind the head. `ahead`: what is ahead of
    the first record, if not all of them were asked for."""

    about: About
    epoch: str
    created: float
    next: int
    head: Head
    records: list[Record]
    ahead: Ahead | None
    events: list[Event]

    def state(self) -> SessionState:
        """As it is at the head."""
        return restored(self.head, self.records, self.ahead)


class Packed(Struct, frozen=True):
    """A session as it is taken from one file to another: its row, records and frames."""

    session: str
    row: tuple[Any, ...]
    records: list[tuple[Any, ...]]
    frames: list[tuple[Any, ...]]


class Place(Struct, frozen=True):
    """Where the frames of a session go: its number in the store, and its owner's."""

    num: int
    owner: int


class Process(Struct, frozen=True, kw_only=True):
    """Who shares a store with others. `home`: whose files a session of it needs; the same for
    machines that share a file system. `role`: `worker` runs sessions, `gateway` does not."""

    name: str
    host: str
    pid: int
    home: str
    role: str = "both"
    version: str = ""


class NodeEntry(Struct, frozen=True):
    """A process that shares a store, as others see it. `since`: seconds since the Unix epoch;
    `lease`: seconds that are left of its lease; `sessions`: how many it owns."""

    num: int
    name: str
    host: str
    pid: int
    role: str
    home: str
    version: str
    since: float
    lease: float
    draining: bool
    load: bytes
    sessions: int


class Owned(Struct, frozen=True):
    """Whose a session is: the lease of who is at work with it, if anybody is, and its home."""

    node: int | None
    home: str


class Worker(Struct, frozen=True):
    """A process that runs sessions. `load`: what it has said of itself some seconds ago;
    `sessions`: how many it owns now; `coming`: new ones that are on their way to it."""

    num: int
    home: str
    load: bytes
    sessions: int
    coming: int


class Command(Struct, frozen=True, kw_only=True):
    """What a client wants of a session (`""`: a new one) that another process is to carry out.
    `asker`: the lease of who waits for the answer."""

    client: str
    id: str
    session: str
    digest: bytes
    body: bytes
    num: int = 0
    asker: int = 0


class CommandStatus(Struct, frozen=True):
    """How a command stands: `node` is to carry it out. An empty answer: it is another's to."""

    num: int
    node: int
    answer: bytes | None
    alive: bool


class Tail(Struct, frozen=True, kw_only=True):
    """What is stored of a session behind what was known; `size` is of it as bytes. `frames`: runs
    of events, with the number of the first one of each. `cut`: there may be more."""

    num: int
    next: int
    epoch: str
    frames: list[tuple[int, list[Event]]]
    size: int
    cut: bool = False


class Answer(Struct):
    """What a client was answered to a command, which it may send again: `digest` stands for what
    it said."""

    client: str
    id: str
    digest: bytes
    body: bytes


class Part(Struct):
    """What one flush has of one session."""

    place: Place
    first: int
    events: list[Event]
    row: Row | None = None
    head: Head | None = None
    records: dict[int, Record] = {}


class Flush(Struct):
    """What is committed together. `firm`: it must survive the loss of power, too."""

    parts: list[Part]
    firm: bool = False
    answers: list[Answer] = []


def no_room(tenant: str, open: int, room: int) -> LimitExceeded:
    return LimitExceeded(
        f"the tenant {tenant!r} has {open} sessions open, and may have {room}"
        f" (serve.tenants.{tenant}.sessions): close one first"
    )


class Unusable(Exception):
    """The database cannot be written any more, by this process: nothing is tried again."""


class Outdated(StoreError):
    """A store of an older version: who opens it to write brings it up to date."""


class Fenced(Exception):
    """Some sessions of a flush have another owner by now, or are deleted: nothing of it was
    written. Without theirs it can be."""

    def __init__(self, places: Collection[Place]) -> None:
        super().__init__(f"{len(places)} sessions were taken over by another process, or deleted")
        self.places = frozenset(places)


class Backend(Protocol):
    """A database, as the writer thread uses it: synchronous, and from one thread at a time."""

    gather: float
    """Seconds from one flush to the next, if that has only what nobody waits for."""
    rest: float
    """Seconds from one flush to the next, whatever it has."""
    lease: Callable[[], int | None]
    """The lease that is held at this moment, of a store that is shared."""
    takeovers: int
    """Sessions that were claimed although another process had them, which is gone."""
    rooms: Mapping[str, int | None]
    """How many sessions a tenant may have open at all who share it. To be read from any thread."""

    def open(self) -> None:
        """Raises `StoreError`."""
        ...

    def commit(self, flush: Flush) -> None:
        """All of it, or nothing. What was committed before, although its commit seemed to fail, is
        not committed twice. Raises `Unusable`, `Fenced`, or what is worth another try."""
        ...

    def create(self, session: str, epoch: str, about: About) -> Place:
        """A place for a session. Raises `LimitExceeded` if its tenant has as many as it may."""
        ...

    def claim(self, session: str, *, reads: bool = False) -> Place | None:
        """Become a session's owner. None: there is no such session. Raises `SessionElsewhere` where
        somebody else is its owner and alive, or if it is another home's and `reads` does not say
        that no agent will be started; unless it does, `LimitExceeded` as `create`."""
        ...

    def release(self, place: Place) -> None:
        """Own a session no longer: others may claim it at once."""
        ...

    def discard(self, place: Place) -> None:
        """Delete a session, unless another one has owned it since."""
        ...

    def delete(self, session: str) -> bool:
        """False: there is no such session."""
        ...

    def put(self, packed: Packed) -> None:
        """Take over a session from another file, unless a later state of it is here."""
        ...

    def name_chat(self, chat: str, session: str) -> None:
        """Remember what a client calls a session."""
        ...

    def catch_up(self) -> None:
        """Do what was put off so that commits cost less: what they had can be searched now."""
        ...

    def tidy(self, events: float, answers: float) -> None:
        """Drop the frames that a head stands for, and the answers to commands, that are older than
        so many seconds."""
        ...

    def finish(self) -> None:
        """All that was given is committed: nothing that was shown can be missing later."""
        ...

    def close(self) -> None: ...


class Reader(Protocol):
    """A database, as those use it who only read, beside its writer."""

    def sessions(self, query: Query) -> list[StoreEntry]:
        """The sessions that were prompted, the latest first."""
        ...

    def find(self, prefix: str) -> list[StoreEntry]:
        """Those whose id begins with this, or else the agent's own of it: a few of them."""
        ...

    def load(self, session: str, last: int | None = None) -> Stored | None:
        """`last`: no more records than that."""
        ...

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[StoreHit]:
        """The sessions in which all of these words are, the latest first; those of a tenant."""
        ...

    def chats(self) -> dict[str, str]:
        """The sessions that clients have names for, by those names."""
        ...

    def answers(self) -> list[Answer]:
        """All that are kept, the oldest first."""
        ...

    def answer(self, client: str, id: str) -> Answer | None:
        """What a client was answered to a command."""
        ...

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None: ...

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None: ...

    def close(self) -> None: ...


COMPRESSED = (512, 1024 * 1024)
"""Bytes of the records that are compressed: less does not become smaller, and with more than that
the sessions wait that are written behind it."""

Job = Callable[[Backend], T]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(list[Event])
_heads = msgspec.json.Decoder(Head)
_records = msgspec.json.Decoder(Record)
_abouts = msgspec.json.Decoder(About)


def encode(value: object) -> bytes:
    """As JSON. What no JSON can hold becomes U+FFFD (half a character)."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(without_surrogates(msgspec.to_builtins(value)))


def encode_events(events: list[Event]) -> bytes:
    """A frame's body. An event that cannot be encoded costs itself, and leaves no gap."""
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
    plain = encode(record)
    return zlib.compress(plain, 3) if COMPRESSED[0] <= len(plain) <= COMPRESSED[1] else plain


def decode_events(body: bytes) -> list[Event]:
    return _decode(_events, body)


def decode_head(body: bytes) -> Head:
    return _decode(_heads, body) if body else Head()


def decode_record(body: bytes) -> Record:
    try:
        plain = body if body.startswith(b"{") else zlib.decompress(body)
    except zlib.error as error:
        raise RemoteProtocolError(f"the store holds what cannot be read: {error}") from error
    return _decode(_records, plain)


def decode_about(body: bytes) -> About:
    return _decode(_abouts, body)


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the store holds what cannot be read: {error}") from error


def plain(value: Any) -> Any:
    """What JSON makes of a value; None if it can hold none of it."""
    try:
        return msgspec.json.decode(encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None


def entry_of(row: Sequence[Any]) -> StoreEntry:
    """Of a row that begins with these, in this order; either database's."""
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
