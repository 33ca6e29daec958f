"""A turn is a nursery with a cancel scope, and a program can use both."""

from __future__ import annotations

import math

import pytest
import trio
from fakes import Incarnations, asking, echo, obedient, session_with, unresponsive

import agentrt
import agentrt.testing
from agentrt.testing import FakeAcpAgent


class BrokenError(Exception):
    pass


async def until_cancelled(ended: list[float]) -> None:
    try:
        await trio.sleep_forever()
    finally:
        ended.append(trio.current_time())


async def test_what_runs_in_a_turn_s_nursery_is_cancelled_when_the_turn_ends(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(5)
            prompt.end()

    ended: list[float] = []
    async with session_with(slow) as (session, _):
        async with session.prompt("go") as turn:
            turn.nursery.start_soon(until_cancelled, ended)
        assert ended == [5.0]
        assert turn.result.outcome == "completed"


async def test_the_next_turn_starts_when_the_last_one_s_tasks_are_over(
    autojump_clock: trio.abc.Clock,
) -> None:
    begun: list[int] = []

    async def lingering() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            begun.append(len(session.snapshot().turns))

    async with session_with(echo) as (session, _), trio.open_nursery() as nursery:
        async with session.prompt("one") as turn:
            turn.nursery.start_soon(lingering)
            nursery.start_soon(session.run, "two")
        await session.wait_idle()
        assert begun == [1]
        assert len(session.snapshot().turns) == 2


async def test_the_handlers_of_a_turn_run_in_its_nursery(
    autojump_clock: trio.abc.Clock,
) -> None:
    inside: list[int] = []

    async with session_with(asking, permissions=lambda request: decide(request)) as (session, _):

        async def decide(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
            inside.append(len(turn.nursery.child_tasks))
            return agentrt.Allow()

        async with session.prompt("go") as turn:
            assert len(turn.nursery.child_tasks) == 0
            async for _event in turn:
                pass
    assert inside == [1]
    assert turn.result.text == "yes"


async def test_cancelling_a_turn_s_scope_cancels_the_turn_and_the_agent_is_notified(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        async with session.prompt("go") as turn:
            turn.cancel_scope.cancel()
        assert (turn.result.outcome, turn.result.by) == ("cancelled", "caller")
        assert len(agents.sent("session/cancel")) == 1
        assert (
            await session.run("again", limits=agentrt.Limits(turn_timeout_s=1), check=False)
        ).outcome


async def test_cancelling_its_nursery_s_scope_does_the_same(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        async with session.prompt("go") as turn:
            turn.nursery.cancel_scope.cancel()
        assert turn.result.outcome == "cancelled"
        assert len(agents.sent("session/cancel")) == 1


async def test_a_turn_s_cancel_reaches_what_runs_in_its_nursery_at_once(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def stubborn(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            await trio.sleep(7)
            prompt.end("cancelled")

    ended: list[float] = []
    async with session_with(stubborn) as (session, _):
        async with session.prompt("go") as turn:
            turn.nursery.start_soon(until_cancelled, ended)
            await trio.sleep(1)
            turn.cancel()
        assert ended == [1.0]
        assert trio.current_time() == 8.0


@pytest.mark.parametrize("looked", [False, True])
async def test_the_deadline_of_the_scope_is_the_hard_limit(
    autojump_clock: trio.abc.Clock, looked: bool
) -> None:
    async with session_with(obedient) as (session, _):
        async with session.prompt(
            "go", limits=agentrt.Limits(turn_timeout_s=30), check=False
        ) as turn:
            if looked:
                assert turn.cancel_scope.deadline == 30.0
        assert turn.result.outcome == "timed_out"
        assert turn.result.error is not None
        assert turn.result.error.data == {"limit": "hard"}
        assert turn.result.duration == 30.0


@pytest.mark.parametrize(("at", "took"), [(100.0, 100.0), (3.0, 3.0)])
async def test_moving_the_deadline_moves_the_hard_limit(
    autojump_clock: trio.abc.Clock, at: float, took: float
) -> None:
    async with session_with(obedient) as (session, _):
        async with session.prompt(
            "go", limits=agentrt.Limits(turn_timeout_s=30), check=False
        ) as turn:
            turn.cancel_scope.deadline = at
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", took)


@pytest.mark.parametrize("at", [-math.inf, 3.0])
async def test_a_moved_deadline_is_not_said_to_be_the_limit_of_before(
    autojump_clock: trio.abc.Clock, at: float
) -> None:
    async with session_with(obedient) as (session, _):
        async with session.prompt(
            "go", limits=agentrt.Limits(turn_timeout_s=30), check=False
        ) as turn:
            turn.cancel_scope.deadline = at
        assert turn.result.error is not None
        assert turn.result.error.message == "the turn reached its hard limit"


async def test_a_deadline_that_is_moved_while_a_person_is_asked_stays(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def asking_first(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    limits = agentrt.Limits(turn_timeout_s=100)
    async with session_with(asking_first, permissions=agentrt.ask) as (session, _):
        async with session.prompt("go", limits=limits, check=False) as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    assert turn.cancel_scope.deadline == math.inf
                    turn.cancel_scope.deadline = 30.0
                    await trio.sleep(7)
                    turn.answer(event.request, "allow_once")
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", 30.0)


async def test_a_turn_without_a_hard_limit_can_be_given_one(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, _):
        async with session.prompt(
            "go", limits=agentrt.Limits(turn_timeout_s=None), check=False
        ) as turn:
            assert turn.cancel_scope.deadline == math.inf
            turn.cancel_scope.deadline = trio.current_time() + 9
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", 9.0)


async def test_viewers_see_the_deadline_that_was_moved(autojump_clock: trio.abc.Clock) -> None:
    async def talking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(4):
                await trio.sleep(1)
                agent.say("…")
            prompt.end()

    async with (
        session_with(talking) as (session, _),
        session.prompt("go", limits=agentrt.Limits(turn_timeout_s=30)) as turn,
    ):
        turn.cancel_scope.deadline += 1000
        await trio.sleep(2)
        state = session.state.turn
        assert state is not None
        assert state.deadline is not None
        assert 1029 < state.deadline - state.since < 1031


async def test_an_error_of_a_task_cancels_the_turn_and_is_raised_by_its_block(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def broken() -> None:
        await trio.sleep(1)
        raise BrokenError

    async with session_with(obedient) as (session, agents):
        with pytest.raises(BrokenError):
            async with session.prompt("go") as turn:
                turn.nursery.start_soon(broken)
        assert turn.result.outcome == "cancelled"
        assert len(agents.sent("session/cancel")) == 1
        async with session.prompt("again") as turn:
            turn.cancel()


async def test_an_error_in_a_turn_that_nobody_waits_for_is_the_session_s(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def broken() -> None:
        raise BrokenError

    async def a_session_with_one() -> None:
        async with session_with(obedient) as (session, _):
            session.submit("go").nursery.start_soon(broken)
            await trio.sleep_forever()

    with pytest.raises(BrokenError):
        await a_session_with_one()


async def test_a_turn_has_its_nursery_only_while_it_runs(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(echo) as (session, _):
        turn = session.prompt("go")
        with pytest.raises(agentrt.LocalProtocolError, match="is not running"):
            _ = turn.nursery
        async with turn:
            nursery, scope = turn.nursery, turn.cancel_scope
            assert (turn.nursery, turn.cancel_scope) == (nursery, scope)
        with pytest.raises(agentrt.LocalProtocolError, match="is not running"):
            _ = turn.cancel_scope


async def test_each_of_many_turns_has_a_nursery_of_its_own(autojump_clock: trio.abc.Clock) -> None:
    seen = []
    async with session_with(echo) as (session, _):
        for _ in range(5):
            async with session.prompt("go") as turn:
                seen.append(turn.nursery)
    assert len(set(map(id, seen))) == 5


async def test_a_cancel_that_is_ignored_ends_what_runs_in_the_nursery_all_the_same(
    autojump_clock: trio.abc.Clock,
) -> None:
    ended: list[float] = []
    limits = agentrt.Limits(turn_timeout_s=5, cancel_grace_s=2)
    async with session_with(unresponsive, echo, limits=limits) as (session, _):
        async with session.prompt("go", check=False) as turn:
            turn.nursery.start_soon(until_cancelled, ended)
        assert turn.result.outcome == "timed_out"
        assert ended == [5.0]
        assert (await session.run("again")).text == "again"


async def test_the_session_s_end_ends_them(autojump_clock: trio.abc.Clock) -> None:
    ended: list[float] = []
    incarnations = Incarnations(obedient)
    async with agentrt.testing.open_fake_session(incarnations.start) as session:
        turn = session.submit("go")
        turn.nursery.start_soon(until_cancelled, ended)
        await trio.sleep(1)
        await session.aclose()
        assert ended == [1.0]
