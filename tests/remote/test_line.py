"""A session of a server from another process: over real sockets, which are cut."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio

from agentrt import Limits
from agentrt.errors import (
    AgentrtError,
    LocalProtocolError,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
)
from agentrt.events import (
    AgentState,
    Event,
    Notice,
    State,
    StateChanged,
    Text,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import SessionState
from agentrt.store import open_store

from .cutting import Followed, Line, Stage, stage, unreadable

CUTS = 30 if os.environ.get("AGENTRT_FULL") else 8


def plain(events: list[Event]) -> object:
    """As JSON has it: where all deltas are of one kind."""
    return msgspec.to_builtins(events)


class Reader:
    """Reads a session's events for ever, and folds them behind what was there before."""

    def __init__(self, session: Followed) -> None:
        self.session = session
        self.state = SessionState()
        self.events: list[Event] = []
        self._news = trio.Event()

    async def run(self) -> None:
        async for event in self.session:
            self.events.append(event)
            self.state.apply(event)
            self._news.set()
            self._news = trio.Event()

    async def until(self, check: Callable[[], object]) -> None:
        while not check():
            await self._news.wait()

    @property
    def ended(self) -> list[str]:
        return [event.turn for event in self.events if isinstance(event, TurnEnded)]

    @property
    def notices(self) -> list[str]:
        return [event.code for event in self.events if isinstance(event, Notice)]


async def test_a_session_is_followed_and_prompted() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            sent = held.submit("one two")
            assert [entry.content for entry in held.queue] == [[Text("one two")]]
            await reader.until(lambda: reader.ended)
            assert reader.ended == [sent.id]
            assert list(held.queue) == []
            assert held.snapshot() == session.snapshot()


@pytest.mark.slow
async def test_what_a_long_line_of_cuts_leaves_is_what_the_server_has() -> None:
    """Cuts, anywhere in what the server says: no event is lost, none comes twice, and each
    prompt is carried out once."""
    chance = random.Random(os.environ.get("AGENTRT_SEED", "1"))
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            after = held.snapshot().seq
            it.nursery.start_soon(reader.run)
            prompts = [f"{number} " + "word " * 30 for number in range(CUTS)]
            for number, prompt in enumerate(prompts):
                it.proxy.left = chance.randrange(1, 2500)
                held.submit(prompt)
                await reader.until(lambda number=number: len(reader.ended) > number)
            it.proxy.left = None
            told = [event for event in reader.events if not isinstance(event, Notice)]
            assert plain(told) == plain(session.log.since(after))
            begun = [e.prompt for e in reader.events if isinstance(e, TurnStarted)]
            assert begun == [[Text(prompt)] for prompt in prompts]
            assert held.snapshot() == session.snapshot()
            assert it.proxy.connections > CUTS / 2
            assert reader.notices.count("connection_cut") == it.proxy.connections - 1


async def test_a_prompt_whose_answer_was_cut_off_is_not_carried_out_twice() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            it.proxy.left = 1  # of whatever the server says next
            held.submit("once")
            await reader.until(lambda: reader.ended)
            await reader.until(lambda: "connected_again" in reader.notices)
            assert len(session.snapshot().turns) == 1


async def test_what_is_said_while_there_is_no_line_is_said_by_the_next_one() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            await it.proxy.cut()
            await reader.until(lambda: "connection_cut" in reader.notices)
            assert line.trouble
            held.submit("said in between")
            await reader.until(lambda: reader.ended)
            assert not line.trouble
            assert reader.notices == ["connection_cut", "connected_again"]


@pytest.mark.parametrize("events", [4096, 16])
async def test_turns_that_were_missed_are_told_in_the_end(events: int) -> None:
    """Also more of them than the server keeps events of, or a snapshot has turns."""
    limits = Limits(recent_events=events, snapshot_turns=3)
    async with stage(limits) as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            held.submit("ahead of the cut")
            await reader.until(lambda: len(reader.ended) == 1)
            await it.proxy.cut()
            await reader.until(lambda: line.trouble)
            for number in range(20):
                await session.run(f"turn {number}")
            await reader.until(lambda: len(reader.ended) == 21)
            await reader.until(lambda: held.snapshot() == session.snapshot())
            assert reader.state.items == session.log.state.items
            assert len(set(reader.ended)) == 21


async def test_a_question_that_anybody_answers_is_closed_for_all() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        one, two = await it.line(), await it.line()
        async with one.followed(session.id) as first, two.followed(session.id) as second:
            readers = [Reader(first), Reader(second)]
            for each in readers:
                it.nursery.start_soon(each.run)
            first.submit("ask me")
            await readers[0].until(lambda: first.pending_permissions)
            await readers[1].until(lambda: second.pending_permissions)
            [request] = second.pending_permissions
            second.answer(request, "allow_once")
            first.answer(request, "reject_once")  # one of them is too late, which is told
            for each in readers:
                await each.until(lambda each=each: each.ended)
            for line in (one, two):
                await line.all_answered()  # behind the answers
            assert sorted(reader.notices for reader in readers) == [[], ["not_done"]]
            assert not first.pending_permissions
            with pytest.raises(LocalProtocolError, match="no longer open"):
                first.answer(request, "reject_once")


async def test_a_cancel_is_for_the_turn_that_was_seen() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            held.submit("wait for it")
            await reader.until(lambda: held.state.turn is not None)
            await it.proxy.cut()
            await reader.until(lambda: line.trouble)
            held.cancel()  # that turn, which ends before the server hears of it
            session.cancel()
            await session.wait_idle()
            session.submit("wait for another")
            await reader.until(lambda: len(reader.ended) == 1 and held.state.turn is not None)
            await line.all_answered()  # behind the cancel
            assert session.state.phase == "running"


