"""What somebody has set holds for every process of the session."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes import SETTABLE, Incarnations, log_of, session_with, settable
from trio.testing import MockClock

import agentrt
from agentrt.testing import FakeAcpAgent


def told(agents: Incarnations) -> list[dict[str, Any]]:
    """The settings that the newest process was told of."""
    return [
        {k: v for k, v in message["params"].items() if k != "sessionId"}
        for message in agents.agents[-1].received
        if message.get("method", "").startswith("session/set_")
    ]


async def test_a_new_process_gets_what_was_set_on_the_old_one(autojump_clock: MockClock) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, agents):
        await session.set_mode("plan")
        await session.set_model("large")
        await session.set_option("effort", "high")
        await session.run("one")
        agents.processes[0].exit(1)
        await trio.sleep(10)
        assert (await session.run("two")).text == "two"
        assert len(agents.processes) == 2
        assert told(agents) == [
            {"modelId": "large"},
            {"modeId": "plan"},
            {"configId": "effort", "value": "high"},
        ]
        modes = session.modes
        assert modes is not None
        assert (modes.mode, modes.model) == ("plan", "large")


async def test_what_is_set_while_no_process_runs_is_shown_and_holds_from_the_next_one_on(
    autojump_clock: MockClock,
) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, agents):
        await session.run("one")
        agents.processes[0].exit(0)
        await trio.sleep(10)
        await session.set_mode("Plan only")
        await session.set_option("effort", "high")
        assert session.state.phase == "dead"
        modes = session.modes
        assert modes is not None
        assert (modes.mode, modes.options[0].value) == ("plan", "high")
        assert len(agents.processes) == 1
        assert (await session.run("two")).text == "two"
        assert told(agents) == [{"modeId": "plan"}, {"configId": "effort", "value": "high"}]


async def test_what_the_agent_does_not_offer_is_refused_also_while_none_runs(
    autojump_clock: MockClock,
) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, agents):
        await session.run("one")
        agents.processes[0].exit(0)
        await trio.sleep(10)
        before = len(log_of(session))
        for change in (
            session.set_mode("yolo"),
            session.set_model("huge"),
            session.set_option("effort", "none"),
            session.set_option("effort", True),
            session.set_option("nothing", "low"),
        ):
            with pytest.raises(agentrt.AgentrtError, match=r"the agent has no|is not a switch"):
                await change
        assert len(log_of(session)) == before
        assert (await session.run("two")).text == "two"
        assert told(agents) == []


async def test_what_an_agent_has_refused_is_not_asked_of_the_next_one(
    autojump_clock: MockClock,
) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, agents):
        with pytest.raises(agentrt.errors.RequestError):
            await session.set_mode("yolo")
        agents.processes[0].exit(0)
        await trio.sleep(10)
        await session.run("two")
        assert told(agents) == []


async def test_a_change_while_the_agent_is_started_again_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, agents):
        await session.run("one")
        agents.processes[0].exit(0)
        await trio.sleep(10)
        turn = session.submit("two")
        await trio.testing.wait_all_tasks_blocked()
        await session.set_mode("plan")
        assert told(agents) == [{"modeId": "plan"}]
        await trio.sleep(10)
        assert turn.result.text == "two"


async def test_a_closed_session_takes_no_setting(autojump_clock: MockClock) -> None:
    async with session_with(settable, fake=SETTABLE) as (session, _):
        await session.aclose()
        with pytest.raises(agentrt.SessionClosed):
            await session.set_mode("plan")


async def test_a_caller_that_gives_up_leaves_a_session_that_works(
    autojump_clock: MockClock,
) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        await trio.sleep_forever()

    async with session_with(slow, fake=SETTABLE) as (session, _):
        with trio.move_on_after(1) as scope:
            await session.set_mode("plan")
        assert scope.cancelled_caught
        assert session.state.phase == "idle"


@pytest.mark.parametrize(
    ("setting", "method", "change"),
    [
        ("mode", "session/set_mode", lambda session: session.set_mode("plan")),
        ("model", "session/set_model", lambda session: session.set_model("large")),
        (
            "effort",
            "session/set_config_option",
            lambda session: session.set_option("effort", "high"),
        ),
    ],
)
@pytest.mark.parametrize("refuses", [False, True])
async def test_a_late_answer_to_a_change_counts_and_until_then_it_is_unconfirmed(
    autojump_clock: MockClock, setting: str, method: str, change: Any, refuses: bool
) -> None:
    async def late(agent: FakeAcpAgent) -> None:
        async for request in agent.requests:
            assert request["method"] == method
            await trio.sleep(60)
            if refuses:
                agent.error(request["id"], -32000, "not now")
            else:
                agent.result(request["id"], {})

    async with session_with(late, fake=SETTABLE) as (session, agents):
        before = settings_of(session)
        with trio.move_on_after(1) as scope:
            await change(session)
        assert scope.cancelled_caught
        assert session.modes is not None
        assert session.modes.unconfirmed == [setting]
        assert settings_of(session) == before
        await trio.sleep(120)
        assert session.modes.unconfirmed == []
        assert (settings_of(session) == before) == refuses
        assert agents.sent("$/cancel_request") == []
        codes = [e.code for e in log_of(session) if isinstance(e, agentrt.Notice)]
        assert ("setting_refused" in codes) == refuses


async def test_what_is_unconfirmed_is_so_no_longer_when_the_agent_is_gone(
    autojump_clock: MockClock,
) -> None:
    async def silent(agent: FakeAcpAgent) -> None:
        await trio.sleep_forever()

    async with session_with(silent, fake=SETTABLE) as (session, agents):
        with trio.move_on_after(1):
            await session.set_mode("plan")
        agents.processes[0].exit(1)
        await trio.sleep(1)
        assert session.modes is not None
        assert (session.modes.mode, session.modes.unconfirmed) == ("write", [])


def settings_of(session: agentrt.Session) -> tuple[object, ...]:
    assert session.modes is not None
    return session.modes.mode, session.modes.model, session.modes.options[0].value
