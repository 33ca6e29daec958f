"""What a store in PostgreSQL is to those who share it: rows, and what each statement makes of them.

Each method is what one statement or transaction of `_cluster/postgres` does. `test_tables.py` in
`tests/postgres` does the same to both, at random, and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from agentrt._cluster.rows import Tail, Worker
from agentrt.errors import SessionElsewhere, StoreUnavailable
from agentrt.events import Event, TurnStarted
from agentrt.lowlevel import Fenced, Flush, FlushPart, SessionClaim
from agentrt.storage import (
    decode_about,
    decode_events,
    decode_head,
    decode_record,
    encode,
    encode_events,
    encode_record,
)
from agentrt.store import (
    CommandAnswer,
    CommandStatus,
    LoadedSession,
    NodeEntry,
    Record,
    SessionDescription,
    SessionOwner,
    SessionQuery,
    StoredCommand,
    StoredHistory,
    StoreEntry,
    StoreProcess,
)

FRAMES = 2000
SHORT = 2000


@dataclass
class Node:
    process: StoreProcess
    until: float
    draining: bool = False
    load: bytes = b"{}"


@dataclass
class Session:
    num: int
    id: str
    epoch: str
    about: bytes
    node: int | None
    home: str
    owner: int = 1
    next: int = 1
    title: str | None = None
    prompt: str = ""
    phase: Any = "starting"
    turns: int = 0
    created: float = 0.0
    updated: float = 0.0
    head: bytes = b""
    head_seq: int = 0


@dataclass
class Row:
    """A command."""

    num: int
    client: str
    id: str
    session: str
    asker: int
    node: int
    digest: bytes
    body: bytes
    taken: bool = False
    answer: bytes | None = None


@dataclass
class Tables:
    """`tell`: called with a lease and what it is told."""

    now: Callable[[], float]
    tell: Callable[[int, str], None] = lambda node, words: None
    nodes: dict[int, Node] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    frames: dict[int, list[tuple[int, int, int, bytes]]] = field(default_factory=dict)
    records: dict[tuple[int, int], bytes] = field(default_factory=dict)
    answers: dict[tuple[str, str], CommandAnswer] = field(default_factory=dict)
    commands: dict[int, Row] = field(default_factory=dict)
    watches: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.node_nums, self.session_nums, self.command_nums = count(1), count(1), count(1)

    def lives(self, node: int | None) -> bool:
        return node in self.nodes and self.nodes[node].until > self.now()

    def numbered(self, num: int) -> Session | None:
        return next((each for each in self.sessions.values() if each.num == num), None)


class Rows:
    """As `PostgresCommands`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    # --- what there is

    def entries(self, limit: int) -> list[StoreEntry]:
        sessions = self.tables.sessions.values()
        found = [each for each in sessions if each.turns > 0 or each.node is not None]
        found.sort(key=lambda each: (each.updated, each.id), reverse=True)
        return [self._entry(each) for each in found[:limit]]

    def entry(self, session: str) -> StoreEntry | None:
        found = self.tables.sessions.get(session)
        return None if found is None else self._entry(found)

    def _entry(self, session: Session) -> StoreEntry:
        phase = session.phase if self.tables.lives(session.node) else None
        return entry_of(session, phase=phase)

    def chat(self, name: str) -> str | None:
        return None

    def connections(self) -> tuple[int, int]:
        return 1, 100

    def owned(self, session: str) -> SessionOwner | None:
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        return SessionOwner(found.node if self.tables.lives(found.node) else None, found.home)

    def workers(self) -> list[Worker]:
        tables = self.tables
        return [
            Worker(
                num,
                node.process.home,
                node.load,
                sum(each.node == num for each in tables.sessions.values()),
                sum(
                    each.node == num and each.answer is None and not each.session
                    for each in tables.commands.values()
                ),
            )
            for num, node in sorted(tables.nodes.items())
            if tables.lives(num) and not node.draining and node.process.role != "gateway"
        ]

    def alive(self) -> list[int]:
        return [num for num in self.tables.nodes if self.tables.lives(num)]

    # --- commands

    def post(self, command: StoredCommand, asker: int, node: int) -> CommandStatus | None:
        tables, c = self.tables, command
        num = next(tables.command_nums)  # also where it is not used
        row = self._known(c)
        if row is None:
            row = tables.commands[num] = Row(
                num, c.client, c.id, c.session, asker, node, c.digest, c.body
            )
        elif row.digest != c.digest:
            return None
        row.asker = asker
        tables.tell(row.node, "take")
        return CommandStatus(row.num, row.node, row.answer, alive=True)

    def _known(self, c: StoredCommand) -> Row | None:
        rows = self.tables.commands.values()
        return next((row for row in rows if (row.client, row.id) == (c.client, c.id)), None)

    def take(self, node: int, known: Collection[int]) -> list[StoredCommand]:
        if not self.tables.lives(node):
            return []
        taken: list[StoredCommand] = []
        for num, row in sorted(self.tables.commands.items()):
            if row.node == node and row.answer is None and num not in known:
                row.taken = True
                taken.append(
                    StoredCommand(
                        num=num,
                        client=row.client,
                        id=row.id,
                        session=row.session,
                        digest=row.digest,
                        body=row.body,
                        asker=row.asker,
                    )
                )
        return taken

    def answer(self, node: int, answers: Mapping[int, bytes]) -> None:
        for num, body in answers.items():
            row = self.tables.commands.get(num)
            if row is not None and self.may_answer(row, node):
                row.answer = body
                self.tables.tell(row.asker, "answer")

    def may_answer(self, row: Row, node: int) -> bool:
        return row.node == node and row.taken and row.answer is None

    def look(self, nums: Sequence[int]) -> list[CommandStatus]:
        found = [row for num in nums if (row := self.tables.commands.get(num)) is not None]
        return [
            CommandStatus(row.num, row.node, row.answer, alive=self.tables.lives(row.node))
            for row in found
        ]

    def pass_on(self, num: int, node: int, to: int) -> bool:
        row = self.tables.commands.get(num)
        if row is None or row.node != node or not self.is_free(row):
            return False
        row.node, row.taken, row.answer = to, False, None
        self.tables.tell(to, "take")
        return True

    def is_free(self, row: Row) -> bool:
        """Whether nobody carries out a command, or will."""
        return row.answer == b"" or (row.answer is None and not self.tables.lives(row.node))

    def withdraw(self, num: int, node: int) -> bool:
        row = self.tables.commands.get(num)
        if row is None or row.node != node:
            return False
        untouched = not row.taken and row.answer is None
        if not untouched and not self.is_free(row):
            return False
        del self.tables.commands[num]
        return True

    def forget(self, nums: Sequence[int]) -> None:
        for num in nums:
            self.tables.commands.pop(num, None)

    # --- who looks at what

    def watch(self, session: str, node: int) -> int | None:
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        self.tables.watches.add((found.num, node))
        return found.num

    def watch_again(self, nums: Sequence[int], node: int) -> None:
        self.tables.watches.update((num, node) for num in nums)

    def unwatch(self, num: int, node: int) -> None:
        self.tables.watches.discard((num, node))

    def tails(self, known: Mapping[int, int]) -> list[Tail]:
        tables = self.tables
        frames = [
            (num, first, body)
            for num in sorted(known)
            for first, _, _, body in tables.frames.get(num, ())
            if first > known[num]
        ][:FRAMES]
        there = [each for each in tables.sessions.values() if each.num in known]
        return [
            Tail(
                num=each.num,
                next=each.next,
                epoch=each.epoch,
                frames=[
                    (first, decode_events(body)) for num, first, body in frames if num == each.num
                ],
                size=sum(len(body) for num, _, body in frames if num == each.num),
                cut=len(frames) == FRAMES,
            )
            for each in there
        ]

    def close(self) -> None:
        pass


