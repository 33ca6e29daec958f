"""`query` ends by itself, when the last prompt is answered and nothing is left to do."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio
from msgspec import structs

import agentrt

from .test_fakecli import FAKE, QUICK, session

NEVER = structs.replace(QUICK, end_silence_s=60, drain_timeout_s=60)
"""Limits under which a test fails that is ended by a clock."""


async def ask(
    scenario: str, prompts: Any = "go", *, limits: agentrt.Limits = NEVER, **options: Any
) -> agentrt.Query:
    """A query that was read to its end."""
    agent = agentrt.agents.claude([sys.executable, FAKE, scenario])
    with trio.fail_after(20):
        opening = agentrt.query(prompts, agent=agent, limits=limits, **options)
        async with opening as query:
            async for _ in query:
                pass
    return query


def texts(query: agentrt.Query) -> list[str]:
    """What the main agent said."""
    items = query.session.snapshot().items
    return [item.text for item in items if item.type == "text" and item.parent is None]


async def codes(query: agentrt.Query) -> list[str]:
    """What was noted, from the beginning to the end."""
    told = query.session.subscribe(after=0)
    return [event.code async for event in told if isinstance(event, agentrt.Notice)]


async def test_a_single_prompt_with_nothing_bidirectional_ends() -> None:
    query = await ask("plain", "hello")
    assert [result.text for result in query.results] == ["You said: hello "]


async def endless() -> AsyncIterator[str]:
    for number in range(2):
        await trio.sleep(0.01)
        yield f"number {number}"


def listed() -> Iterator[str]:
    yield from ["number 0", "number 1"]


@pytest.mark.parametrize("prompts", [endless, listed])
async def test_every_prompt_of_an_iterable_is_answered(prompts: Any) -> None:
    query = await ask("plain", prompts())
    assert [result.text for result in query.results] == [
        "You said: number 0 ",
        "You said: number 1 ",
    ]


@pytest.mark.parametrize("scenario", ["case_c", "background_agent"])
async def test_what_follows_a_background_agent_belongs_to_the_conversation(scenario: str) -> None:
    calls = []

    @agentrt.tool
    async def record(summary: str) -> str:
        """Persist the outcome."""
        await trio.lowlevel.checkpoint()
        calls.append(summary)
        return "ok"

    query = await ask(scenario, "dig", tools=[record])
    assert texts(query) == ["Agent started.", "Agent finished."]
    assert calls == (["it"] if scenario == "case_c" else [])
    assert len(query.results) == 1  # one for each prompt, not one for each turn


@pytest.mark.slow
async def test_what_follows_a_background_shell_belongs_to_the_conversation() -> None:
    query = await ask("late_shell")
    assert texts(query) == ["Shell started.", "Shell finished."]
    assert [task.status for task in query.session.background_tasks.values()] == ["completed"]
    assert await codes(query) == ["waiting"]


async def test_a_shell_that_nobody_cares_for_does_not_hold_it_for_ever() -> None:
    query = await ask("shell_nobody_cares_for", limits=structs.replace(NEVER, end_silence_s=0.3))
    assert texts(query) == ["Shell started."]


async def test_a_shell_that_never_ends_holds_it_no_longer_than_the_limit() -> None:
    query = await ask("endless_shell", limits=structs.replace(NEVER, drain_timeout_s=0.3))
    assert texts(query) == ["Shell started."]
    assert [task.status for task in query.session.background_tasks.values()] == ["orphaned"]
    assert await codes(query) == ["waiting", "not_waited_for"]


async def test_leaving_a_session_waits_for_a_shell_no_longer_than_the_limit() -> None:
    async with session("endless_shell", limits=structs.replace(NEVER, drain_timeout_s=0.3)) as s:
        told = s.subscribe(after=0)
        await s.run("go")
    notices = [event async for event in told if isinstance(event, agentrt.Notice)]
    assert [notice.message for notice in notices] == [
        "waiting for background work, 0.3 s at most: make",
        "background work took over 0.3 s: make",
    ]
    assert [notice.data for notice in notices] == [{"tasks": ["b1"]}] * 2


async def test_leaving_the_block_early_ends_the_session_now() -> None:
    agent = agentrt.agents.claude([sys.executable, FAKE, "endless_shell"])
    with trio.fail_after(20):
        async with agentrt.query("go", agent=agent, limits=NEVER) as query:
            async for event in query:
                if isinstance(event, agentrt.TurnEnded):
                    break
    assert query.session.state.phase == "closed"


async def test_a_query_whose_prompts_fail_raises_that_and_ends() -> None:
    def prompts() -> Iterator[str]:
        yield "hello"
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        await ask("plain", prompts())


@pytest.mark.parametrize("answer", ["allow_once", None])
async def test_the_reader_of_a_query_is_asked_where_there_is_no_policy(answer: str | None) -> None:
    agent = agentrt.agents.claude([sys.executable, FAKE, "permission"])
    closed = []
    with trio.fail_after(20):
        async with agentrt.query("go", agent=agent, limits=NEVER) as query:
            async for event in query:
                if isinstance(event, agentrt.PermissionOpened) and answer is not None:
                    query.session.answer(event, answer)
                elif isinstance(event, agentrt.events.PermissionClosed):
                    closed.append((event.outcome, event.by))
    assert closed == [("selected", "unattended" if answer is None else "user")]
    assert len(query.results[0].denials) == (answer is None)
