"""An orderly end keeps what a crash keeps; only closing the session itself drops what waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

import agentrt
from agentrt import Limits
from agentrt.store import open_store
from agentrt.testing import MemoryAgent, open_fake_runtime
from runtime.fakes import Incarnations, asking, echo, obedient

from .kit import RESUMES, again, kept, left, prompts

WAITING = ["one", "two", "three"]
QUICK = Limits(cancel_grace_s=0, stdin_close_grace_s=0)

pytestmark = pytest.mark.every_store


class DiesAndNeverStarts(Incarnations):
    """Agents of which the second one never answers anything."""

    def start(self) -> MemoryAgent:
        if not self.processes:
            return super().start()

        async def says_nothing(process: MemoryAgent) -> None:
            await trio.sleep_forever()

        return MemoryAgent(says_nothing)


class Left(Exception):
    """Somebody leaves the block."""


async def submit_all(session: agentrt.Session) -> None:
    """Have a prompt run and others wait behind it, all of them stored."""
    session.submit("running")
    for text in WAITING:
        session.submit(text)
    async for event in session.subscribe(after=0):
        if isinstance(event, agentrt.events.QueueChanged) and len(event.queue) == len(WAITING):
            break


async def waiting_in(path: Any, agents: Incarnations | None = None) -> list[str]:
    """The texts that wait in the stored session, all of which are paused."""
    async with open_store(path) as store:
        async with again(store, agents or Incarnations(echo)) as session:
            queue = session.snapshot().queue
            assert all(entry.paused for entry in queue)
            return [entry.content[0].text for entry in queue]  # type: ignore[union-attr]


@asynccontextmanager
async def stored(path: Any, **options: Any) -> AsyncIterator[agentrt.Session]:
    agents = Incarnations(options.pop("script", obedient), **RESUMES)
    async with (
        open_store(path) as store,
        kept(store, agents, limits=QUICK, **options) as session,
    ):
        yield session


async def test_leaving_the_block_by_an_error_keeps_what_waits(path: Any) -> None:
    with suppress(Left):
        async with stored(path) as session:
            await submit_all(session)
            raise Left
    assert await waiting_in(path) == WAITING
    assert await waiting_in(path) == WAITING  # also the second time


async def test_cancelling_the_block_keeps_what_waits(path: Any) -> None:
    with trio.CancelScope() as scope:
        async with stored(path) as session:
            await submit_all(session)
            scope.cancel()
            await trio.sleep_forever()
    assert await waiting_in(path) == WAITING


async def test_leaving_the_block_after_a_stop_keeps_what_it_paused(path: Any) -> None:
    async with stored(path) as session:
        await submit_all(session)
        session.cancel()
    agents = Incarnations(echo, **RESUMES)
    assert await waiting_in(path, agents) == WAITING
    async with open_store(path) as store, again(store, agents) as session:
        await session.run("first of all")
        assert prompts(agents) == ["first of all"]
        session.queue.resume()
    assert prompts(agents) == ["first of all", *WAITING]


async def test_a_prompt_that_waits_for_its_agent_to_be_started_again_is_kept(path: Any) -> None:
    async def dies(agent: Any) -> None:
        async for prompt in agent.prompts:
            prompt.end()
            agent.process.exit(1)

    agents = DiesAndNeverStarts(dies, **RESUMES)
    async with open_store(path) as store:
        with trio.CancelScope() as scope:
            async with kept(store, agents, limits=QUICK) as session:
                await session.run("running")
                async for event in session.subscribe(after=0):
                    if (
                        isinstance(event, agentrt.events.StateChanged)
                        and event.state.phase == "dead"
                    ):
                        break
                turns = [session.submit(text) for text in WAITING]
                scope.cancel()
                await trio.sleep_forever()
        assert all("stays in the stored queue" in str(turn.failure) for turn in turns)
    assert await waiting_in(path) == WAITING


async def test_a_caller_that_waits_for_its_prompt_is_told_that_it_is_not_sent(path: Any) -> None:
    with suppress(Left):
        async with stored(path) as session, trio.open_nursery() as nursery:
            await submit_all(session)

            async def wait() -> None:
                with pytest.raises(agentrt.SessionClosed):
                    await session.run("waited for")
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await session.aclose()
    assert await waiting_in(path) == WAITING


async def test_ending_the_session_by_itself_keeps_what_waits(path: Any) -> None:
    async with stored(path) as session:
        await submit_all(session)
        await session.aclose()
    assert await waiting_in(path) == WAITING


async def test_closing_the_session_drops_what_waits_and_says_so(path: Any) -> None:
    async with stored(path) as session:
        await submit_all(session)
        events = session.subscribe()
        await session.aclose(discard=True)
        notices = [event async for event in events if isinstance(event, agentrt.Notice)]
        assert [notice.code for notice in notices].count("prompt_dropped") == len(WAITING)
    assert await waiting_in(path) == []


async def test_an_open_question_outlives_an_orderly_end(path: Any) -> None:
    with suppress(Left):
        async with stored(path, script=asking, permissions=left) as session:
            session.submit("may I")
            async for event in session.subscribe(after=0):
                if isinstance(event, agentrt.PermissionOpened):
                    break
            raise Left
    agents = Incarnations(echo, **RESUMES)
    for _ in range(2):
        async with open_store(path) as store, again(store, agents) as session:
            [question] = session.snapshot().permissions
            assert question.orphaned
            assert question.title == "Run ls"
    async with open_store(path) as store, again(store, agents) as session:
        session.answer(question.request, "allow_once")
        assert session.pending_permissions == {}
    assert ["'Run ls'" in told for told in prompts(agents)] == [True]


async def test_a_session_whose_first_prompt_waits_is_kept_and_listed(path: Any) -> None:
    """Its agent died before it was prompted, and is being started again."""

    async with open_store(path) as store:
        with trio.CancelScope() as scope:
            agents = DiesAndNeverStarts(echo, **RESUMES)
            async with kept(store, agents, limits=QUICK) as session:
                agents.processes[0].exit(1)
                async for event in session.subscribe(after=0):
                    if (
                        isinstance(event, agentrt.events.StateChanged)
                        and event.state.phase == "dead"
                    ):
                        break
                session.submit("first")
                scope.cancel()
                await trio.sleep_forever()
    assert await waiting_in(path) == ["first"]
    async with open_store(path) as store:
        [entry] = await store.sessions()
        assert (entry.session, entry.turns, entry.prompt) == ("one", 0, "first")
        assert [each.session for each in await store.find("one")] == ["one"]


async def test_a_session_whose_first_prompt_was_taken_back_is_forgotten(path: Any) -> None:
    agents = DiesAndNeverStarts(echo, **RESUMES)
    async with open_store(path) as store:
        async with kept(store, agents, limits=QUICK) as session:
            agents.processes[0].exit(1)
            async for event in session.subscribe(after=0):
                if isinstance(event, agentrt.events.StateChanged) and event.state.phase == "dead":
                    break
            turn = session.submit("first")
            session.queue.remove(turn.entry)
        assert await store.sessions() == []


@pytest.mark.parametrize("ends", ["drain", "cancel", "close"])
async def test_the_runtimes_end_keeps_what_waits_and_closing_a_session_does_not(
    path: Any, ends: str
) -> None:
    agents = Incarnations(obedient, **RESUMES)
    async with open_store(path) as store:
        with trio.CancelScope() as scope:
            async with open_fake_runtime(
                {"fake": agents.start}, store=store, limits=QUICK
            ) as runtime:
                session = await runtime.create("fake")
                await submit_all(session)
                match ends:
                    case "drain":
                        session.cancel()
                        await runtime.drain()
                    case "close":
                        assert await runtime.close(session.id) == len(WAITING)
                    case "cancel":
                        scope.cancel()
        [entry] = await store.sessions()
        shown = await store.snapshot(entry.session)
    texts = [entry.content[0].text for entry in shown.queue]  # type: ignore[union-attr]
    assert texts == ([] if ends == "close" else WAITING)
    assert all(entry.paused for entry in shown.queue)
