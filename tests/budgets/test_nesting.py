"""Nested budgets, compared with a model that only adds up."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import agentrt
from agentrt.errors import BudgetExceeded
from agentrt.testing import FakeAcpAgent
from agentrt.unattended import Budget
from runtime.fakes import session_with

CENTS = st.integers(1, 40)
ENTER = st.tuples(
    st.just("enter"),
    st.none() | st.integers(20, 100),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(50, 200),
)
STEPS = st.lists(
    st.one_of(
        ENTER,
        st.tuples(st.just("leave")),
        st.tuples(st.just("turn"), CENTS),
        st.tuples(st.just("turn"), CENTS),
        st.tuples(st.just("wait"), st.integers(1, 60)),
    ),
    max_size=30,
)


@dataclass
class Expected:
    """What a budget should have spent, in cents and turns, and when it is over."""

    real: Budget
    cents: int | None
    turns: int | None
    ends_at: float
    spent: int = 0
    started: int = 0
    over: bool = False


async def priced(agent: FakeAcpAgent) -> None:
    """Each prompt is its price in cents, and is reported before the turn ends."""
    total = 0
    async for prompt in agent.prompts:
        total += int(prompt.text)
        price = {"amount": total / 100, "currency": "USD"}
        agent.update("usage_update", used=1, size=2, cost=price)
        await trio.sleep(0.001)
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


async def carry_out(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    async with session_with(priced) as (session, _):
        with ExitStack() as stack:
            blocks: list[tuple[Expected, ExitStack]] = []
            every: list[Expected] = []
            for step in steps:
                match step:
                    case ("enter", cents, turns, seconds):
                        usd = None if cents is None else cents / 100
                        real = agentrt.budget(usd=usd, turns=turns, seconds=seconds)
                        block = stack.enter_context(ExitStack())
                        block.enter_context(real)
                        ends_at = trio.current_time() + (seconds or float("inf"))
                        blocks.append((Expected(real, cents, turns, ends_at), block))
                        every.append(blocks[-1][0])
                    case ("leave",) if blocks:
                        blocks.pop()[1].close()
                    case ("wait", seconds):
                        await trio.sleep(seconds)
                    case ("turn", cents):
                        await turn(session, cents, [each for each, _ in blocks])
                for each in every:
                    assert round(each.real.spent_usd * 100) == each.spent
                    assert each.real.spent_turns == each.started


async def turn(session: agentrt.Session, cents: int, around: list[Expected]) -> None:
    for each in around:
        each.over |= trio.current_time() >= each.ends_at
        each.over |= each.turns is not None and each.started >= each.turns
        if each.over:
            with pytest.raises(BudgetExceeded):
                await session.run(str(cents))
            assert each.real.exceeded is not None
            return
    result = await session.run(str(cents))
    for each in around:
        each.started += 1
        each.spent += cents
        each.over |= each.cents is not None and each.spent >= each.cents
    assert (result.by == "budget") == any(each.over for each in around)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_budget_around_a_turn_is_charged_and_no_other(
    steps: list[tuple],  # type: ignore[type-arg]
) -> None:
    trio.run(carry_out, steps, clock=MockClock(autojump_threshold=0))


async def test_nested_budgets_add_up_in_a_few_steps(autojump_clock: MockClock) -> None:
    steps = [("enter", 50, 4, None), ("turn", 20), ("enter", 25, 1, 60), ("turn", 10)]
    more = [("turn", 1), ("leave",), ("turn", 20), ("turn", 1)]
    await carry_out([*steps, *more])
