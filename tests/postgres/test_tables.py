"""The tables of the simulation of several servers do what PostgreSQL does: the same statements, at
random, on both."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import Any

import pytest

from agentrt.errors import SessionElsewhere
from agentrt.lowlevel import Fenced, Flush, FlushPart, SessionClaim
from agentrt.storage import reader_of, server_of
from agentrt.store import CommandAnswer, StoredCommand
from faults.quick import mostly_slow
from owners import tables

from .kit import ABOUT, connected, events
from .parts import Commands, Leases, Listener, Writer, meaning, notify, process

pytestmark = pytest.mark.slow

NAMES = ("s1", "s2")
STEPS = 250


class Pair:
    """A store in PostgreSQL and its model, with three processes at each."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.chance = Random(seed)
        self.told: dict[int, list[str]] = {}
        self.tables = tables.Tables(lambda: self.now, self._tell)
        self.now = 0.0
        backend = Writer(url, "here")
        backend.open()
        self.backends: tuple[Any, Any] = (
            backend,
            tables.Backend(self.tables, "here", lambda: backend.held),
        )
        self.rows: tuple[Any, Any] = Commands(url), tables.Rows(self.tables)
        self.leases: tuple[Any, Any] = Leases(url), tables.Leases(self.tables)
        self.readers: tuple[Any, Any] = reader_of(server_of(url)), tables.Reader(self.tables)
        self.listeners: dict[int, Listener] = {}
        self.connection = connected(url)
        self.places: list[tuple[str, SessionClaim, int]] = []
        self.nodes = [self._join(role) for role in ("both", "worker", "gateway")]

    def close(self) -> None:
        for real, _ in (self.backends, self.rows, self.leases, self.readers):
            real.close()
        for each in (self.connection, *self.listeners.values()):
            each.close()

    def _tell(self, node: int, words: str) -> None:
        self.told.setdefault(node, []).append(words)

    def _join(self, role: str) -> int:
        asked = process(role, "here")
        asked = type(asked)(
            name=role, host=asked.host, pid=asked.pid, home="here", role=role, version=""
        )
        num = int(self.same(self.leases, "join", asked, 3600.0))
        self.listeners[num] = Listener(self.url, num)
        return num

    def same(self, both: tuple[Any, Any], method: str, *args: Any) -> Any:
        """Do it to both, and see that the same comes of it."""
        found = []
        for each in both:
            try:
                found.append(getattr(each, method)(*args))
            except Fenced as error:
                found.append(sorted(error.places, key=repr))
            except SessionElsewhere:
                found.append("elsewhere")
        real, model = (_comparable(each) for each in found)
        assert real == model, f"{method}{args}: {real}, and the model says {model}"
        return found[0]

    # --- what is done

    def step(self) -> None:
        chance = self.chance
        node, other = chance.choice(self.nodes), chance.choice(self.nodes)
        num = chance.randint(1, 12)
        name = chance.choice((*NAMES, "none"))
        match chance.randrange(18):
            case 0 | 1 | 2:
                said = chance.choice((b"x", b"y", b"x", b"x"))
                command = StoredCommand(
                    client=chance.choice("cd"),
                    id=str(chance.randrange(4)),
                    session=chance.choice((*NAMES, "")),
                    digest=said,
                    body=said,
                )
                self.same(self.rows, "post", command, node, other)
            case 3 | 4:
                known = chance.sample(range(1, 12), 2)
                self.same(self.rows, "take", node, chance.choice(([], known)))
            case 5 | 6:
                answers = {n: chance.choice((b"", b"done")) for n in (num, num + 1)}
                self.same(self.rows, "answer", node, answers)
            case 7:
                self.same(self.rows, "pass_on", num, self.holder(num, node), other)
            case 8:
                self.same(self.rows, "withdraw", num, self.holder(num, node))
            case 9:
                self.same(self.rows, "forget", [num])
            case 10:
                self.same(self.rows, "watch", name, node)
            case 11:
                self.same(self.rows, "unwatch", chance.randint(1, 3), node)
            case 12:
                self.claim(name, node)
            case 13 | 14:
                self.commit(node)
            case 15:
                if self.places:
                    self.same(self.backends, "release", chance.choice(self.places)[1])
            case 16:
                self.end(node)
            case 17:
                self.backends[0].held = node
                if name != "none" and name not in self.tables.sessions and self.lives(node):
                    place = self.same(self.backends, "create", name, "e", ABOUT)
                    self.places.append((name, place, 1))

    def holder(self, num: int, node: int) -> int:
        """Who is to carry out a command, mostly."""
        row = self.tables.commands.get(num)
        return node if row is None or self.chance.random() < 0.2 else row.node

    def lives(self, node: int) -> bool:
        return self.tables.lives(node)

    def claim(self, name: str, node: int) -> None:
        self.backends[0].held = node
        place = self.same(self.backends, "claim", name)
        if isinstance(place, SessionClaim):
            self.places.append((name, place, self.tables.sessions[name].next))

    def commit(self, node: int) -> None:
        if not self.places:
            return
        self.backends[0].held = node
        name, place, first = self.chance.choice(self.places)
        first = self.chance.choice((first, self.tables.sessions[name].next))
        answers = [CommandAnswer("c", str(self.chance.randrange(4)), b"x", b"{}")]
        flush = Flush([FlushPart(place, first, events(2))], answers=answers)
        self.same(self.backends, "commit", flush)

    def end(self, node: int) -> None:
        """A lease is over: by itself, or given back."""
        at = self.nodes.index(node)
        if self.chance.random() < 0.5:
            self.connection.execute("UPDATE node SET until=now() WHERE num=%s", [node])
            self.tables.nodes[node].until = self.now
            self.same(self.leases, "release", self.chance.choice(NAMES))
        else:
            self.same(self.leases, "leave", node)
        self.nodes[at] = self._join(("both", "worker", "gateway")[at])

    # --- what is seen

    def look(self) -> None:
        for name in (*NAMES, "none"):
            self.same(self.rows, "owned", name)
            self.same(self.readers, "events", name, 0)
        self.same(self.rows, "look", list(range(1, 200)))
        self.same(self.rows, "workers")
        self.same(self.rows, "alive")
        self.same(self.rows, "tails", {1: 0, 2: 2, 9: 0})
        for id in range(4):
            self.same(self.readers, "answer", "c", str(id))
        for node in self.nodes:
            self.same(self.leases, "renew", node, 3600.0, b"{}")

    def hear(self) -> None:
        """What the processes that live were notified of."""
        for node in self.nodes:
            mark = f"{10**9 + node}"
            notify(self.connection, node, mark)
            numbers, words, tails = set[int](), set[str](), list[Any]()
            while int(mark) not in numbers:
                found = self.listeners[node].heard_now()
                words |= found.keys() & {"takes", "answers"}
                numbers |= found.get("sessions", set())
                tails += found.get("tails", ())
            meant = meaning(self.told.pop(node, []))
            assert numbers - {int(mark)} == meant.get("sessions", set())
            assert words == meant.keys() & {"takes", "answers"}
            assert tails == list(meant.get("tails", ()))
        self.told.clear()


def _comparable(value: Any) -> Any:
    if hasattr(value, "frames"):
        return value.num, value.next, value.epoch, value.frames, value.cut
    match value:
        case [*each]:
            return sorted(repr(_comparable(one)) for one in each)
    return value


@pytest.mark.parametrize("seed", mostly_slow(range(3), one_in=3))
def test_the_model_of_the_tables_does_what_postgresql_does(url: str, seed: int) -> None:
    with closing(Pair(url, seed)) as pair:
        for step in range(STEPS):
            pair.step()
            pair.hear()
            if step % 25 == 24:
                pair.look()
        assert pair.tables.frames
        assert pair.tables.commands
