"""A session's wire, in a file and for a subscriber."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

import agentrt
from agentrt.testing import FakeAcpAgent
from agentrt.tracing import read_trace
from runtime.fakes import echo, session_with
from work import calls_per_line, chatter


@pytest.mark.slow
async def test_everything_that_happens_between_host_and_agent_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "t"
    env = {**os.environ, "MY_SECRET": "squeamish ossifrage"}
    with trio.fail_after(60):
        async with agentrt.open_session("demo", cwd=tmp_path, trace=file, env=env) as session:
            await session.run("squeamish ossifrage")
    found = list(read_trace(file))
    kinds = [record.kind for record in found]
    assert kinds[:4] == ["trace", "session", "started", "sent"]
    assert {"received", "stdin_closed", "stdout_closed", "exited"} <= set(kinds)
    started = found[2]
    assert "MY_SECRET" in started.env
    assert started.command[-1] == "agentrt.demo"
    assert started.cwd == str(tmp_path)
    assert {record.session for record in found[1:]} == {session.id}
    assert [record.code for record in found if record.kind == "exited"] == [0]
    times = [record.t for record in found[1:]]
    assert times == sorted(times)
    assert b"ossifrage" not in file.read_bytes()
    assert any(record.redacted for record in found)


@pytest.mark.slow
async def test_the_stderr_the_signals_and_the_death_of_a_process_are_in_it(tmp_path: Path) -> None:
    program = "echo oops >&2; printf 'no message \\377\\n'; read x; sleep 100"
    agent = agentrt.Agent(name="odd", command=("sh", "-c", program))
    limits = agentrt.Limits(startup_timeout_s=1, stdin_close_grace_s=0.1)
    with trio.fail_after(60):
        try:
            async with agentrt.open_session(
                agent, cwd=tmp_path, limits=limits, trace=tmp_path / "t"
            ):
                pass
        except agentrt.AgentStartError:
            pass
    found = list(read_trace(tmp_path / "t"))
    assert [record.line for record in found if record.kind == "stderr"] == ["oops"]
    assert [r.data for r in found if r.kind == "received"] == [b"no message \xff"]
    assert [record.signal for record in found if record.kind == "signal"][:1] == ["SIGTERM"]
    assert [record.code for record in found if record.kind == "exited"] == [-15]


async def test_a_subscriber_comes_whenever_it_likes_and_ends_with_the_session() -> None:
    async with session_with(echo) as (session, _):
        await session.run("before")
        trace = session.trace()
        await session.run("hello")
    found = [record async for record in trace if record.line is not None]
    lines = [(r.kind, msgspec.json.decode(r.data).get("method")) for r in found]
    assert lines[0] == ("sent", "session/prompt")
    assert ("received", "session/update") in lines
    assert [r async for r in session.trace()] == []


@pytest.mark.slow
async def test_while_nobody_listens_nothing_is_called() -> None:
    async with session_with(chatter) as (session, _):
        await session.run("once")
        quiet = await calls_per_line(session)
        with session.trace():
            assert await calls_per_line(session) >= quiet + 4
        assert await calls_per_line(session) < quiet + 4


async def test_each_process_of_a_session_has_its_number() -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(3)

    async with session_with(dies, echo) as (session, _):
        with session.trace() as trace:
            await session.run("one", check=False)
            await session.run("two")
            await session.aclose()
            found = [record async for record in trace]
    prompts = [r.process for r in found if r.kind == "sent" and "session/prompt" in r.text]
    assert prompts == [1, 2]


BUFFERED_BYTES = 4 * 1024 * 1024
"""Held for a subscriber that does not read."""


MESSAGES = 120


async def much(agent: FakeAcpAgent) -> None:
    """Write noise, and then more than is held for a subscriber, a message at a time."""
    async for prompt in agent.prompts:
        agent.process.send(b"noise\n[1]\n")
        for _ in range(MESSAGES):
            await trio.testing.wait_all_tasks_blocked()
            agent.say("x" * 50_000)
        await trio.testing.wait_all_tasks_blocked()
        prompt.end()


async def test_what_a_subscriber_does_not_read_is_bounded_and_counted() -> None:
    async with session_with(much) as (session, _):
        with session.trace() as trace:
            await session.run("go on")
            sent, *received, lost = trace.take(1_000)
    assert (sent.kind, {record.kind for record in received}, lost.kind) == (
        "sent",
        {"received"},
        "lost",
    )
    size = sum(len(record.data) for record in received)
    assert abs(size - BUFFERED_BYTES) < 100_000
    noise, answer = 2, 1
    assert len(received) + lost.count == noise + MESSAGES + answer


@pytest.mark.slow
async def test_a_runtime_writes_all_its_sessions_into_one_file(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with agentrt.open_runtime(trace=tmp_path / "t") as runtime:
            first = await runtime.create("demo", cwd=tmp_path)
            other = await runtime.create("demo", cwd=tmp_path)
            await first.run("hello")
            ids = {first.id, other.id}
    assert {record.session for record in read_trace(tmp_path / "t")} == {"", *ids}


async def test_a_program_reads_the_decoded_messages_of_both_sides() -> None:
    async with session_with(echo) as (session, _):
        with session.wire() as wire:
            await session.run("hello")
            sent, *received = [await anext(wire) for _ in range(3)]
    assert sent.sent
    assert sent.body["method"] == "session/prompt"
    assert sent.body["params"]["prompt"] == [{"type": "text", "text": "hello"}]
    assert [message.sent for message in received] == [False, False]
    assert received[-1].body["result"]["stopReason"] == "end_turn"


async def test_messages_that_a_slow_reader_lost_are_counted_and_noise_is_skipped() -> None:
    async with session_with(much) as (session, _):
        wire = session.wire()
        await session.run("go on")
        await session.aclose()
        sent, *received = [message.body async for message in wire]
    assert sent["method"] == "session/prompt"
    assert {body["method"] for body in received} == {"session/update"}
    assert abs(50_000 * len(received) - BUFFERED_BYTES) < 100_000
    assert len(received) + wire.lost >= MESSAGES + 1  # with the end of the process
