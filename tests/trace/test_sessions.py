"""A session's wire, in a file and for a subscriber."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio

import agentrt
from agentrt.testing import FakeAcpAgent
from agentrt.tracing import read_trace
from inside.runtime import host_of
from inside.trace import Piece
from runtime.fakes import echo, session_with


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


async def test_while_nobody_listens_nothing_is_called() -> None:
    async with session_with(echo) as (session, _):
        tap = host_of(session).tap
        assert not tap.process.on
        with session.trace():
            assert tap.process.on
        assert not tap.process.on


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


async def test_what_a_subscriber_does_not_read_is_bounded_and_counted() -> None:
    async with session_with(echo) as (session, _):
        tap = host_of(session).tap
        trace = session.trace()
        big = b"x" * (BUFFERED_BYTES // 2) + b"\n"
        for _ in range(5):
            trace._wire.put(Piece(1.0, session.id, tap.process.number, "received", big))
        trace._wire.end()
        found = [record async for record in trace]
    assert [record.kind for record in found] == ["received"] * 2 + ["lost"]
    assert found[-1].count == 3


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
    async with session_with(echo) as (session, _):
        tap = host_of(session).tap
        wire = session.wire()
        big = b'{"x": "' + b"x" * BUFFERED_BYTES + b'"}\n'
        for line in (b"noise\n", b"[1]\n", big, b"{}\n", b"{}\n"):
            tap.put("received", tap.process.number, line, None)
        await session.aclose()
        bodies = [len(message.body["x"]) async for message in wire]
    assert bodies == [BUFFERED_BYTES]
    assert wire.lost >= 2
