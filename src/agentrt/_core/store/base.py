"""The data that a store keeps, and the interface that a database must provide.

A *frame* is a run of a session's original events, with no gap before the next one. A `Head` and
the `Record`s (`_core/model/checkpoint.py`) replace all frames up to the head's event. Each session
has one owner at a time; a frame is accepted from its owner only, and only directly after the last
one.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field, structs

from ..errors import LimitExceeded, RemoteProtocolError, StoreError
from ..model.checkpoint import Head, Record, restored
from ..model.content import JsonObject
from ..model.driver import WorktreeOptions
from ..model.events import Event, Notice, Phase
from ..model.state import SessionState, Snapshot, StoredHistory
from ..wire.json import without_surrogates
from .search import contains, excerpt, text_of, words_of

T = TypeVar("T")


class SessionDescription(Struct, kw_only=True, omit_defaults=True):
    """The data needed to reopen a session, in addition to its log.

    Environments and MCP servers are left out: they may hold secrets.
    """

    agent: str
    """The name of its agent."""
    protocol: str
    """The protocol of its agent: `acp`, `claude` or `codex`."""
    cwd: str
    """Its working directory."""
    roots: tuple[str, ...] = ()
    """Its folders in addition to `cwd`."""
    model: str | None = None
    """The model that was chosen for it; None: the agent's default."""
    mode: str | None = None
    """The mode that was chosen for it; None: the agent's default."""
    options: JsonObject = {}
    """The agent's options."""
    agent_session: str | None = None
    """The agent's own id of the conversation."""
    capabilities: JsonObject = {}
    """The abilities that the agent has announced."""
    named: bool = False
    """True if a person gave the title: the titles of the agent are not shown then."""
    tenant: str = ""
    """The tenant that owns the session, if several share a server."""
    sandbox: JsonObject | None = None
    """The fields of the sandbox around the agent; None: no sandbox."""
    worktree: WorktreeOptions | None = None
    """The separate working tree that `cwd` is in; None: it is an ordinary folder."""


PROMPTED: Final = "(turns>0 OR prompt<>'')"
"""SQL: true for the row of a session that had a turn, or has its first prompt in the queue. Other
sessions are not listed, and are deleted when they end."""


class SessionRow(Struct, kw_only=True):
    """The part of a session that lists show."""

    title: str | None
    """Its title; None if it has none."""
    prompt: str
    """The beginning of its first prompt, which may still be queued; empty if there is none."""
    phase: Phase
    """Its current phase."""
    turns: int
    """The number of its turns."""
    about: SessionDescription
    """Its description, which replaces the earlier one."""

    @property
    def prompted(self) -> bool:
        """True if the session had a turn, or has its first prompt in the queue.

        Other sessions are not listed.
        """
        return self.turns > 0 or bool(self.prompt)

    def entry(self, session: str, created: float, updated: float) -> StoreEntry:
        """Return the entry of the session in lists.

        `updated` is the time at which this row was committed; both times are seconds since the Unix
        epoch.
        """
        about = self.about
        return StoreEntry(
            session=session,
            agent=about.agent,
            cwd=about.cwd,
            title=self.title,
            prompt=self.prompt,
            turns=self.turns,
            created=created,
            updated=updated,
            agent_session=about.agent_session,
            tenant=about.tenant,
            roots=about.roots,
        )


class StoreEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    """Facts about a store."""

    path: str
    """The path of its file, or its URL without the password."""
    database: str
    """The name of its kind."""
    facts: str
    """Its version and settings."""
    size: int
    """Its size in bytes."""
    sessions: int
    """Number of sessions that were prompted."""


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
    """A filter for a list of sessions."""

    limit: int | None = None
    """The maximum number of sessions; None: all."""
    before: tuple[float, str] | None = None
    """Only sessions with a smaller `(updated, session)`: those after the last one of a page."""
    cwd: str | None = None
    """Only sessions of this folder."""
    agent: str | None = None
    """Only sessions of this agent."""

    def select(self, entries: Iterable[StoreEntry]) -> list[StoreEntry]:
        """Return the entries that match, the latest first."""
        found = [
            each
            for each in entries
            if self.cwd in (None, each.cwd)
            and self.agent in (None, each.agent)
            and (self.before is None or (each.updated, each.session) < self.before)
        ]
        found.sort(key=lambda each: (each.updated, each.session), reverse=True)
        return found[: self.limit]


