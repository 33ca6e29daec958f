"""Copies of sessions, of which the first one stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from trio.testing import MockClock

from agentrt import Busy, Limits, Runtime, Session
from agentrt.errors import LocalProtocolError, SessionNotFound
from agentrt.storage import reader_of
from agentrt.store import open_store
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from runtime.fakes import SETTABLE, Incarnations, settable

AT_A_TURN = {"agentrt": {"forkAt": True}}
FORKS = {"sessionCapabilities": {"fork": {}, "resume": {}}}


async def echo(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        text = {"type": "text", "text": prompt.text}
        agent.update("agent_message_chunk", messageId=f"m-{prompt.text}", content=text)
        if prompt.text != "wait":
            prompt.end()
        else:
            await prompt.cancelled.wait()
            prompt.end("cancelled")


@asynccontextmanager
async def runtime_with(**fake: object) -> AsyncIterator[tuple[Runtime, Incarnations]]:
    agents = Incarnations(echo, **fake)
    async with open_fake_runtime({"fake": agents.start}) as runtime:
        yield runtime, agents


async def test_a_fork_is_another_session_with_a_process_of_its_own(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(capabilities=FORKS) as (runtime, agents):
        first = await runtime.create("fake", cwd="/shop")
        await first.run("hello")
        fork = await runtime.fork(first.id)
        assert fork.id != first.id
        assert (first.agent_session, fork.agent_session) == ("s1", "s1-fork")
        [asked] = agents.sent("session/fork")
        assert (asked["params"]["sessionId"], asked["params"]["cwd"]) == ("s1", "/shop")
        assert (await fork.run("in the fork")).text == "in the fork"
        assert len(first.snapshot().turns) == 1
        await fork.aclose()
        assert (await first.run("still here")).text == "still here"


async def test_what_cannot_be_forked_is_refused(autojump_clock: MockClock) -> None:
    async with runtime_with(capabilities=FORKS) as (runtime, _):
        with pytest.raises(SessionNotFound, match="'nobody'"):
            await runtime.fork("nobody")
        session = await runtime.create("fake")
        with pytest.raises(LocalProtocolError, match="the session is empty"):
            await runtime.fork(session.id)
        async with session.prompt("wait") as turn:
            with pytest.raises(Busy, match="a turn is running"):
                await runtime.fork(session.id)
            turn.cancel()
        assert len(runtime.list()) == 1


async def test_an_agent_that_cannot_is_not_asked(autojump_clock: MockClock) -> None:
    async with runtime_with() as (runtime, agents):
        session = await runtime.create("fake")
        await session.run("hello")
        with pytest.raises(LocalProtocolError, match="fake cannot fork a session"):
            await runtime.fork(session.id)
        assert len(agents.processes) == 1


def words(session: Session) -> list[str]:
    items = session.snapshot().items
    return [each.text + "".join(getattr(b, "text", "") for b in each.content) for each in items]


@pytest.mark.door("python", "fork")
async def test_a_fork_at_a_turn_has_what_was_said_until_then(autojump_clock: MockClock) -> None:
    async with runtime_with(meta=AT_A_TURN, capabilities=FORKS) as (runtime, agents):
        first = await runtime.create("fake", cwd="/shop")
        await first.run("one")
        middle = await first.run("two")
        async with first.prompt("wait") as turn:  # the agent does something else meanwhile
            fork = await runtime.fork(first.id, at=middle.turn)
            turn.cancel()
        [asked] = agents.sent("session/fork")
        point = asked["params"]["_meta"]["jetbrains"]["air"]["fork"]
        assert (point["version"], point["messageId"]) == (1, "m-two")
        assert point["messageOccurrence"] == 1
        assert point["messageFingerprint"].startswith("sha256:")
        assert words(fork) == ["one", "one", "two", "two"]
        assert all(item.replay for item in fork.snapshot().items)
        await fork.run("three")
        assert words(fork)[-2:] == ["three", "three"]


async def test_an_agent_that_forks_only_at_the_end_is_not_asked_for_less(
    autojump_clock: MockClock,
) -> None:
    async with runtime_with(capabilities=FORKS) as (runtime, agents):
        session = await runtime.create("fake")
        turn = (await session.run("hello")).turn
        with pytest.raises(LocalProtocolError, match="at an earlier turn: only at its end"):
            await runtime.fork(session.id, at=turn)
        assert len(agents.processes) == 1
        fork = await runtime.fork(session.id)
        assert words(fork) == ["hello", "hello"]


async def test_a_turn_that_is_not_there_is_no_fork(autojump_clock: MockClock) -> None:
    async with runtime_with(meta=AT_A_TURN, capabilities=FORKS) as (runtime, agents):
        session = await runtime.create("fake")
        await session.run("hello")
        with pytest.raises(LocalProtocolError, match="no turn and no message 'never'"):
            await runtime.fork(session.id, at="never")
        assert len(agents.processes) == 1


async def test_a_stored_session_is_forked_at_a_turn_without_being_opened(tmp_path: Path) -> None:
    agents = Incarnations(echo, capabilities=FORKS, meta=AT_A_TURN)
    limits = Limits(snapshot_turns=1)
    async with open_store(tmp_path / "sessions.db", limits=limits) as store:
        async with open_fake_runtime({"fake": agents.start}, limits=limits, store=store) as runtime:
            session = await runtime.create("fake")
            for text in ("one", "two", "three"):
                await session.run(text)
        async with open_fake_runtime({"fake": agents.start}, limits=limits, store=store) as runtime:
            fork = await runtime.fork(session.id, at="t1")
            assert words(fork) == ["one", "one"]
            assert (await fork.run("more")).text == "more"
            assert [info.session for info in runtime.list_open()] == [fork.id]


SETTABLE_FORKS = {**SETTABLE, "capabilities": {"loadSession": True, **FORKS}}


def settings(path: Path, session: Session) -> tuple[object, ...]:
    """What its agent's next process will be opened with."""
    with closing(reader_of(path)) as reader:
        stored = reader.load(session.id)
    assert stored is not None
    about = stored.about
    return about.model, about.mode, about.roots, about.options


@pytest.mark.parametrize("rests", [False, True], ids=["open", "stored"])
async def test_a_fork_has_the_model_the_mode_the_roots_and_the_options(
    rests: bool, tmp_path: Path
) -> None:
    agents = Incarnations(settable, **SETTABLE_FORKS)
    async with (
        open_store(tmp_path / "sessions.db") as store,
        open_fake_runtime({"fake": agents.start}, store=store) as runtime,
    ):
        first = await runtime.create("fake", roots=("/tmp",), model="large", mode="plan")
        await first.set_option("effort", "high")
        await first.run("hello")
        if rests:
            await first.aclose()
            await runtime.close(first.id)
        fork = await runtime.fork(first.id)
        chosen = ("large", "plan", ("/tmp",), {"config": {"effort": "high"}})
        await fork.run("go on")
        assert settings(tmp_path / "sessions.db", fork) == chosen
        modes = fork.modes
        assert modes is not None
        assert (modes.model, modes.mode) == ("large", "plan")
        assert (runtime.stored(first.id) is not None) is rests
