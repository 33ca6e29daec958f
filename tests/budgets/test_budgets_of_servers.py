"""Budgets of a runtime and of its tenants."""

from __future__ import annotations

import pytest

import agentrt
from agentrt.config import load_config
from agentrt.errors import BudgetExceeded
from agentrt.unattended import budget_from
from agentrt.web import Tenant

pytestmark = pytest.mark.usefixtures("forked_demo")


@pytest.mark.slow
async def test_a_tenants_budget_counts_its_sessions_and_no_others() -> None:
    async with agentrt.open_runtime() as runtime:
        acme = runtime.of(Tenant(name="acme", budget="2turns"))
        one, two = await acme.create("demo"), await acme.create("demo")
        await one.run("hi")
        await two.run("hi")
        with pytest.raises(BudgetExceeded, match="2 of 2 turns"):
            await one.run("hi")
        assert [info.budget for info in acme.list()] == ["2 of 2 turns"] * 2
        with pytest.raises(BudgetExceeded):
            await (await runtime.of(Tenant(name="acme", budget="2turns")).create("demo")).run("hi")
        await (await runtime.create("demo")).run("hi")


@pytest.mark.slow
async def test_a_runtimes_budget_counts_all_sessions() -> None:
    spent = agentrt.budget(turns=1)
    async with agentrt.open_runtime(budget=spent) as runtime:
        session = await runtime.create("demo")
        await session.run("hi")
        with pytest.raises(BudgetExceeded):
            await (await runtime.create("demo")).run("hi")


def test_a_budget_in_the_configuration_is_checked() -> None:
    config = load_config(env={}, flags={"unattended": {"budget": "5usd, 2Mtok"}})
    parsed = budget_from(config.unattended.budget)
    assert parsed is not None
    assert (parsed.usd, parsed.tokens, parsed.turns) == (5, 2_000_000, None)
    with pytest.raises(agentrt.AgentrtError, match=r"unattended.budget: '5 bananas'"):
        load_config(env={}, flags={"unattended": {"budget": "5 bananas"}})
    with pytest.raises(ValueError, match="is not a limit"):
        Tenant(name="acme", budget="lots")
