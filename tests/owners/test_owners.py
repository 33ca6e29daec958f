"""Leases: who may own sessions, whatever becomes of processes, clocks and connections."""

from __future__ import annotations

from typing import Any

import pytest

from faults.quick import FULL, mostly_slow
from inside.cluster import MARGIN_FRACTION, Action, Ask, End, Join, Leave, Owner, Renew

from .world import LEASE, Database, Node, Own, Place, World

HELD = LEASE * (1 - MARGIN_FRACTION)


def joined(at: float = 0.0) -> Owner:
    owner = Owner(LEASE)
    [ask] = owner.tick(at)
    assert owner.granted(ask, 7, at) == []  # type: ignore[arg-type]
    return owner


def test_a_lease_is_asked_for_at_once_and_renewed_while_it_is_held() -> None:
    owner = joined()
    assert owner.holds(7, HELD - 0.1)
    assert owner.tick(1.0) == []
    assert owner.due == LEASE / 5
    assert owner.tick(owner.due) == [ask := Renew(7, 2.0)]
    assert owner.granted(ask, 7, 3.0) == []
    assert owner.until == 2.0 + HELD


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    owner = Owner(LEASE)
    [ask] = owner.tick(0.0)
    assert owner.granted(ask, 7, HELD - 1) == []  # type: ignore[arg-type]
    assert not owner.holds(7, HELD)


def test_an_answer_that_comes_too_late_is_no_lease() -> None:
    owner = Owner(LEASE)
    [ask] = owner.tick(0.0)
    assert owner.granted(ask, 7, HELD) == [Leave(7)]  # type: ignore[arg-type]
    assert owner.num is None


def test_all_ends_before_the_lease_does_and_nothing_is_asked_for_until_then() -> None:
    owner = joined()
    assert owner.tick(HELD) == [End(7)]
    assert not owner.holds(7, HELD)
    assert owner.tick(HELD + 5) == []
    assert owner.ended(7) == [Leave(7)]
    assert owner.tick(HELD + 5) == [Join(HELD + 5)]


def test_a_lease_that_was_lost_does_not_come_back_by_a_late_answer() -> None:
    owner = joined()
    [ask] = owner.tick(2.0)
    assert owner.tick(HELD) == [End(7)]
    assert owner.granted(ask, 7, HELD) == []  # type: ignore[arg-type]
    assert not owner.holds(7, HELD)


def test_a_lease_that_the_database_refuses_is_lost_at_once() -> None:
    owner = joined()
    [ask] = owner.tick(2.0)
    assert owner.refused(ask) == [End(7)]  # type: ignore[arg-type]
    assert owner.num is None


def test_who_gets_no_answer_asks_again_without_haste() -> None:
    owner = joined()
    [ask] = owner.tick(2.0)
    owner.failed(ask)  # type: ignore[arg-type]
    assert owner.tick(2.5) == []
    assert owner.tick(4.0) == [Renew(7, 4.0)]


def test_that_the_database_does_not_answer_is_known_while_the_lease_is_held() -> None:
    owner = joined()
    assert not owner.unanswered(1.0)
    [ask] = owner.tick(2.0)
    assert not owner.unanswered(2.0 + LEASE / 5)
    assert owner.unanswered(2.1 + LEASE / 5)
    owner.failed(ask)  # type: ignore[arg-type]
    assert owner.holds(7, 4.1)
    [again] = owner.tick(4.1)
    assert owner.unanswered(4.1)
    owner.granted(again, 7, 4.2)  # type: ignore[arg-type]
    assert not owner.unanswered(4.2)


# --- several worlds on one store

SEEDS = 45
STEPS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("first", mostly_slow(range(0, SEEDS, 15), one_in=3))
def test_no_two_own_a_session_whatever_happens(first: int) -> None:
    delivered = claims = 0
    for seed in range(first, first + 15):
        world = World(seed)
        world.run(STEPS)
        delivered += len(world.delivered)
        claims += sum(place.owner for place in world.database.sessions.values())
    assert delivered > 50  # something happened
    assert claims > 30


@pytest.mark.slow
def test_no_two_own_a_session_in_many_worlds() -> None:
    for seed in range(1000, 3000 if FULL else 1600):
        World(seed).run(STEPS)


# --- planted defects: each is found


class NotRaised(Database):
    """A claim leaves the number of the owner as it was."""

    def raised(self, owner: int) -> int:
        return max(owner, 1)


class Unfenced(Database):
    """An append asks for the next number only."""

    def ours(self, place: Place, num: int, owner: int, first: int) -> bool:
        return place.next == first


class Unchecked(Node):
    """Whoever goes on after a stop goes on with what was to be done, and asks about the lease
    later; no guard looks after its agents."""

    def check(self) -> None:
        if self.world.chance.random() < 0.05:
            super().check()

    def tell_guard(self) -> None:
        self.told = float("inf")


class NoGuard(Node):
    """Only the process itself ends its agents."""

    def tell_guard(self) -> None:
        self.told = float("inf")


class ByTheWall(Node):
    """A lease by a clock that somebody sets."""

    def clock(self) -> float:
        return self.world.now + self.world.wall

    def tell_guard(self) -> None:
        self.told = self.owner.until - self.world.wall
        self.kills_in = 0.0


class FromTheAnswer(Owner):
    """A lease counts from when the answer came."""

    def granted(self, ask: Ask, num: int, now: float) -> list[Action]:
        return super().granted(
            Join(now) if isinstance(ask, Join) else Renew(ask.num, now), num, now
        )


class BeforeItIsStored(Node):
    """A prompt goes to the agent before it is stored."""

    def append(self, session: str, own: Own, command: str) -> None:
        if command not in self.world.delivered and not own.busy:
            self.deliver(session, own, command)
        super().append(session, own, command)


class AnsweredByMemory(Node):
    """Whether a command was carried out is asked of this process alone."""

    def serve(self, session: str, command: str) -> None:
        own = self.sessions.get(session)
        if own is None or own.busy:
            super().serve(session, command)
        else:
            self.append(session, own, command)


class Impatient(Owner):
    """Asks for another lease, and gives the old one back, while agents of it are alive."""

    def _lose(self) -> End:
        end = super()._lose()
        self._ending.clear()
        return end


class NeverLost(Owner):
    """Holds what was granted once until the database says something else."""

    def holds(self, num: int | None, now: float) -> bool:
        return num is not None and num == self.num

    def tick(self, now: float) -> list[Action]:
        self.until = float("inf") if self.num is not None else self.until
        return super().tick(now)


@pytest.mark.parametrize(
    "planted",
    [
        NotRaised,
        Unfenced,
        Unchecked,
        NoGuard,
        ByTheWall,
        FromTheAnswer,
        BeforeItIsStored,
        AnsweredByMemory,
        Impatient,
        NeverLost,
    ],
)
@pytest.mark.slow
def test_a_planted_defect_is_found(planted: Any) -> None:
    kinds = {Database: "database_class", Node: "node_class", Owner: "owner_class"}
    [where] = [name for kind, name in kinds.items() if issubclass(planted, kind)]
    with pytest.raises(AssertionError):  # noqa: PT012
        for seed in range(300):
            World(seed, **{where: planted}).run(STEPS)
