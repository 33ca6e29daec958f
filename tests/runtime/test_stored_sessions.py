"""A runtime with a store: what it lists, what opens a stored session, and what does not."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import agentrt
from agentrt import Limits, Runtime
from agentrt._core.runtime import memory
from agentrt.store import open_store
from agentrt.testing import open_fake_runtime
from journal.kit import RESUMES, abandoned
from runtime.fakes import Incarnations, asking, echo


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@asynccontextmanager
async def runtime_on(
    path: Path, agents: Incarnations | None, **options: Any
) -> AsyncIterator[Runtime]:
    """Without `agents` none is known by name."""
    known = {} if agents is None else {"fake": agents.start}
    async with (
        open_store(path) as store,
        open_fake_runtime(known, store=store, **options) as runtime,
    ):
        yield runtime


async def told(runtime: Runtime, *prompts: str) -> str:
    """A new session that was prompted so; its id."""
    session = await runtime.create("fake")
    for prompt in prompts:
        await session.run(prompt)
    return session.id


async def test_a_session_of_an_earlier_process_is_listed_and_not_open(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        first = await told(runtime, "hello there", "again")
        await told(runtime)  # never prompted: nobody looks for it
        runtime.rename(first, "mine")
    agents = Incarnations(echo)
    async with runtime_on(path, agents) as runtime:
        [info] = runtime.list()
        assert (info.session, info.phase, info.title) == (first, "stored", "mine")
        assert info.prompt == "hello there"
        assert info.updated is not None
        assert runtime.list_open() == []
        assert runtime.stored(first) == info
        with pytest.raises(agentrt.errors.SessionNotFound):
            runtime.get(first)
    assert agents.processes == []


async def test_a_stored_session_is_opened_once_however_many_ask(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        id = await told(runtime, "hello")
    agents = Incarnations(echo)
    async with runtime_on(path, agents) as runtime:
        found = []

        async def ask() -> None:
            found.append(await runtime.reopen(id))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert all(each is runtime.get(id) for each in found)
        assert agents.processes == []
        assert (await found[0].run("again")).text == "again"
        assert len(runtime.list()) == 1


async def test_a_closed_session_stays_listed_until_it_is_deleted(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        id = await told(runtime, "hello")
        created = runtime.list()[0].created
        await runtime.close(id)
        [info] = runtime.list()
        assert (info.phase, info.prompt, info.created) == ("stored", "hello", created)
        await runtime.reopen(id)
        assert [info.phase for info in runtime.list()] == ["dead"]
        heard: list[int] = []
        runtime.listen(lambda: heard.append(len(runtime.list())))
        await runtime.delete(id)
        assert runtime.list() == []
        assert heard == [1, 0]
        with pytest.raises(agentrt.errors.SessionNotFound):
            await runtime.delete(id)
    async with runtime_on(path, None) as runtime:
        assert runtime.list() == []


async def test_a_session_that_is_opened_at_the_moment_is_deleted(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        id = await told(runtime, "hello")
    async with runtime_on(path, Incarnations(echo)) as runtime:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.reopen, id)
                await trio.testing.wait_all_tasks_blocked()
                assert runtime.list_open() == []
                nursery.start_soon(runtime.delete, id)
        assert runtime.list() == []


async def test_a_session_that_was_never_prompted_is_gone_when_it_is_closed(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        await runtime.close(await told(runtime))
        assert runtime.list() == []


async def test_those_that_are_only_stored_do_not_count_as_open(path: Path) -> None:
    limits = Limits(open_sessions=1)
    async with runtime_on(path, Incarnations(echo), limits=limits) as runtime:
        first = await told(runtime, "first")
        await runtime.close(first)
        second = await told(runtime, "second")
        with pytest.raises(agentrt.errors.LimitExceeded):
            await runtime.reopen(first)
        await runtime.close(second)
        await runtime.reopen(first)


async def test_it_can_be_read_without_its_agent_and_cannot_be_opened(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        id = await told(runtime, "hello")
        last = runtime.get(id).log.seq
    async with runtime_on(path, None) as runtime:
        log = await runtime.read(id)
        assert log.seq > last
        assert log.state.state.phase == "dead"
        assert [turn.outcome for turn in log.state.turns.values()] == ["completed"]
        with pytest.raises(agentrt.errors.AgentNotFound):
            await runtime.reopen(id)
        assert runtime.list()[0].phase == "stored"
        assert (await runtime.read(id)).seq == log.seq  # looking again changes nothing
    async with runtime_on(path, Incarnations(echo)) as runtime:
        session = await runtime.reopen(id)
        assert session.log.epoch == log.epoch
        assert session.log.since(log.seq) is not None
        assert await runtime.read(id) is session.log


async def test_what_was_open_when_the_process_died_is_closed_for_who_reads(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    async with runtime_on(path, Incarnations(asking), permissions=None) as runtime:
        session = await runtime.create("fake")
        async with session.prompt("hello") as turn:
            async for event in turn:
                if type(event) is agentrt.PermissionOpened:
                    abandoned(path, copy)
                    break
    async with runtime_on(copy, None) as runtime:
        [info] = runtime.list()
        state = (await runtime.read(info.session)).state
        assert state.state.turn is None
        assert [turn.outcome for turn in state.turns.values()] == ["agent_died"]


async def test_loading_a_conversation_that_a_stored_session_has_opens_that(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo, session="theirs")) as runtime:
        id = await told(runtime, "hello")
    async with runtime_on(path, Incarnations(echo)) as runtime:
        assert (await runtime.load("fake", "theirs")).id == id


async def test_cancelling_an_opening_leaves_the_session_as_it_was(path: Path) -> None:
    async with runtime_on(path, Incarnations(echo)) as runtime:
        id = await told(runtime, "hello")
    async with runtime_on(path, Incarnations(echo)) as runtime:
        with trio.CancelScope() as scope:
            scope.cancel()
            await runtime.reopen(id)
        assert [info.phase for info in runtime.list()] == ["stored"]
        assert (await (await runtime.reopen(id)).run("again")).text == "again"


# --- memory


RESTING: dict[str, Any] = {"suspend_after_s": 0.2, "unload_after_s": 0.4}
"""Limits by which a session that nobody wants is closed to its row at once."""


async def until_unloaded(runtime: Runtime) -> None:
    while runtime.list_open():
        changed = trio.Event()
        stop = runtime.listen(changed.set)
        await changed.wait()
        stop()


async def test_a_session_that_rests_unseen_is_closed_to_its_row_and_goes_on_at_a_prompt(
    path: Path,
) -> None:
    agents = Incarnations(echo, **RESUMES)
    async with runtime_on(path, agents, limits=Limits(**RESTING)) as runtime:
        id = await told(runtime, "hello")
        epoch, seen = runtime.get(id).log.epoch, weakref.ref(runtime.get(id).log)
        await until_unloaded(runtime)
        [info] = runtime.list()
        assert (info.session, info.phase, info.prompt) == (id, "stored", "hello")
        log = await runtime.read(id)
        assert (log.epoch, log.state.state.phase) == (epoch, "dead")
        gc.collect()
        assert seen() is None
        session = await runtime.reopen(id)
        assert (await session.run("again")).text == "again"
        assert [turn.id for turn in session.snapshot().turns] == ["t1", "t2"]
        assert len(agents.sent("session/load")) == 1


async def test_what_is_unloaded_is_logged_nowhere(path: Path) -> None:
    agents = Incarnations(echo, **RESUMES)
    async with runtime_on(path, agents, limits=Limits(**RESTING)) as runtime:
        id = await told(runtime, "hello")
        await until_unloaded(runtime)
        log = await runtime.read(id)
        assert runtime.store is not None
        events = [event for _, event in await runtime.store.events(id)]
        assert isinstance(events[-1], agentrt.events.StateChanged | agentrt.Notice)
        assert log.state.state.phase == "dead"
        assert log.seq == len(events)


async def test_who_prompts_a_session_while_it_is_unloaded_gets_it(path: Path) -> None:
    agents = Incarnations(echo, **RESUMES)
    async with runtime_on(path, agents, limits=Limits(**RESTING)) as runtime:
        id = await told(runtime, "hello")
        gone = trio.Event()
        runtime.listen(gone.set)
        await gone.wait()
        session = await runtime.reopen(id)
        assert (await session.run("again")).text == "again"


@pytest.mark.slow
async def test_the_list_has_an_unloaded_session_where_something_happened_last(path: Path) -> None:
    limits = Limits(suspend_after_s=0.2, unload_after_s=1.0)
    async with runtime_on(path, Incarnations(echo, **RESUMES), limits=limits) as runtime:
        first = await told(runtime, "first")
        await trio.sleep(0.5)
        second = await told(runtime, "second")
        await runtime.close(second)
        await until_unloaded(runtime)
        assert [info.session for info in runtime.list()] == [first, second]


@pytest.mark.slow
@pytest.mark.parametrize("why", ["never prompted", "a function", "a server", "followed"])
async def test_a_session_is_not_unloaded_that_would_lose_something_by_it(
    path: Path, why: str
) -> None:
    @agentrt.tool
    def add(a: int, b: int) -> int:
        return a + b

    agents = Incarnations(echo, **RESUMES)
    async with runtime_on(path, agents, limits=Limits(**RESTING)) as runtime:
        session = await runtime.create(
            "fake",
            tools=[add] if why == "a function" else [],
            mcp_servers=[{"name": "x", "command": "x"}] if why == "a server" else [],
        )
        if why != "never prompted":
            await session.run("hello")
        follow = session.subscribe_all() if why == "followed" else None
        async with trio.open_nursery() as nursery:
            if follow is not None:
                nursery.start_soon(read, follow)
            await trio.sleep(1.5)
            assert [info.session for info in runtime.list_open()] == [session.id]
            nursery.cancel_scope.cancel()


async def read(follow: Any) -> None:
    async for _ in follow:
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
async def test_memory_is_given_back_once_for_sessions_that_are_unloaded_together(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = trio.Event()
    count = 0

    def trim() -> None:
        nonlocal count
        count += 1
        trio.from_thread.run_sync(given.set)

    monkeypatch.setattr(memory, "_trim", trim)
    monkeypatch.setattr(memory, "COLLECT_DELAY_S", 0.1)
    agents = Incarnations(echo, **RESUMES)
    with trio.fail_after(20):
        async with runtime_on(path, agents, limits=Limits(**RESTING)) as runtime:
            for _ in range(3):
                await told(runtime, "hello")
            await given.wait()
            assert 1 <= count <= 3
