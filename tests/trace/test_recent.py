"""The last of a session's wire, for a debug view."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from agentrt.testing import FakeAcpAgent
from agentrt.tracing import RecentWire
from runtime.fakes import echo, session_with
from work import calls_per_line, chatter

FLOOD = 2_000


async def flood(agent: FakeAcpAgent) -> None:
    """Answer each prompt with many short pieces."""
    async for prompt in agent.prompts:
        for _ in range(FLOOD):
            agent.say("x")
        prompt.end()


async def test_what_was_said_while_somebody_listened_is_there() -> None:
    async with session_with(echo) as (session, _), trio.open_nursery() as nursery:
        wire = RecentWire(session.trace())
        nursery.start_soon(wire.listen)
        await session.run("hello")  # and nobody has read it yet, perhaps
        rows = {row.what: row for row in wire.rows()}
        prompt = rows["session/prompt"]
        assert (prompt.detail, prompt.answer) == ("hello", "end_turn")
        assert "initialize" not in rows
        nursery.cancel_scope.cancel()


async def test_a_look_has_all_that_went_over_the_wire_before_it() -> None:
    async with session_with(echo) as (session, _):
        wire = RecentWire(session.trace())  # nothing listens
        await session.run("hello")
        assert [row.what for row in wire.rows()][-1] == "answer to session/prompt"


async def test_a_look_at_a_flood_reads_a_part_and_later_ones_the_rest() -> None:
    async with session_with(flood) as (session, _):
        with session.trace() as records:
            await session.run("hello")
            parts = list(iter(lambda: records.take(2), []))
    assert max(map(len, parts)) <= 250
    lines = [record.data for part in parts for record in part if record.kind == "received"]
    assert sum(b"agent_message_chunk" in line for line in lines) == FLOOD


async def test_of_a_long_session_the_newest_rows_are_kept_without_their_lines() -> None:
    async with session_with(echo) as (session, _), trio.open_nursery() as nursery:
        wire = RecentWire(session.trace())
        nursery.start_soon(wire.listen)
        for number in range(500):
            await session.run(str(number))
        await trio.testing.wait_all_tasks_blocked()
        rows = wire.rows()
        assert len(rows) == 500
        assert rows[-1].what == "answer to session/prompt"
        assert not any(row.lines for row in rows)
        assert all(row.message is None or row.message.body is None for row in rows)
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_nothing_listens_once_it_is_over() -> None:
    async with session_with(chatter) as (session, _):
        await session.run("once")
        quiet = await calls_per_line(session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(RecentWire(session.trace()).listen)
            await trio.testing.wait_all_tasks_blocked()
            assert await calls_per_line(session) >= quiet + 4
            nursery.cancel_scope.cancel()
        assert await calls_per_line(session) < quiet + 4
