"""`wire`: what goes between the server and the agent, for who looks."""

from __future__ import annotations

import pytest
import trio
from hub_kit import stage_with
from test_browser_shapes import alone
from trio.testing import MockClock

from runtime.fakes import echo
from work import calls_per_line, chatter


async def test_who_looks_sees_what_is_said_from_then_on(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        assert (await tab.ok("wire", session=id))["rows"] == []
        await tab.prompt(id, "hello")
        await trio.sleep(1)
        rows = (await tab.ok("wire", session=id))["rows"]
        assert (rows[0]["kind"], rows[0]["what"], rows[0]["detail"]) == (
            "sent",
            "session/prompt",
            "hello",
        )
        assert rows[0]["answer"] == "end_turn"
        assert rows[-1]["what"] == "answer to session/prompt"


@pytest.mark.slow
async def test_nothing_listens_before_anybody_looks_and_once_nobody_does(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(chatter) as stage:
        session = await stage.runtime.create("fake")
        tab = stage.connect()
        await session.run("once")
        quiet = await calls_per_line(session)
        await tab.ok("wire", session=session.id)
        await trio.sleep(29)
        await tab.ok("wire", session=session.id)
        await trio.sleep(29)
        assert await calls_per_line(session) >= quiet + 4
        await trio.sleep(2)
        assert await calls_per_line(session) < quiet + 4


@pytest.mark.slow
async def test_an_answer_has_the_newest_rows(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id, tab = await alone(stage)
        await tab.ok("wire", session=id)
        for number in range(100):
            await tab.prompt(id, str(number))
            await trio.sleep(0.2)
        rows = (await tab.ok("wire", session=id))["rows"]
        assert len(rows) == 100
        assert rows[-1]["what"] == "answer to session/prompt"


@pytest.mark.slow
async def test_there_is_no_wire_of_a_session_that_is_not_open() -> None:
    async with stage_with(echo) as stage:
        _, tab = await alone(stage)
        assert await tab.refused("wire", session="nobody") == "unknown_session"
