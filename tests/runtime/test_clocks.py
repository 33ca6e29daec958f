"""Time limits that people mean: what counts as silence, and whose time is the turn's."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from fakes import Incarnations, asking, echo, obedient, session_with, unresponsive

import agentrt
from agentrt.testing import FakeAcpAgent, open_fake_runtime

IDLE = agentrt.Limits(idle_timeout_s=1.5, turn_timeout_s=None)


@agentrt.tool
async def build() -> str:
    """Takes its time."""
    await trio.sleep(4)
    return "built"


# --- silence


async def test_a_tool_of_the_host_s_is_no_silence_of_the_agent(
    autojump_clock: trio.abc.Clock,
) -> None:
    from web.tool_calls import Calls

    async def waiting(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            calls = Calls(session)
            number = calls.call("build")
            while number not in calls.answers:  # noqa: ASYNC110 - as the reader of a bridge would
                await trio.sleep(0.01)
            await trio.sleep(1)
            agent.say(calls.text(number))
            prompt.end()

    async with session_with(waiting, limits=IDLE, tools=[build]) as (session, _):
        result = await session.run("go", check=False)
    assert (result.outcome, result.text) == ("completed", "built")


async def test_behind_the_tool_the_agent_s_silence_counts_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    from web.tool_calls import Calls

    async def silent(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            Calls(session).call("build")
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with session_with(silent, limits=IDLE, tools=[build]) as (session, _):
        result = await session.run("go", check=False)
        assert result.outcome == "timed_out"
        assert result.error is not None
        assert result.error.data == {"limit": "idle"}
        assert result.duration == pytest.approx(5.5)


async def test_a_slow_policy_is_no_silence_of_the_agent(autojump_clock: trio.abc.Clock) -> None:
    async def slow(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await trio.sleep(4)
        return agentrt.Allow()

    async with session_with(asking, limits=IDLE, permissions=slow) as (session, _):
        assert (await session.run("go", check=False)).text == "yes"


@pytest.mark.slow
async def test_a_program_in_a_terminal_of_the_host_s_is_no_silence_of_the_agent(
    tmp_path: Path,
) -> None:
    async def running(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            answer = await agent.request(
                "terminal/create", {"command": "sleep", "args": ["0.8"], "cwd": str(tmp_path)}
            )
            terminal = answer["result"]["terminalId"]
            await trio.sleep(1)  # it only looks now and then
            output = await agent.request("terminal/output", {"terminalId": terminal})
            agent.say(str(output["result"]["exitStatus"]))
            prompt.end()

    limits = agentrt.Limits(idle_timeout_s=0.5)
    with trio.fail_after(20):
        async with session_with(running, limits=limits, cwd=str(tmp_path)) as (session, _):
            result = await session.run("go", check=False)
    assert (result.outcome, result.text) == ("completed", "{'exitCode': 0, 'signal': None}")


async def test_an_agent_that_waits_for_a_tool_of_the_host_s_does_not_hang(
    autojump_clock: trio.abc.Clock,
) -> None:
    from web.tool_calls import Calls

    @agentrt.tool
    async def long() -> str:
        """Takes longer than an agent may be silent."""
        await trio.sleep(500)
        return "done"

    async def waiting(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            calls = Calls(runtime.get(runtime.list()[0].session))
            number = calls.call("long")
            while number not in calls.answers:  # noqa: ASYNC110 - as the reader of a bridge would
                await trio.sleep(1)
            prompt.end()

    limits = agentrt.Limits(turn_timeout_s=None, busy_silence_timeout_s=100, suspend_after_s=None)
    start = Incarnations(waiting).start
    async with open_fake_runtime({"fake": start}, limits=limits, tools=[long]) as runtime:
        session = await runtime.create("fake")
        assert (await session.run("go", check=False)).outcome == "completed"


async def test_the_end_of_an_agent_s_output_is_no_sign_of_life(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def closing(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            await trio.sleep(1.49)
            agent.process.close_stdout()

    async with session_with(closing, limits=IDLE) as (session, _):
        result = await session.run("go", check=False)
        assert result.error is not None
        assert result.error.data == {"limit": "idle"}


# --- a person's time


async def test_while_a_person_is_asked_the_hard_limit_stands_still(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def thorough(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(4)
            agent.say(str(await agent.ask()))
            await trio.sleep(4)
            prompt.end()

    limits = agentrt.Limits(turn_timeout_s=10)
    async with session_with(thorough, limits=limits, permissions=agentrt.ask) as (session, _):
        turn = session.submit("go")
        await trio.sleep(1)
        before = session.state.turn
        await trio.sleep(1000)
        asked = session.state.turn
        assert before is not None
        assert asked is not None
        assert (asked.deadline, session.state.phase) == (None, "waiting")
        [request] = session.pending_permissions
        session.answer(request, "allow_once")
        assert session.state.turn is not None
        assert session.state.turn.deadline is not None
        await session.wait_idle()
        assert (turn.result.outcome, turn.result.duration) == ("completed", 1005.0)


async def test_what_was_left_of_the_hard_limit_is_left_behind_the_answer(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def endless(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(4)
            await agent.ask()
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    limits = agentrt.Limits(turn_timeout_s=10)
    async with session_with(endless, limits=limits, permissions=agentrt.ask) as (session, _):
        turn = session.submit("go")
        await trio.sleep(100)
        [request] = session.pending_permissions
        session.answer(request, "reject_once")
        await session.wait_idle()
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", 106.0)


async def test_a_policy_that_decides_after_a_person_answered_uses_the_turn_s_time(
    autojump_clock: trio.abc.Clock,
) -> None:
    asked: list[agentrt.PermissionRequest] = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request)
        if len(asked) == 2:
            await trio.sleep_forever()
        return agentrt.ask(request)

    async def curious(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.ask)
                nursery.start_soon(agent.ask)
                await prompt.cancelled.wait()
                prompt.end("cancelled")

    limits = agentrt.Limits(turn_timeout_s=10)
    async with session_with(curious, limits=limits, permissions=policy) as (session, _):
        turn = session.submit("go")
        await trio.sleep(100)
        session.answer(asked[0].id, "allow_once")
        with trio.fail_after(50):
            await session.wait_idle()
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", 110.0)


async def test_a_program_that_is_asked_answers_in_the_turn_s_own_time(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(asking, limits=agentrt.Limits(turn_timeout_s=10)) as (session, _):
        async with session.prompt("go", check=False) as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    await trio.sleep(100)
        assert (turn.result.outcome, turn.result.duration) == ("timed_out", 10.0)


# --- the agent's own turns


async def test_a_turn_of_the_agent_s_own_that_never_ends_meets_the_hard_limit(
    autojump_clock: trio.abc.Clock,
) -> None:
    """So that a prompt behind it is sent."""

    async def restless(agent: FakeAcpAgent) -> None:
        async with trio.open_nursery() as nursery:

            async def talk() -> None:
                while agent.session == "s1":
                    agent.say("more ")
                    await trio.sleep(0.5)

            nursery.start_soon(talk)
            async for prompt in agent.prompts:
                agent.session = "quiet"
                prompt.end()

    limits = agentrt.Limits(turn_timeout_s=20, end_silence_s=2)
    async with session_with(restless, echo, limits=limits) as (session, _):
        await trio.sleep(1)
        state = session.state.turn
        assert state is not None
        assert state.origin == "agent"
        assert state.deadline is not None
        with trio.fail_after(40):
            await session.run("go", check=False)


# --- the queue


async def test_a_prompt_that_was_taken_back_leaves_no_pause_behind(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, _):
        session.submit("one")
        waiting = session.submit("two")
        session.cancel()
        assert session.snapshot().paused
        session.queue.remove(waiting.entry)
        assert not session.snapshot().paused
        await session.wait_idle()
        session.submit("three")
        await trio.sleep(1)
        snapshot = session.snapshot()
        assert (snapshot.paused, snapshot.queue, session.state.phase) == (False, [], "running")


async def test_a_timeout_says_which_limit_to_raise(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(unresponsive, limits=agentrt.Limits(turn_timeout_s=7)) as (session, _):
        result = await session.run("go", check=False)
    assert result.error is not None
    assert "7 s" in result.error.message
    assert "limits.turn_timeout_s" in result.error.message


async def test_a_session_without_a_runtime_ends_a_turn_that_hangs(
    autojump_clock: trio.abc.Clock,
) -> None:
    limits = agentrt.Limits(turn_timeout_s=None, busy_silence_timeout_s=600)
    async with session_with(unresponsive, echo, limits=limits) as (session, _):
        result = await session.run("work", check=False)
        assert result.outcome == "timed_out"
        assert result.error is not None
        assert "limits.busy_silence_timeout_s" in result.error.message
        assert 600 <= trio.current_time() < 1000
