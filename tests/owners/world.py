"""Several processes, one database, and everything that may happen to them, by a seed.

The database is rows and whole statements, as `_cluster/postgres` has them. A process is what a
store does with an `Owner`: leases, claims, appends, and prompts that reach an agent when they are
stored. Any statement may be late, lost, or answered by nobody; a process may be killed, or stopped
for long; clocks run apart, and that of the wall jumps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inside.cluster import MARGIN_FRACTION, Action, Ask, End, Join, Leave, Owner, Renew

LEASE = 10.0
KILLED = LEASE * MARGIN_FRACTION * 0.9
"""Seconds that the guard takes at most, from the end of a lease's being held to the last agent."""
LADDER = 6.0
"""Seconds that an agent gets to leave."""
PLACES = ("s1", "s2")


@dataclass
class Place:
    node: int | None = None
    owner: int = 0
    next: int = 1


class Database:
    """Rows. Each method is one statement."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.leases: dict[int, float] = {}
        self.numbers = 0
        self.sessions = {name: Place() for name in PLACES}
        self.answers: set[str] = set()
        self.appended: list[tuple[str, int, int, int, str, bool]] = []
        """Session, owner, number, lease, command, and whether the lease was good."""

    def valid(self, num: int | None) -> bool:
        return num is not None and self.leases.get(num, -1.0) > self.now()

    def join(self) -> int:
        self.numbers += 1
        self.leases[self.numbers] = self.now() + LEASE
        return self.numbers

    def renew(self, num: int) -> bool:
        if not self.valid(num):
            return False
        self.leases[num] = self.now() + LEASE
        return True

    def leave(self, num: int) -> None:
        self.leases.pop(num, None)

    def claim(self, session: str, num: int) -> tuple[int, int] | None:
        place = self.sessions[session]
        if not self.valid(num) or (place.node != num and self.valid(place.node)):
            return None
        place.node, place.owner = num, self.raised(place.owner)
        return place.owner, place.next

    def raised(self, owner: int) -> int:
        return owner + 1

    def append(self, session: str, num: int, owner: int, first: int, command: str) -> bool:
        place = self.sessions[session]
        if not self.ours(place, num, owner, first):
            return False
        place.next = first + 1
        self.appended.append((session, owner, first, num, command, self.valid(num)))
        self.answers.add(command)
        return True

    def ours(self, place: Place, num: int, owner: int, first: int) -> bool:
        fenced = (place.node, place.owner, place.next) != (num, owner, first)
        return not fenced and self.valid(num)

    def settle(self, session: str, owner: int, first: int) -> bool | None:
        """What became of an append: it is in, it is not, or (None) the session is another's."""
        place = self.sessions[session]
        if place.owner != owner:
            return None
        return place.next > first

    def answered(self, command: str) -> bool:
        return command in self.answers


@dataclass
class Own:
    """A session that a process has."""

    num: int
    owner: int
    next: int
    busy: bool = False


