"""Permission requests: who may answer them, and what happens when nobody does."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes import asking, every, log_of, session_with

import agentrt
from agentrt.testing import FakeAcpAgent


@pytest.mark.door("python", "permission")
async def test_the_turn_s_reader_may_answer(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(asking) as (session, _), session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                assert session.state.phase == "waiting"
                turn.answer(event.request, "allow_once")
    assert turn.result.text == "yes"


async def test_a_question_that_the_reader_passes_by_is_rejected(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking) as (session, _), session.prompt("go") as turn:
        await every(turn)
    assert turn.result.text == "no"


async def test_without_a_reader_and_a_policy_every_question_is_rejected(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking) as (session, _):
        assert (await session.run("go")).text == "no"
        async with session.prompt("go") as turn:
            pass
        assert turn.result.text == "no"


@pytest.mark.parametrize(
    ("policy", "outcome", "by"),
    [(agentrt.allow_all, "cancelled", "agent"), (agentrt.deny_all, "completed", None)],
)
async def test_a_turn_that_its_agent_calls_cancelled_because_of_a_denial_is_completed(
    autojump_clock: trio.abc.Clock, policy: agentrt.Policy, outcome: str, by: str | None
) -> None:
    async def calls_it_cancelled(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end("cancelled")

    async with session_with(calls_it_cancelled, permissions=policy) as (session, _):
        result = await session.run("go")
    assert (result.outcome, result.by, result.stop_reason) == (outcome, by, "cancelled")


@pytest.mark.parametrize(
    ("policy", "chosen"), [(agentrt.allow_all, "yes"), (agentrt.deny_all, "no")]
)
async def test_a_policy_decides_at_once(
    autojump_clock: trio.abc.Clock, policy: agentrt.Policy, chosen: str
) -> None:
    async with session_with(asking, permissions=policy) as (session, _):
        assert (await session.run("go")).text == chosen


async def test_a_denial_may_end_the_turn_with_every_agent(autojump_clock: trio.abc.Clock) -> None:
    def stop(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Deny(interrupt=True)

    async with session_with(asking, permissions=stop) as (session, agents):
        result = await session.run("go")
        said = [message.get("method") for message in agents.agents[0].received]
    assert (result.outcome, result.by) == ("cancelled", "caller")
    assert said.count("session/cancel") == 1


async def test_a_question_left_open_waits_for_anybody_s_answer(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with (
        session_with(asking, permissions=agentrt.ask) as (session, _),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.run, "go")
        await trio.sleep(1000)
        [request] = session.snapshot().permissions
        session.answer(request.request, "always")
        await trio.sleep(1)
        closed = [e for e in log_of(session) if isinstance(e, agentrt.events.PermissionClosed)]
        assert [(c.outcome, c.option, c.by) for c in closed] == [("selected", "always", "user")]


async def test_an_answer_to_a_question_that_is_not_open_changes_nothing(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking) as (session, _), session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                with pytest.raises(agentrt.LocalProtocolError, match="no option"):
                    turn.answer(event.request, "perhaps")
                assert turn.answer(event.request, "yes")
                assert not turn.answer(event.request, "no")
                with pytest.raises(agentrt.LocalProtocolError, match="answered"):
                    session.answer(event.request, "no")
    assert turn.result.text == "yes"


async def test_an_acp_agent_is_not_allowed_what_it_would_not_do(
    autojump_clock: trio.abc.Clock,
) -> None:
    """ACP has no way to say that a tool is to be called with something else."""

    def change(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Allow(updated_input={"command": "ls"})

    async with session_with(asking, permissions=change) as (session, _):
        assert (await session.run("go")).text == "no"
        assert any(
            isinstance(e, agentrt.Notice) and e.code == "input_not_changed" for e in log_of(session)
        )


async def test_a_policy_that_fails_rejects(autojump_clock: trio.abc.Clock) -> None:
    async def broken(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        raise RuntimeError("no database")

    async with session_with(asking, permissions=broken) as (session, _):
        assert (await session.run("go")).text == "no"
        assert any(
            isinstance(e, agentrt.Notice) and e.code == "handler_failed" for e in log_of(session)
        )


def waits(value: Any) -> Any:
    async def later(request: agentrt.PermissionRequest) -> Any:
        await trio.lowlevel.checkpoint()
        return value

    return later


@pytest.mark.parametrize("value", [True, None, "allow_once", agentrt.Allow, {"option": "yes"}])
@pytest.mark.parametrize("later", [False, True])
async def test_a_policy_that_returns_no_decision_denies_and_is_named(
    autojump_clock: trio.abc.Clock, value: Any, later: bool
) -> None:
    def undecided(request: agentrt.PermissionRequest) -> Any:
        return value

    policy = waits(value) if later else undecided
    async with session_with(asking, permissions=policy) as (session, _):
        assert (await session.run("go")).text == "no"
        [notice] = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
    assert (notice.level, notice.code) == ("error", "handler_failed")
    assert policy.__qualname__ in notice.message
    assert repr(value) in notice.message


async def test_a_result_reports_what_was_denied_by_whom_and_why(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def denials(policy: agentrt.Policy | None) -> tuple[agentrt.events.Denial, ...]:
        async with session_with(asking, permissions=policy) as (session, _):
            return (await session.run("go")).denials

    [denial] = await denials(lambda request: agentrt.Deny("not on Sundays"))
    assert (denial.by, denial.reason) == ("policy", "not on Sundays")
    assert denial.title
    assert await denials(agentrt.allow_all) == ()
    [denial] = await denials(None)
    assert (denial.by, denial.reason) == ("unattended", "")


async def test_a_question_that_the_reader_passed_by_is_closed_as_unattended(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking) as (session, _):
        async with session.prompt("go") as turn:
            await every(turn)
        closed = [e for e in log_of(session) if isinstance(e, agentrt.events.PermissionClosed)]
    assert [each.by for each in closed] == ["unattended"]
    assert [each.by for each in turn.result.denials] == ["unattended"]


async def test_a_policy_that_takes_too_long_counts_as_a_rejection(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def slow(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await trio.sleep(3600)
        return agentrt.Allow()

    limits = agentrt.Limits(permission_timeout_s=30)
    async with session_with(asking, permissions=slow, limits=limits) as (session, _):
        assert (await session.run("go")).text == "no"
        closed = [e for e in log_of(session) if isinstance(e, agentrt.events.PermissionClosed)]
        assert [c.outcome for c in closed] == ["expired"]


async def test_what_is_no_exception_goes_up_through_the_session(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def interrupted(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with session_with(asking, permissions=interrupted) as (session, _):
            await session.run("go")


async def test_a_cancel_answers_the_open_question_and_stops_its_handler(
    autojump_clock: trio.abc.Clock,
) -> None:
    stopped: list[bool] = []

    async def waiting(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    async with session_with(asking, permissions=waiting) as (session, agents):
        with trio.move_on_after(5):
            await session.run("go")
        assert stopped == [True]
        answers = [m["result"] for m in agents.agents[0].received if "result" in m]
        assert answers == [{"outcome": {"outcome": "cancelled"}}]
        assert session.state.phase == "idle"


async def test_a_question_of_a_turn_that_is_being_cancelled_is_answered_cancelled(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def asks_late(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            assert await agent.ask() is None
            prompt.end("cancelled")

    async with session_with(asks_late, permissions=agentrt.allow_all) as (session, _):
        async with session.prompt("go") as turn:
            turn.cancel()
        assert turn.result.outcome == "cancelled"


async def test_a_question_that_the_agent_withdraws_is_closed_and_its_handler_stopped(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def changes_its_mind(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.ask)
                await trio.sleep(1)
                agent.send({"method": "$/cancel_request", "params": {"requestId": 0}})
                await trio.sleep(1)
                nursery.cancel_scope.cancel()
            prompt.end()

    async with session_with(changes_its_mind, permissions=agentrt.ask) as (session, _):
        result = await session.run("go")
        assert result.outcome == "completed"
        assert session.snapshot().permissions == []
        [closed] = [e for e in log_of(session) if isinstance(e, agentrt.events.PermissionClosed)]
        assert (closed.outcome, closed.by) == ("cancelled", "agent")


async def asks_a_form(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        answer = await agent.request(
            "elicitation/create",
            {
                "message": "Which one?",
                "mode": "form",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        )
        agent.say(str(answer["result"]))
        prompt.end()


async def test_a_form_is_filled_by_a_person(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(asks_a_form) as (session, _), session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                assert event.form is not None
                session.submit_form(event.request, {"name": "blue"})
    assert turn.result.text == "{'action': 'accept', 'content': {'name': 'blue'}}"


async def test_a_form_that_no_person_will_see_is_declined(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asks_a_form, permissions=agentrt.allow_all) as (session, _):
        assert (await session.run("go")).text in ("{'action': 'cancel'}", "{'action': 'decline'}")


async def test_parallel_questions_are_each_answered(autojump_clock: trio.abc.Clock) -> None:
    async def asks_three(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            chosen: list[str | None] = []

            async def ask(n: int, chosen: list[str | None] = chosen) -> None:
                chosen.append(await agent.ask(f"call_{n}"))

            async with trio.open_nursery() as nursery:
                for n in range(3):
                    nursery.start_soon(ask, n)
            agent.say(" ".join(map(str, chosen)))
            prompt.end()

    async with session_with(asks_three, permissions=agentrt.allow_all) as (session, _):
        assert (await session.run("go")).text == "yes yes yes"


async def test_a_denied_tool_call_is_over_even_if_the_agent_says_nothing_more(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking, permissions=agentrt.deny_all) as (session, _):
        await session.run("go")
        [item] = [i for i in session.snapshot().items if i.type == "tool"]
        assert item.status == "denied"