class LoadedSession(Struct, kw_only=True):
    """A session as its store has it."""

    about: SessionDescription
    """Its description."""
    epoch: str
    """Identifies its log. A store that may have lost events which readers have seen returns another
    epoch, so that they do not continue."""
    created: float
    """The time at which it was created, in seconds since the Unix epoch."""
    next: int = 1
    """The number of its next event."""
    head: Head = field(default_factory=Head)
    """Its last head; `Head()` if it has none."""
    records: list[Record] = []
    """Its records, in order: all, or at least the last ones that were requested."""
    ahead: StoredHistory | None = None
    """The data that precedes the first record; None if all records were loaded."""
    events: list[Event] = []
    """The events after the head."""

    def state(self) -> SessionState:
        """Build the state at the head."""
        return restored(self.head, self.records, self.ahead)

    def snapshot(self, session: str) -> Snapshot:
        """Build the viewers' snapshot of the session, whose id is `session`."""
        state = self.state()
        for event in self.events:
            state.apply(event)
        return state.snapshot(session, self.epoch, self.next - 1)

    def add(self, part: FlushPart) -> None:
        """Add a part of a flush, for a store that keeps its sessions in memory.

        Events that are known already are left out, and those that a new head replaces are dropped.
        The lists are replaced, not changed: a shallow copy of the object keeps its content.
        """
        new = part.events[max(0, self.next - part.first) :]
        self.events, self.next = [*self.events, *new], self.next + len(new)
        if part.head is not None:
            self.head = part.head
            left = self.next - 1 - part.head.seq
            self.events = self.events[len(self.events) - left :] if left else []
        if part.row is not None:
            self.about = part.row.about
        known = {record.number: record for record in self.records} | part.records
        self.records = [known[number] for number in sorted(known)]


class Packed(Struct, frozen=True):
    """A session in transit from one file to another: its row, records and frames."""

    session: str
    """Its id."""
    row: tuple[Any, ...]
    """Its row in the list of sessions."""
    records: list[tuple[Any, ...]]
    """Its finished turns."""
    frames: list[tuple[Any, ...]]
    """Its events after the last record."""


class SessionClaim(Struct, frozen=True):
    """The right to write a session, until it is claimed again."""

    num: int
    """The session's number in the store, which is never used again."""
    owner: int
    """The number of the claim, higher than that of every earlier claim of the session."""


class CommandAnswer(Struct):
    """The answer to a client's command, kept in case the client repeats the command."""

    client: str
    """The client."""
    id: str
    """The client's id of the command."""
    digest: bytes
    """The hash of the command."""
    body: bytes
    """The answer."""


class FlushPart(Struct):
    """The part of a flush that belongs to one session."""

    place: SessionClaim
    """The session."""
    first: int
    """The number of the first event."""
    events: list[Event]
    """Events without a gap, which follow the last ones that were committed."""
    row: SessionRow | None = None
    """The session's new row; None: it has not changed."""
    head: Head | None = None
    """The new head; None: it stays. It replaces all events up to its own, `head.seq`; a store may
    delete them now or later (`Backend.tidy`)."""
    records: dict[int, Record] = {}
    """New records by their numbers. A record replaces an earlier one with its number."""


class Flush(Struct):
    """Data that is committed together."""

    parts: list[FlushPart]
    """The parts, one for each session."""
    fsync: bool = False
    """True if the data must survive a power failure, and not only the end of the process."""
    answers: list[CommandAnswer] = []
    """Answers to clients. One replaces an earlier one with its client and id."""

    def encode(self) -> bytes:
        """Return the flush as JSON, on one line.

        An event that JSON cannot hold is replaced by a `Notice`, and a lone surrogate by U+FFFD.
        """
        try:
            return encode(self)
        except (TypeError, ValueError, RecursionError, OverflowError):
            parts = [
                structs.replace(part, events=decode_events(encode_events(part.events)))
                for part in self.parts
            ]
            return encode(structs.replace(self, parts=parts))

    @classmethod
    def decode(cls, data: bytes | msgspec.Raw) -> Flush:
        """Return the flush that `encode` has encoded. Raises `RemoteProtocolError`."""
        return _decode(_flushes, bytes(data))