async def test_a_waiting_prompt_can_be_taken_back_also_on_its_way() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            held.submit("wait")
            await reader.until(lambda: held.state.turn is not None)
            held.submit("not this one")
            held.queue.remove(held.queue[0].id)
            assert list(held.queue) == []
            held.submit("this one")
            await reader.until(lambda: len(session.queue) == 1)
            await line.all_answered()
            [entry] = session.queue
            assert entry.content == [Text("this one")]
            held.queue.remove(entry.id)
            await reader.until(lambda: not session.queue)


async def test_an_old_session_is_given_whole_when_it_is_asked_for() -> None:
    limits = Limits(snapshot_turns=2)
    async with stage(limits) as it:
        session = await it.runtime.create("echo", cwd="/")
        for number in range(9):
            await session.run(f"turn {number}")
        line = await it.line()
        async with line.followed(session.id) as held:
            assert len(held.snapshot().turns) == 2
            assert await held.full_snapshot() == session.snapshot()


async def test_an_agent_that_cannot_be_steered_is_told_to_be_one() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            with pytest.raises(LocalProtocolError, match="no turn is running"):
                held.steer("too early")
            held.submit("wait")
            await reader.until(lambda: held.state.turn is not None)
            held.steer("hurry")
            await reader.until(lambda: "not_done" in reader.notices)
            held.cancel()
            await reader.until(lambda: reader.ended)


async def test_a_session_is_forked_for_whoever_asks() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        await session.run("hello")
        line = await it.line()
        fork = await line.fork(session.id)
        async with line.followed(fork) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            held.submit("in the fork")
            await reader.until(lambda: reader.ended)
        assert len(session.snapshot().turns) == 1
        empty = await it.runtime.create("echo", cwd="/")
        with pytest.raises(LocalProtocolError, match="the session is empty"):
            await line.fork(empty.id)


async def test_a_session_that_is_not_there_is_said_to_be_none() -> None:
    async with stage() as it:
        line = await it.line()
        with pytest.raises(SessionNotFound, match="no session 'nothing'"):
            async with line.followed("nothing"):
                pass
        with pytest.raises(SessionNotFound):
            await line.rename("nothing", "x")


@pytest.fixture
async def at_rest(tmp_path: Path) -> AsyncIterator[tuple[Stage, str, list[Exception]]]:
    """A server with a stored session that cannot be read as long as there are errors left."""
    async with open_store(tmp_path / "sessions.db") as store:
        async with stage(store=store) as before:
            session = await before.runtime.create("echo")
            await session.run("one two")
        failures: list[Exception] = []
        with unreadable(failures):
            async with stage(store=store) as there:
                yield there, session.id, failures


async def test_a_session_that_cannot_be_read_at_first_is_said_to_be_that(
    at_rest: tuple[Stage, str, list[Exception]],
) -> None:
    there, id, failures = at_rest
    failures.append(StoreUnavailable("the database is away"))
    with pytest.raises(StoreUnavailable, match="the database is away"):
        async with (await there.line()).followed(id):
            pass
    async with (await there.line()).followed(id) as session:
        assert [item.text for item in session.snapshot().items][-1] == "one two "


@pytest.mark.slow
async def test_a_session_that_cannot_be_read_for_a_while_is_shown_afterwards(
    at_rest: tuple[Stage, str, list[Exception]],
) -> None:
    there, id, failures = at_rest
    line = await there.line()
    async with line.followed(id) as session:
        reader = Reader(session)
        there.nursery.start_soon(reader.run)
        failures += [StoreError("the database is away")] * 3
        await there.proxy.cut()
        await reader.until(lambda: "connected_again" in reader.notices)
        assert not failures
        assert reader.notices == ["connection_cut", "connected_again"]
        session.submit("three")
        await reader.until(lambda: reader.ended)


async def test_a_server_that_cannot_be_reached_at_first_is_an_error() -> None:
    async with stage() as it:
        wrong = Line(it.proxy.port, "wrong")
        with pytest.raises(AgentrtError, match="token"):
            await wrong.run()
        nowhere = Line(1, "wrong")
        with pytest.raises(AgentrtError, match="no server can be reached"):
            await nowhere.run()


class Unanswered:
    """Keeps what is to be done with the answers to what was sent."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def send(self, command: object, done: object, fail: object, *, again: bool = True) -> None:
        self.done.append(done)


def test_an_answer_behind_the_end_of_its_turn_is_noticed() -> None:
    # Another server carries it out: what it logs may be here sooner than its answer.
    lines = Unanswered()
    waiting: list[int] = []
    session = Followed(
        cast("Line", lines), "s", prompt_answered=lambda: waiting.append(len(session.queue))
    )
    agent = AgentState("a", "acp")
    session.take_snapshot(SessionState(agent).snapshot("s", "e", 0))
    session.submit("hello")
    for seq, event in enumerate(
        [
            TurnStarted("t1", "user", [Text("hello")]),
            TurnEnded(turn="t1", outcome="completed"),
            StateChanged(State("idle", None, agent, None)),
        ],
        start=1,
    ):
        session.take_event("e", seq, event, seq - 1)
    assert len(session.queue) == 1
    lines.done[0]({"turn": "t1", "seq": 1})
    assert waiting == [0]