class Node:
    """One process, from its start to its end."""

    def __init__(self, world: World, skew: float) -> None:
        self.world = world
        self.skew = skew
        self.owner = world.make_owner()
        self.stopped = False
        self.killed = False
        self.sessions: dict[str, Own] = {}
        self.claiming: set[str] = set()
        self.agents: dict[str, int] = {}
        """Those that are alive, with the lease that each was started under."""
        self.told = float("-inf")
        """Until when the guard lets agents live, on the real clock."""
        self.kills_in = 0.0
        self.wanted: list[tuple[str, str]] = []
        self.inbox: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.world.now + self.skew

    # --- what it does

    def wake(self) -> None:
        """Go on, with one thing."""
        if self.stopped or self.killed:
            return
        self.check()
        for due in [each for each in self.later if each[0] <= self.world.now]:
            self.later.remove(due)
            due[1]()
        if self.inbox:
            self.inbox.pop(self.world.chance.randrange(len(self.inbox)))()
        elif self.wanted:
            self.serve(*self.wanted.pop(0))

    def check(self) -> None:
        self.obey(self.owner.tick(self.clock()))

    def obey(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Join():
                    self.ask(action, self.world.database.join)
                case Renew(num):
                    self.ask(action, lambda num=num: self.world.database.renew(num))
                case End(num):
                    self.end(num)
                case Leave(num):
                    self.send(lambda num=num: self.world.database.leave(num), lambda _: None)

    def end(self, num: int) -> None:
        """At once for the sessions; agents have some time to leave, unless a guard ends them."""
        self.sessions = {k: v for k, v in self.sessions.items() if v.num != num}

        def ended() -> None:
            self.agents = {k: v for k, v in self.agents.items() if v != num}
            self.obey(self.owner.ended(num))

        patience = self.world.chance.uniform(0, LADDER) if self.agents else 0.0
        self.later.append((self.world.now + patience, ended))

    def ask(self, ask: Ask, statement: Callable[[], Any]) -> None:
        def answered(result: Any) -> None:
            if result is False:
                self.obey(self.owner.refused(ask))
                return
            num = result if isinstance(ask, Join) else ask.num
            self.obey(self.owner.granted(ask, num, self.clock()))
            if self.owner.num is not None:
                self.tell_guard()

        self.send(statement, answered, lambda: self.owner.failed(ask))

    def tell_guard(self) -> None:
        self.told = self.owner.until - self.skew
        self.kills_in = self.world.chance.uniform(0, KILLED)

    def serve(self, session: str, command: str) -> None:
        """Carry out a command, if the session is or becomes this process's."""
        if not self.owner.holds(self.owner.num, self.clock()):
            return
        own = self.sessions.get(session)
        if own is None:
            self.claim(session, command)
        elif not own.busy and own.num == self.owner.num:
            own.busy = True

            def looked(answered: bool) -> None:
                own.busy = False
                if not answered:
                    self.append(session, own, command)

            def unsure() -> None:
                own.busy = False

            self.send(lambda: self.world.database.answered(command), looked, unsure)

    def claim(self, session: str, command: str) -> None:
        num = self.owner.num
        assert num is not None
        if session in self.claiming:
            return
        self.claiming.add(session)

        def claimed(found: tuple[int, int] | None) -> None:
            self.claiming.discard(session)
            if found is not None and self.owner.holds(num, self.clock()):
                self.sessions[session] = Own(num, *found)
                self.wanted.append((session, command))

        database = self.world.database
        lost = lambda: self.claiming.discard(session)  # noqa: E731
        self.send(lambda: database.claim(session, num), claimed, lost)

    def append(self, session: str, own: Own, command: str) -> None:
        if self.sessions.get(session) is not own or own.busy:
            return
        if not self.owner.holds(own.num, self.clock()):
            return
        own.busy = True
        first = own.next
        database = self.world.database

        def over(stored: bool | None) -> None:
            own.busy = False
            if self.sessions.get(session) is not own:
                return
            if not stored:
                del self.sessions[session]  # fenced
                self.agents.pop(session, None)
                return
            own.next = first + 1
            self.deliver(session, own, command)

        def settled(stored: bool | None) -> None:
            if stored is False:
                own.busy = False
                self.append(session, own, command)
            else:
                over(stored)

        def in_doubt() -> None:
            self.send(lambda: database.settle(session, own.owner, first), settled, in_doubt)

        self.send(
            lambda: database.append(session, own.num, own.owner, first, command), over, in_doubt
        )

    def deliver(self, session: str, own: Own, command: str) -> None:
        """A prompt goes to the agent, which is started for it."""
        if not self.owner.holds(own.num, self.clock()):
            return
        self.agents[session] = own.num
        self.world.delivered.append(command)

    # --- the way to the database

    def send(
        self,
        statement: Callable[[], Any],
        answered: Callable[[Any], None],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.world.way.append((self, statement, answered, lost))


@dataclass
class World:
    seed: int
    database_class: type[Database] = Database
    node_class: type[Node] = Node
    owner_class: type[Owner] = Owner
    now: float = 0.0
    delivered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        skew = self.chance.uniform(-1000, 1000)
        self.wall = self.chance.uniform(-5, 5)
        self.database = self.database_class(lambda: self.now + skew)
        self.way: list[Any] = []
        self.commands: list[tuple[str, str]] = []
        self.nodes = [self.make_node() for _ in range(3)]

    def make_owner(self) -> Owner:
        return self.owner_class(LEASE)

    def make_node(self) -> Node:
        return self.node_class(self, self.chance.uniform(-1000, 1000))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check()

    def step(self) -> None:
        chance = self.chance
        what = chance.random()
        node = chance.choice(self.nodes)
        if what < 0.40:
            node.wake()
        elif what < 0.75:
            self.carry()
        elif what < 0.87:
            self.advance(chance.choice((0.01, 0.1, 0.5, 1.0)))
        elif what < 0.93:
            if len(self.commands) < 40 and chance.random() < 0.5:
                session = chance.choice(PLACES)
                self.commands.append((session, f"{session} {len(self.commands)}"))
            for session, command in self.commands:
                if not self.database.answered(command) and chance.random() < 0.5:
                    chance.choice(self.nodes).wanted.append((session, command))
        elif what < 0.96:
            node.stopped = not node.stopped and chance.random() < 0.3
        elif what < 0.965:
            node.killed = True
            node.told = min(node.told, self.now)  # the guard sees its end
            self.nodes[self.nodes.index(node)] = self.make_node()
        elif what < 0.975:
            self.advance(chance.uniform(1, 2 * LEASE))
        elif what < 0.98:
            self.wall += chance.uniform(-60, 60)
        else:
            self.cut(node)

    def carry(self) -> None:
        """One statement arrives, or gets lost on its way there or back."""
        if not self.way:
            return
        place = self.chance.randrange(len(self.way))
        node, statement, answered, lost = self.way.pop(place)
        if self.chance.random() < 0.05:
            node.inbox.append(lost)
            return
        result = statement()
        if self.chance.random() < 0.05:
            node.inbox.append(lost)
        else:
            node.inbox.append(lambda: answered(result))

    def cut(self, node: Node) -> None:
        """The connections of a process are cut: some of what is under way arrives all the same."""
        for each in [each for each in self.way if each[0] is node]:
            self.way.remove(each)
            if self.chance.random() < 0.5:
                each[1]()
            node.inbox.append(each[3])

    def advance(self, seconds: float) -> None:
        """Time goes by, in which the guards look after the agents and those who run look at their
        clocks."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.05)
            for node in self.nodes:
                if node.agents and self.now >= node.told + node.kills_in:
                    node.agents.clear()
                if not node.stopped and self.chance.random() < 0.5:
                    node.check()
            self.check()

    # --- what has to hold

    def check(self) -> None:
        database = self.database
        owners: dict[tuple[str, int], int] = {}
        last = dict.fromkeys(PLACES, (0, 0))
        for session, owner, number, num, _, good in database.appended:
            assert owners.setdefault((session, owner), num) == num, "two wrote as one owner"
            assert good, "somebody wrote whose lease was over"
            before = last[session]
            assert number == before[1] + 1, "a gap, or an overlap"
            assert owner >= before[0], "an earlier owner wrote"
            last[session] = owner, number
        commands = [command for *_, command, _ in database.appended]
        assert len(set(commands)) == len(commands), "a command was carried out twice"
        assert len(set(self.delivered)) == len(self.delivered), "a prompt reached an agent twice"
        assert set(self.delivered) <= set(commands), "a prompt was sent that is not stored"
        for node in self.nodes:
            for num in node.agents.values():
                assert database.valid(num), "an agent is alive whose lease is over"
        alive = [session for node in self.nodes for session in node.agents]
        assert len(set(alive)) == len(alive), "two agents work on one session"