def quota_reached(tenant: str, open: int, quota: int) -> LimitExceeded:
    """Return the error for a tenant that has reached its number of open sessions."""
    return LimitExceeded(
        f"the tenant {tenant!r} has {open} sessions open, and may have {quota}"
        f" (serve.tenants.{tenant}.sessions): close one first"
    )


class Unusable(Exception):
    """Raised by `Backend.commit` if this process cannot write any more: nothing is retried."""


class Outdated(StoreError):
    """A store of an older version: opening it for writing upgrades it."""


class Fenced(Exception):
    """Raised by `Backend.commit` if sessions of the flush were claimed again or deleted.

    Nothing of the flush was written. It can be written without these sessions.
    """

    def __init__(self, places: Collection[SessionClaim]) -> None:
        """`places`: the claims of the flush that are no longer valid."""
        super().__init__(f"{len(places)} sessions were taken over by another process, or deleted")
        self.places: frozenset[SessionClaim] = frozenset(places)
        """The claims that are no longer valid."""


class Backend(ABC):
    """A store's writer, and its way to a reader. Its string form names the store in messages.

    Pass an object that was not opened yet to `agentrt.store.open_store`. Every method is called in
    a thread, never in two threads at a time, and may block. `commit` may raise any exception, and
    is then called again with the same flush, after a pause; other methods raise `StoreError`.
    """

    gather_s: float = 0.0025
    """Seconds between flushes if no caller waits for their data."""
    min_interval_s: float = 0.0
    """Minimum seconds between flushes, whatever they contain."""
    takeovers: int = 0
    """Number of sessions claimed from another process that is gone."""

    @abstractmethod
    def open(self) -> None:
        """Open the store, and create it if it is missing.

        Raises `StoreInUse` if another process writes it, or `StoreError`.
        """

    @abstractmethod
    def reader(self) -> StoreReader:
        """Open a reader. Called after `open`; the reader is used while the backend writes.

        Raises `StoreError`.
        """

    @abstractmethod
    def commit(self, flush: Flush) -> None:
        """Commit a flush, entirely or not at all; when this returns, readers find it.

        Data of an earlier commit that only seemed to fail must not be written twice: leave out the
        events of a part whose numbers are committed already. Raises `Fenced` for claims that are
        no longer valid, `Unusable`, or any other error, after which the flush is tried again.
        """

    @abstractmethod
    def create(self, session: str, epoch: str, about: SessionDescription) -> SessionClaim:
        """Create a session and claim it. Its first event will have the number 1.

        It is not listed until a row says that it was prompted. If several processes share the
        store, raises `LimitExceeded` if its tenant has reached its number of open sessions.
        """

    @abstractmethod
    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        """Claim a session: earlier claims are no longer valid. Returns None if there is none.

        `reads`: no agent will be started. If several processes share the store, raises
        `SessionElsewhere` if another process owns the session and is alive, and unless `reads` also
        if its files are on another machine, and `LimitExceeded` as `create` does.
        """

    @abstractmethod
    def release(self, place: SessionClaim) -> None:
        """Give up a session: others may claim it immediately."""

    @abstractmethod
    def discard(self, place: SessionClaim) -> None:
        """Delete a session, unless it was claimed again since."""

    @abstractmethod
    def delete(self, session: str) -> bool:
        """Delete a session and everything of it. Returns False if there is none."""

    @abstractmethod
    def name_chat(self, chat: str, session: str) -> None:
        """Record a client's name for a session. It replaces an earlier session of that name."""

    def catch_up(self) -> None:  # noqa: B027 - optional
        """Do the work that was postponed to make commits cheaper, such as indexing.

        Called before a search, and when nothing is written. The default does nothing.
        """

    def tidy(self, events: float, answers: float) -> None:  # noqa: B027 - optional
        """Drop data that is no longer needed, once a minute at most. The default does nothing.

        - `events`: the age in seconds above which events that a head replaces may be dropped.
        - `answers`: the age in seconds above which answers to commands may be dropped.
        """

    def finish(self) -> None:  # noqa: B027 - optional
        """Make everything that was committed survive a power failure; called before `close`.

        The default does nothing: it is for a store whose commits all do.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the store, so that another process may open it. Called also if `open` failed."""


