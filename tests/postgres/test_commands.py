"""Commands as rows: each is taken by the one who is to carry it out, whoever dies when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from agentrt.events import Event, TextDelta
from agentrt.lowlevel import Fenced, Flush, FlushPart
from agentrt.storage import encode_events
from agentrt.store import CommandStatus, SessionOwner, StoredCommand

from .kit import ABOUT, events, flush, rows
from .parts import Commands, Leases, Listener, member, process


@pytest.fixture
def commands(url: str) -> Iterator[Commands]:
    commands = Commands(url)
    yield commands
    commands.close()


@pytest.fixture
def lease(url: str) -> Iterator[Leases]:
    leases = Leases(url)
    yield leases
    leases.close()


def command(id: str = "1", *, said: bytes = b"x") -> StoredCommand:
    return StoredCommand(client="c", id=id, session="s", digest=said, body=said)


def ends(url: str, num: int) -> None:
    rows(url, f"UPDATE node SET until=now() WHERE num={num}")


def test_a_command_is_taken_by_its_node_alone(url: str, commands: Commands) -> None:
    with member(url, "a") as (_, a), member(url, "b") as (_, b):
        stand = commands.post(command(), asker=a, node=b)
        assert stand is not None
        assert commands.take(a, ()) == []
        [taken] = commands.take(b, ())
        assert (taken.client, taken.id, taken.session, taken.body) == ("c", "1", "s", b"x")
        assert commands.take(b, [taken.num]) == []
        commands.answer(b, {taken.num: b"done"})
        assert commands.look([taken.num]) == [CommandStatus(taken.num, b, b"done", alive=True)]
        assert commands.take(b, ()) == []


def test_what_was_taken_on_a_connection_that_is_lost_is_taken_again(
    url: str, commands: Commands
) -> None:
    with member(url, "a") as (_, a):
        commands.post(command(), asker=a, node=a)
        assert len(commands.take(a, ())) == 1  # and the answer of the database did not arrive
        assert len(commands.take(a, ())) == 1


def test_a_lease_that_is_over_takes_nothing(url: str, commands: Commands) -> None:
    with member(url, "a") as (_, a):
        commands.post(command(), asker=a, node=a)
        ends(url, a)
        assert commands.take(a, ()) == []


def test_a_command_is_passed_on_if_its_node_is_gone_or_says_so(
    url: str, commands: Commands
) -> None:
    with member(url, "a") as (_, a), member(url, "b") as (_, b):
        stand = commands.post(command(), asker=a, node=a)
        assert stand is not None
        num = stand.num
        assert not commands.pass_on(num, a, b)
        commands.take(a, ())
        assert not commands.pass_on(num, a, b)
        commands.answer(a, {num: b""})
        assert commands.pass_on(num, a, b)
        assert len(commands.take(b, ())) == 1
        ends(url, b)
        assert commands.pass_on(num, b, a)
        assert not commands.pass_on(num, b, a)
        commands.answer(b, {num: b"too late"})
        assert commands.look([num]) == [CommandStatus(num, a, None, alive=True)]


def test_an_answer_stands_also_if_who_gave_it_is_gone(url: str, commands: Commands) -> None:
    with member(url, "a") as (_, a), member(url, "b") as (_, b):
        stand = commands.post(command(), asker=a, node=b)
        assert stand is not None
        commands.take(b, ())
        commands.answer(b, {stand.num: b"done"})
        ends(url, b)
        assert not commands.pass_on(stand.num, b, a)
        assert not commands.withdraw(stand.num, b)
        assert commands.look([stand.num]) == [CommandStatus(stand.num, b, b"done", alive=False)]


def test_a_command_is_withdrawn_until_it_is_taken(url: str, commands: Commands) -> None:
    with member(url, "a") as (_, a):
        for taken in (False, True):
            stand = commands.post(command(str(taken)), asker=a, node=a)
            assert stand is not None
            if taken:
                commands.take(a, ())
            assert commands.withdraw(stand.num, a) is not taken


def test_a_command_that_comes_twice_is_one_and_another_with_its_id_none(
    url: str, commands: Commands
) -> None:
    with member(url, "a") as (_, a), member(url, "b") as (_, b):
        first = commands.post(command(), asker=a, node=a)
        assert commands.post(command(), asker=b, node=b) == first
        assert commands.post(command(said=b"other"), asker=b, node=b) is None
        assert rows(url, "SELECT asker FROM command") == [(b,)]  # where the client is now


def test_who_watches_is_told_what_is_stored(url: str, commands: Commands) -> None:
    with (
        member(url, "a") as (backend, a),
        member(url, "b") as (_, b),
        closing(Listener(url, b)) as listener,
    ):
        place = backend.create("one", "e", ABOUT)
        assert commands.watch("one", b) == place.num
        assert commands.watch("nothing", b) is None
        for first, count in ((1, 5), (6, 2)):
            backend.commit(flush((place, first, count)))
            [tail] = commands.tails({place.num: first - 1, 999: 0})
            assert listener.heard() == {"tails": (tail,)}
            assert (tail.next, tail.epoch) == (first + count, "e")
            assert [(at, len(events)) for at, events in tail.frames] == [(first, count)]
        commands.unwatch(place.num, b)
        backend.commit(flush((place, 8, 1)))
        assert listener.heard(0.2) is None
        commands.post(command(), asker=a, node=b)
        assert listener.heard() == {"takes": True}


def test_who_watches_many_sessions_is_told_of_all_and_has_what_is_short(
    url: str, commands: Commands
) -> None:
    with (
        member(url, "a") as (backend, _),
        member(url, "b") as (_, b),
        closing(Listener(url, b)) as listener,
    ):
        places = [backend.create(f"s{number}", "e", ABOUT) for number in range(400)]
        commands.watch_again([place.num for place in places], b)
        long, *short = places
        texts: list[Event] = [TextDelta("i1", "\u4e16\n\x00, take, \U0001f600")]
        parts = [FlushPart(place, 1, texts) for place in short]
        backend.commit(Flush([FlushPart(long, 1, events(1, 3000)), *parts]))
        named, found = set[int](), dict[int, Any]()
        while len(named) + len(found) < len(places):
            heard = listener.heard()
            assert heard is not None
            assert "takes" not in heard
            named |= heard.get("sessions", set())
            found |= {tail.num: tail for tail in heard.get("tails", ())}
        assert named == {long.num}
        assert {tail.num: tail for tail in commands.tails(dict.fromkeys(found, 0))} == found
        [(_, told)] = found[short[0].num].frames
        assert encode_events(told) == encode_events(texts)


def test_of_a_backlog_it_is_said_whose_it_is(url: str, commands: Commands) -> None:
    with (
        member(url, "a") as (backend, _),
        member(url, "b") as (_, b),
        closing(Listener(url, b)) as listener,
    ):
        places = [backend.create(name, "e", ABOUT) for name in ("one", "two")]
        commands.watch_again([place.num for place in places], b)
        backend.commit(flush((places[0], 1, 1), (places[1], 1, 100), size=1000))
        assert listener.heard() == {"sessions": {each.num for each in places}}


def test_a_frame_that_is_told_is_of_the_generation_that_is_read(
    url: str, commands: Commands
) -> None:
    with member(url, "a") as (backend, _):
        place = backend.create("one", "e", ABOUT)
        rows(url, "UPDATE meta SET value='7' WHERE key='generation' RETURNING key")
        with (
            member(url, "b") as (_, b),
            closing(Listener(url, b)) as listener,
        ):
            commands.watch("one", b)
            backend.commit(flush((place, 1, 1)))
            assert listener.heard() == {"tails": tuple(commands.tails({place.num: 0}))}


def test_a_flush_that_is_another_owner_s_tells_nobody(url: str, commands: Commands) -> None:
    with (
        member(url, "a") as (backend, a),
        member(url, "b") as (_, b),
        closing(Listener(url, b)) as listener,
    ):
        place = backend.create("one", "e", ABOUT)
        commands.watch("one", b)
        ends(url, a)
        with pytest.raises(Fenced):
            backend.commit(flush((place, 1, 5)))
        assert listener.heard(0.2) is None


def test_whose_a_session_is(url: str, commands: Commands) -> None:
    with member(url, "a", "there") as (backend, a):
        place = backend.create("one", "e", ABOUT)
        assert commands.owned("one") == SessionOwner(a, "there")
        backend.release(place)
        assert commands.owned("one") == SessionOwner(None, "there")
        backend.claim("one")
        ends(url, a)
        assert commands.owned("one") == SessionOwner(None, "there")
        assert commands.owned("two") is None


def test_gateways_and_those_that_are_drained_get_no_new_sessions(
    url: str, commands: Commands, lease: Leases
) -> None:
    with member(url, "a") as (_, a), member(url, "b"):
        lease.drain("b")
        lease.join(replace(process("g"), role="gateway"), 60)
        assert [worker.num for worker in commands.workers()] == [a]
