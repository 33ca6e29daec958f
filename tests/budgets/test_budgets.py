"""`agentrt.budget`: money, tokens, turns and time of all turns in a block."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import agentrt
import agentrt.agents
from agentrt.errors import BudgetExceeded
from agentrt.events import Notice
from agentrt.telemetry import AuditLog, read_audit
from agentrt.testing import FakeAcpAgent
from agentrt.unattended import fail_on_budget
from agentrt.web import Tenant
from runtime.child_programs import until
from runtime.fakes import echo, log_of, obedient, session_with

RECORDING = Path(__file__).parents[1] / "terminal" / "recording_claude.py"


def cost(agent: FakeAcpAgent, total: float, currency: str = "USD") -> None:
    """Report what the conversation has cost so far."""
    agent.update("usage_update", used=1, size=10, cost={"amount": total, "currency": currency})


def spending(*totals: float, currency: str = "USD", tokens: int | None = None) -> Any:
    """An agent whose turns each report the next total, at their end."""

    async def script(agent: FakeAcpAgent) -> None:
        left = list(totals)
        async for prompt in agent.prompts:
            agent.say("partial")
            if left:
                cost(agent, left.pop(0), currency)
            usage = {"inputTokens": tokens, "outputTokens": 0, "totalTokens": tokens}
            prompt.end(**({"usage": usage} if tokens is not None else {}))

    return script


async def over_by_the_way(agent: FakeAcpAgent) -> None:
    """Reports its cost in the middle of a turn, and works until it is cancelled."""
    async for prompt in agent.prompts:
        agent.say("partial answer")
        cost(agent, 7.5)
        await prompt.cancelled.wait()
        prompt.end("cancelled")


def codes(session: agentrt.Session) -> list[str]:
    return [e.code for e in log_of(session) if isinstance(e, Notice)]


async def test_a_turn_is_cancelled_when_the_money_is_used_up_and_keeps_its_answer() -> None:
    with agentrt.budget(usd=5) as spent:
        async with session_with(over_by_the_way) as (session, _):
            result = await session.run("work")
            assert (result.outcome, result.by, result.text) == (
                "cancelled",
                "budget",
                "partial answer",
            )
            assert result.error is not None
            assert result.error.code == "budget_exceeded"
            assert result.error.data["limit"] == "usd"
            assert result.error.data["budget"]["spent_usd"] == 7.5
            with pytest.raises(BudgetExceeded, match=r"7.5 of 5 USD") as refused:
                await session.run("more")
            assert refused.value.limit == "usd"
    assert (spent.spent_usd, spent.exceeded, spent.spent_turns) == (7.5, "usd", 1)


async def test_a_refused_prompt_is_not_sent_and_the_session_is_usable_afterwards() -> None:
    async with session_with(spending(0.25, 0.5)) as (session, agents):
        with agentrt.budget(usd=0.5) as spent:
            assert (await session.run("a")).outcome == "completed"
            assert (await session.run("b")).by == "budget"
            with pytest.raises(BudgetExceeded):
                session.submit("c")
        assert spent.spent_usd == 0.5
        assert len(agents.sent("session/prompt")) == 2
        assert (await session.run("outside")).outcome == "completed"


async def test_the_totals_of_a_new_process_do_not_make_the_money_spent_smaller() -> None:
    async with session_with(spending(1.0, 2.0, 0.5, 0.75)) as (session, _):
        with agentrt.budget(usd=100) as spent:
            for _ in range(4):
                await session.run("x")
        assert spent.spent_usd == 2.75


async def test_the_money_of_two_sessions_adds_up_and_ends_the_turns_of_both() -> None:
    with agentrt.budget(usd=10) as spent:
        async with (
            session_with(obedient) as (idle, _),
            session_with(over_by_the_way) as (one, _),
            session_with(over_by_the_way, id="two") as (two, _),
        ):
            waiting = idle.submit("wait")
            first = one.submit("a")
            second = two.submit("b")
            for session in (idle, one, two):
                await session.wait_idle()
            assert waiting.result.by == "budget"
            assert {first.result.by, second.result.by} == {"budget"}
    assert spent.spent_usd == 15


async def test_money_that_is_spent_exactly_in_many_pieces_is_used_up() -> None:
    with agentrt.budget(usd=1) as spent:
        for _ in range(10):
            async with session_with(spending(0.1)) as (session, _):
                await session.run("work")
        assert spent.spent_usd < 1  # as floats add up
        assert spent.exceeded == "usd"


@pytest.mark.parametrize("wrong", [-100.0, -1e308, 1e308])
async def test_wrong_money_of_an_agent_makes_nothing_smaller_and_is_charged_once(
    wrong: float,
) -> None:
    with agentrt.budget(usd=2**53) as spent:
        async with session_with(spending(3, wrong, 4)) as (session, _):
            seen = []
            for _ in range(3 if wrong < 0 else 2):
                await session.run("work")
                seen.append(spent.spent_usd)
    assert seen == ([3, 3, 4] if wrong < 0 else [3, 2**53])
    assert spent.exceeded == (None if wrong < 0 else "usd")


@pytest.mark.parametrize("wrong", [-100, 10**25, int("9" * 4300)])
async def test_wrong_tokens_of_an_agent_do_not_disturb_the_session(wrong: int) -> None:
    with agentrt.budget(tokens=1000) as spent:
        async with session_with(spending(tokens=wrong)) as (session, _):
            assert (await session.run("work")).outcome == "completed"
    assert spent.spent_tokens == (0 if wrong < 0 else 2**53)
    assert spent.unmeasured == (frozenset({"tokens"}) if wrong < 0 else frozenset())


async def test_a_budget_whose_block_was_left_limits_no_new_process() -> None:
    claude = agentrt.agents.claude([sys.executable, str(RECORDING)])
    async with agentrt.open_runtime() as runtime:
        with agentrt.budget(usd=5):
            session = await runtime.create(claude)
            first = (await session.run("go")).text
        assert session.agent.pid is not None
        os.kill(session.agent.pid, signal.SIGKILL)
        await until(lambda: session.state.phase == "dead")
        second = (await session.run("go")).text
    assert "--max-budget-usd=5.0" in first
    assert "--max-budget-usd" not in second


async def test_euros_are_not_added_to_dollars_and_that_is_reported() -> None:
    async with session_with(spending(3.0, currency="EUR")) as (session, _):
        with agentrt.budget(usd=1) as spent:
            assert (await session.run("a")).outcome == "completed"
        assert (spent.spent_usd, spent.unmeasured) == (0, {"usd"})
        assert codes(session).count("budget_unmeasured") == 1


async def test_a_sum_without_the_cost_of_one_agent_is_shown_as_a_minimum() -> None:
    with agentrt.budget(usd=10) as outer, agentrt.budget(usd=9, turns=8) as inner:
        async with session_with(spending(3.0)) as (first, _), session_with(echo) as (other, _):
            await first.run("a")
            assert str(inner.status()).startswith("3 of 9 USD, 1 of 8 turns")
            await other.run("b")
            notices = [e for e in log_of(other) if isinstance(e, Notice)]
    assert str(outer.status()) == "at least 3 of 10 USD"
    assert str(inner.status()) == "at least 3 of 9 USD, 2 of 8 turns"
    [told] = [each for each in notices if each.code == "budget_spent"]
    assert told.message == "budget: at least 3 of 10 USD; at least 3 of 9 USD, 2 of 8 turns"


async def test_an_agent_that_reports_nothing_can_be_stopped_after_its_first_turn() -> None:
    async with session_with(echo) as (session, _):
        with agentrt.budget(tokens=10, unmeasured="stop") as spent:
            await session.run("a")
            with pytest.raises(BudgetExceeded, match="does not report that"):
                await session.run("b")
        assert spent.exceeded == "unmeasured"


async def test_tokens_are_limited() -> None:
    async with session_with(spending(tokens=60)) as (session, _):
        with agentrt.budget(tokens=100) as spent:
            await session.run("a")
            await session.run("b")
            with pytest.raises(BudgetExceeded, match="120 of 100 tokens"):
                await session.run("c")
        assert spent.spent_tokens == 120


async def test_turns_are_limited_and_the_last_one_runs_to_its_end() -> None:
    async with session_with(echo) as (session, _):
        with agentrt.budget(turns=2) as spent:
            assert (await session.run("a")).text == "a"
            assert (await session.run("b")).text == "b"
            with pytest.raises(BudgetExceeded, match="2 of 2 turns"):
                await session.run("c")
        assert spent.exceeded == "turns"


async def test_a_queued_prompt_is_dropped_when_its_budget_is_used_up() -> None:
    async with session_with(over_by_the_way) as (session, _):
        with agentrt.budget(usd=5):
            session.submit("a")
            queued = session.submit("b")
            await session.wait_idle()
        assert isinstance(queued.failure, BudgetExceeded)
        assert "prompt_dropped" in codes(session)


async def test_the_time_of_a_budget_ends_a_turn_also_while_a_person_is_asked(
    autojump_clock: MockClock,
) -> None:
    async def asking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end("cancelled")

    async with session_with(asking, permissions=agentrt.ask) as (session, _):
        start = trio.current_time()
        with agentrt.budget(seconds=30) as spent:
            result = await session.run("a")
            assert (result.by, spent.exceeded) == ("budget", "seconds")
            assert trio.current_time() - start == pytest.approx(30, abs=2)
            with pytest.raises(BudgetExceeded, match="seconds"):
                await session.run("b")


async def test_the_inner_budget_ends_its_own_turns_only(autojump_clock: MockClock) -> None:
    async with session_with(obedient) as (session, _):
        with agentrt.budget(seconds=100) as outer:
            with agentrt.budget(seconds=10) as inner:
                assert (await session.run("a")).by == "budget"
            assert (inner.exceeded, outer.exceeded) == ("seconds", None)
            assert (await session.run("b")).by == "budget"
            assert outer.exceeded == "seconds"
        assert (inner.spent_turns, outer.spent_turns) == (1, 2)


async def test_a_task_started_in_the_block_belongs_to_it_and_others_do_not() -> None:
    async with session_with(spending(1.0, 2.0, 3.0)) as (session, _):
        async with trio.open_nursery() as nursery:
            with agentrt.budget(usd=9) as spent:
                await session.run("in the block")
                async with trio.open_nursery() as inner:  # noqa: ASYNC112 (a task of the block)
                    inner.start_soon(session.run, "in a task of the block")
            nursery.start_soon(session.run, "outside")
        assert (spent.spent_usd, spent.spent_turns) == (2.0, 2)


async def test_a_sessions_own_budget_counts_all_its_turns_whoever_starts_them() -> None:
    spent = agentrt.budget(turns=2)
    async with session_with(echo, budget=spent) as (session, _):
        await session.run("a")
        async with trio.open_nursery() as nursery:  # noqa: ASYNC112 (a task of its own)
            nursery.start_soon(session.run, "b")
        with pytest.raises(BudgetExceeded):
            await session.run("c")
    assert spent.exceeded == "turns"


async def test_what_is_spent_is_in_the_log_after_each_turn() -> None:
    async with session_with(spending(0.25)) as (session, _):
        with agentrt.budget(usd=5, turns=20):
            await session.run("a")
        [notice] = [
            e for e in log_of(session) if isinstance(e, Notice) and e.code == "budget_spent"
        ]
        assert notice.message == "budget: 0.25 of 5 USD, 1 of 20 turns"
        assert notice.data[0]["spent_usd"] == 0.25


async def test_a_budget_can_be_used_once() -> None:
    with agentrt.budget(turns=1) as spent:
        pass
    with pytest.raises(agentrt.LocalProtocolError, match="used once"):
        spent.__enter__()


@pytest.mark.parametrize(
    "limits",
    [
        {name: value}
        for name in ("usd", "tokens", "turns", "seconds")
        for value in (0, -1, float("inf"), float("nan"), "5", True, 10**400, 10**309)
    ]
    + [{"tokens": 1.5}, {"turns": 0.1}],
    ids=lambda limits: "".join(f"{name}-{value!s:.8}" for name, value in limits.items()),
)
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be a"):
        agentrt.budget(**limits)


@pytest.mark.parametrize("unit", ["usd", "tok", "ktok", "Mtok", "turns", "s", "min", "h"])
def test_a_text_with_a_number_that_is_too_large_is_refused(unit: str) -> None:
    digits = "9" * 400
    with pytest.raises(ValueError, match="too large for a budget"):
        Tenant(name="a", budget=f"{digits}{unit}")


@pytest.mark.parametrize("events", [0, float("nan"), float("inf"), "3", True, 10**400])
def test_a_rate_of_a_tenant_that_makes_no_sense_is_refused(events: Any) -> None:
    with pytest.raises(ValueError, match="events must be"):
        Tenant(name="a", events=events)


async def test_a_budget_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"agentrt.budget\(…\)"):
        async with agentrt.open_session("demo", budget=5):  # type: ignore[arg-type]
            pass


# --- a budget that raises


async def overspend(error: Exception | None = None) -> None:
    """Reach the limit of a block, and leave the block normally or by an error."""
    with fail_on_budget(usd=5):
        async with session_with(over_by_the_way) as (session, _):
            result = await session.run("work")
            assert (result.outcome, result.text) == ("cancelled", "partial answer")
        if error is not None:
            raise error


async def test_a_block_that_reached_a_limit_raises_when_it_is_left() -> None:
    with pytest.raises(BudgetExceeded) as raised:
        await overspend()
    assert raised.value.limit == "usd"


async def test_another_error_is_not_replaced() -> None:
    with pytest.raises(KeyError):
        await overspend(KeyError("mine"))


async def test_a_block_within_its_limits_does_not_raise() -> None:
    with fail_on_budget(usd=5) as spent:
        async with session_with(spending(0.5)) as (session, _):
            await session.run("work")
    assert spent.spent_usd == 0.5


async def test_viewers_and_the_audit_learn_that_a_prompt_was_refused(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    with agentrt.budget(turns=1):
        async with session_with(echo, telemetry=audit) as (session, _):
            await session.run("first")
            for _ in range(3):
                with pytest.raises(BudgetExceeded):
                    await session.run("more")
    [notice] = [e for e in log_of(session) if isinstance(e, Notice) and e.code == "budget_refused"]
    assert notice.data["limit"] == "turns"
    [record] = [each for each in read_audit(audit.path) if each.code == "budget_refused"]
    assert record.title == "a prompt was not sent: the budget is used up (turns): 1 of 1 turns"