class Leases:
    """As `PostgresLeases`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def join(self, process: StoreProcess, length: float) -> int:
        num = next(self.tables.node_nums)
        self.tables.nodes[num] = Node(process, self.tables.now() + length)
        return num

    def renew(self, num: int, length: float, load: bytes) -> bool | None:
        if not self.tables.lives(num):
            return None
        node = self.tables.nodes[num]
        node.until, node.load = self.tables.now() + length, load
        return node.draining

    def leave(self, num: int) -> None:
        self.tables.nodes.pop(num, None)
        for session in self.tables.sessions.values():
            if session.node == num:
                session.node = None
        self.tables.watches = {each for each in self.tables.watches if each[1] != num}

    def nodes(self) -> list[NodeEntry]:
        return []

    def left(self, limit: int) -> list[str]:
        sessions = self.tables.sessions.values()
        return [
            each.id
            for each in sessions
            if each.node is not None and not self.tables.lives(each.node)
        ][:limit]

    def release(self, session: str) -> None:
        found = self.tables.sessions.get(session)
        if found is not None and not self.tables.lives(found.node):
            found.node = None

    def close(self) -> None:
        pass


class Backend:
    """As `PostgresBackend`, of a process that shares the store."""

    gather_s, min_interval_s = 0.008, 0.005

    def __init__(self, tables: Tables, home: str, lease: Callable[[], int | None]) -> None:
        self.tables = tables
        self.home = home
        self.lease = lease
        self.takeovers = 0
        self.tenant_quotas: Mapping[str, int | None] = {}
        self.doubtful = False
        """Whether nobody knows what became of the last commit."""

    def open(self) -> None:
        pass

    def commit(self, flush: Flush) -> None:
        if flush.parts and self.lease() is None:
            raise Fenced([part.place for part in flush.parts])
        if self.doubtful or not all(self.is_ours(part) for part in flush.parts):
            flush = self._settled(flush)
            self.doubtful = False
        for part in flush.parts:
            self._write(part)
        self._keep(flush.answers)
        told: dict[int, list[FlushPart]] = {}
        for part in sorted(flush.parts, key=lambda each: each.place.num):
            for num, node in sorted(self.tables.watches):
                if num == part.place.num:
                    told.setdefault(node, []).append(part)
        for node, parts in told.items():
            words = ",".join(str(part.place.num) for part in parts)
            self.tables.tell(node, words + "," + "".join(map(self.line, parts)))

    def line(self, part: FlushPart) -> str:
        """What a notification has of a frame."""
        found = self.tables.numbered(part.place.num)
        assert found is not None
        body = encode_events(part.events)
        short = len(body) < SHORT
        return f"\n{found.num} {part.first} {found.epoch} {body.decode()}" if short else ""

    def is_ours(self, part: FlushPart) -> bool:
        found = self.tables.numbered(part.place.num)
        return (
            found is not None
            and (found.owner, found.next) == (part.place.owner, part.first)
            and self._owns(found)
        )

    def _owns(self, session: Session) -> bool:
        return session.node == self.lease() and self.tables.lives(session.node)

    def _settled(self, flush: Flush) -> Flush:
        gone: list[SessionClaim] = []
        missing: list[FlushPart] = []
        for part in flush.parts:
            found, behind = self.tables.numbered(part.place.num), part.first + len(part.events)
            at = (0, 0) if found is None or not self._owns(found) else (found.owner, found.next)
            if at == (part.place.owner, part.first):
                missing.append(part)
            elif at != (part.place.owner, behind):
                gone.append(part.place)
        if gone:
            raise Fenced(gone)
        return Flush(missing, flush.fsync, flush.answers)

    def _write(self, part: FlushPart) -> None:
        session = self.tables.numbered(part.place.num)
        assert session is not None
        last = part.first + len(part.events) - 1
        session.next = last + 1
        frame = part.first, last, part.place.owner, encode_events(part.events)
        self.tables.frames.setdefault(session.num, []).append(frame)
        if (row := part.row) is not None:
            session.updated, session.title, session.prompt = (
                self.tables.now(),
                row.title,
                row.prompt,
            )
            session.phase, session.turns, session.about = row.phase, row.turns, encode(row.about)
            if part.head is not None:
                session.head, session.head_seq = encode(part.head), part.head.seq
        for record in part.records.values():
            self.tables.records[session.num, record.number] = encode_record(record)

    def _keep(self, answers: Iterable[CommandAnswer]) -> None:
        for each in answers:
            self.tables.answers[each.client, each.id] = each

    def create(self, session: str, epoch: str, about: SessionDescription) -> SessionClaim:
        tables = self.tables
        num = next(tables.session_nums)
        found = tables.sessions.get(session)
        if found is None:
            found = tables.sessions[session] = Session(
                num, session, epoch, encode(about), self._held(), self.home
            )
            found.created = found.updated = tables.now()
        assert (found.epoch, found.next) == (epoch, 1)
        found.node = self._held()
        return SessionClaim(found.num, 1)

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        lease = self._held()
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        if found.node != lease and self.tables.lives(found.node):
            assert found.node is not None
            name = self.tables.nodes[found.node].process.name
            raise SessionElsewhere(f"the session {session!r} is running on {name}", name)
        if found.home and found.home != self.home and not reads:
            raise SessionElsewhere(f"the session {session!r} is of the home {found.home}")
        found.owner, found.node = found.owner + 1, lease
        return SessionClaim(found.num, found.owner)

    def _held(self) -> int:
        lease = self.lease()
        if lease is None:
            raise StoreUnavailable("not reached for too long to own more")
        return lease

    def release(self, place: SessionClaim) -> None:
        found = self.tables.numbered(place.num)
        if found is not None and found.owner == place.owner:
            found.node = None

    def discard(self, place: SessionClaim) -> None:
        found = self.tables.numbered(place.num)
        if found is not None and found.owner == place.owner:
            self._forget(found)

    def _forget(self, session: Session) -> None:
        del self.tables.sessions[session.id]
        self.tables.frames.pop(session.num, None)

    def delete(self, session: str) -> bool:
        self.claim(session, reads=True)
        found = self.tables.sessions.get(session)
        if found is not None:
            self._forget(found)
        return found is not None

    def put(self, packed: object) -> None:
        raise NotImplementedError

    def name_chat(self, chat: str, session: str) -> None:
        pass

    def catch_up(self) -> None:
        pass

    def tidy(self, events: float, answers: float) -> None:
        pass

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class Reader:
    """As `PostgresReader`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def sessions(self, query: SessionQuery) -> list[StoreEntry]:
        found = [each for each in self.tables.sessions.values() if each.turns > 0]
        found.sort(key=lambda each: (each.updated, each.id), reverse=True)
        return [entry_of(each) for each in found[: query.limit]]

    def find(self, prefix: str) -> list[StoreEntry]:
        return [
            entry_of(each) for id, each in self.tables.sessions.items() if id.startswith(prefix)
        ]

    def load(self, session: str, last: int | None = None) -> LoadedSession | None:
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        records = self.records(session, None, last) or []
        behind = decode_head(found.head)
        events = [event for _, event in self.events(session, behind.seq) or ()]
        ahead = None
        if last is not None and records and (left := records[0].number):
            turns = found.turns - sum(len(record.turns) for record in records)
            turns -= sum(isinstance(event, TurnStarted) for event in events)
            ahead = StoredHistory(left, turns, found.prompt)
        return LoadedSession(
            about=decode_about(found.about),
            epoch=found.epoch,
            created=found.created,
            next=found.next,
            head=behind,
            records=records,
            ahead=ahead,
            events=events,
        )

    def search(self, words: str, limit: int, tenant: str | None = None) -> list[Any]:
        return []

    def chats(self) -> dict[str, str]:
        return {}

    def answers(self) -> list[CommandAnswer]:
        return list(self.tables.answers.values())

    def answer(self, client: str, id: str) -> CommandAnswer | None:
        return self.tables.answers.get((client, id))

    def events(self, session: str, after: int) -> list[tuple[int, Event]] | None:
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        frames = self.tables.frames.get(found.num, [])
        numbered = (
            each
            for first, last, _, body in frames
            if last > after
            for each in enumerate(decode_events(body), first)
        )
        return [each for each in numbered if each[0] > after]

    def records(self, session: str, before: int | None, count: int | None) -> list[Record] | None:
        found = self.tables.sessions.get(session)
        if found is None:
            return None
        mine = sorted(
            (number, body)
            for (num, number), body in self.tables.records.items()
            if num == found.num and (before is None or number < before)
        )
        return [decode_record(body) for _, body in (mine if count is None else mine[-count:])]

    def close(self) -> None:
        pass


def entry_of(session: Session, *, phase: Any = None) -> StoreEntry:
    about = decode_about(session.about)
    return StoreEntry(
        session=session.id,
        agent=about.agent,
        cwd=about.cwd,
        title=session.title,
        prompt=session.prompt,
        turns=session.turns,
        created=session.created,
        updated=session.updated,
        agent_session=about.agent_session,
        phase=phase,
    )