class StoreReader(ABC):
    """A store's reader.

    Every method is called in a thread, never in two threads at a time, and may block; the backend
    may write at the same time. Methods raise `StoreError`. They return values that do not change
    later. The methods with a default read whole sessions for it: override them if that is slow.
    """

    @abstractmethod
    def sessions(self, query: SessionQuery) -> list[StoreEntry]:
        """List the sessions that were prompted, the latest `(updated, session)` first."""

    @abstractmethod
    def load(self, session: str, last: int | None = None) -> LoadedSession | None:
        """Load a session; None if there is none.

        `last`: only that many records are needed, the last ones. A store that returns fewer than
        all says in `LoadedSession.ahead` what precedes them.
        """

    @abstractmethod
    def chats(self) -> dict[str, str]:
        """Map the names that clients gave to sessions to the ids of these sessions."""

    @abstractmethod
    def answers(self) -> list[CommandAnswer]:
        """Return all answers that are kept, the oldest first."""

    def answer(self, client: str, id: str) -> CommandAnswer | None:
        """Return the answer to a client's command; None if there is none."""
        found = [each for each in self.answers() if (each.client, each.id) == (client, id)]
        return found[-1] if found else None

    def find(self, prefix: str) -> list[StoreEntry]:
        """Find the sessions with this id prefix, or else those with this prefix in the agent's id.

        May return only a few if many match.
        """
        entries = self.sessions(SessionQuery())
        return [each for each in entries if each.session.startswith(prefix)] or [
            each for each in entries if prefix and (each.agent_session or "").startswith(prefix)
        ]

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[StoreHit]:
        """Find the sessions that contain all of these words, the latest first.

        Words match by prefix, in titles, prompts and answers, regardless of case. `limit`: the
        maximum number of sessions. `tenant`: only sessions of this tenant.
        """
        wanted = words_of(words)
        hits: list[StoreHit] = []
        for entry in self.sessions(SessionQuery()) if wanted else ():
            if len(hits) == limit:
                break
            loaded = self.load(entry.session) if tenant in (None, entry.tenant) else None
            if loaded is None:
                continue
            texts = [text_of(record) for record in loaded.records]
            if contains("\n".join([entry.title or "", *texts]), wanted):
                found = [text for text in texts if any(contains(text, [word]) for word in wanted)]
                snippet = excerpt(found[0], wanted) if found else ""
                hits.append(StoreHit(entry=entry, snippet=snippet))
        return hits

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        """Return the events after number `after` that are kept, with their numbers.

        None if the session does not exist. The default returns those after the head.
        """
        loaded = self.load(session)
        if loaded is None:
            return None
        numbered = enumerate(loaded.events, loaded.next - len(loaded.events))
        return [each for each in numbered if each[0] > after]

    def records(self, session: str, before: int | None, count: int) -> list[Record] | None:
        """Return the last `count` records, or those before number `before`, in order.

        None if the session does not exist.
        """
        loaded = self.load(session)
        if loaded is None:
            return None
        found = [each for each in loaded.records if before is None or each.number < before]
        return found[max(0, len(found) - count) :]

    def close(self) -> None:  # noqa: B027 - optional
        """Close the reader. The default does nothing."""


class ReportingReader(StoreReader):
    """A reader that can also report on the store."""

    @abstractmethod
    def report(self) -> StoreReport:
        """Return facts about the store."""


class ImportingBackend(Backend):
    """A backend that takes sessions from files."""

    @abstractmethod
    def put(self, packed: Packed) -> None:
        """Import a session from another file, unless a later state of it is here."""


COMPRESSED_SIZES_BYTES = (512, 1024 * 1024)
"""The smallest and the largest size, in bytes, of records that are compressed: smaller ones do not
shrink, and larger ones would delay the sessions that are written after them."""

Job = Callable[[Backend], T]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(list[Event])
_heads = msgspec.json.Decoder(Head)
_records = msgspec.json.Decoder(Record)
_flushes = msgspec.json.Decoder(Flush)
_abouts = msgspec.json.Decoder(SessionDescription)


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


def decode_about(body: bytes) -> SessionDescription:
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
