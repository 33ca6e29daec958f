"""A turn from its prompt to its one end, on agents in memory."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator

import pytest
import trio
from fakes import echo, every, kinds, log_of, obedient, session_with, unresponsive

import agentrt
from agentrt.testing import FakeAcpAgent


@pytest.mark.door("python", "prompt")
async def test_a_turn_gives_the_whole_answer_as_its_result(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(echo) as (session, _):
        result = await session.run("hello")
    assert (result.outcome, result.stop_reason, result.text) == ("completed", "end_turn", "hello")


@pytest.mark.door("python", "stream")
async def test_a_turn_s_events_come_in_the_order_of_the_log(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(echo) as (session, _), session.prompt("hello") as turn:
        events = await every(turn)
    assert kinds(events) == [
        "turn.started",
        "item.opened",
        "state",
        "item.opened",
        "item.delta",
        "item.closed",
        "turn.ended",
    ]


async def test_a_turn_may_be_read_after_it_has_ended(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(echo) as (session, _), session.prompt("hello") as turn:
        await trio.sleep(1)
        assert turn.ended
        deltas = [e.text async for e in turn if isinstance(e, agentrt.TextDelta)]
    assert deltas == ["hello"]


async def test_a_second_prompt_waits_for_the_first_one_s_end(
    autojump_clock: trio.abc.Clock,
) -> None:
    order: list[str] = []

    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(10)
            agent.say(prompt.text)
            prompt.end()

    async with session_with(slow) as (session, agents):

        async def ask(text: str) -> None:
            order.append((await session.run(text)).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "one")
            await trio.sleep(1)
            nursery.start_soon(ask, "two")
            await trio.sleep(1)
            assert [entry.content[0].text for entry in session.snapshot().queue] == ["two"]
            assert len(agents.sent("session/prompt")) == 1
    assert order == ["one", "two"]


async def test_a_prompt_that_may_not_wait_is_refused_while_a_turn_runs(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, _), session.prompt("one", check=False) as turn:
        with pytest.raises(agentrt.Busy):
            await session.run("two", when="reject")
        turn.cancel()


async def test_an_interrupting_prompt_cancels_the_running_turn_and_runs_next(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def first_hangs(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "one":
                await prompt.cancelled.wait()
                prompt.end("cancelled")
            else:
                agent.say(prompt.text)
                prompt.end()

    async with session_with(first_hangs) as (session, _), session.prompt("one") as turn:
        waits = session.submit("three")
        result = await session.run("two", when="interrupt")
        assert (turn.result.outcome, turn.result.by) == ("cancelled", "caller")
        assert result.text == "two"
        assert not waits.ended  # it was there before, and is behind it now


@pytest.mark.door("python", "cancel")
async def test_a_caller_s_scope_cancels_the_turn_and_not_the_session(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        with trio.move_on_after(5) as scope:
            await session.run("work")
        assert scope.cancelled_caught
        assert trio.current_time() == pytest.approx(5, abs=0.1)
        assert len(agents.sent("session/cancel")) == 1
        ended = [e for e in log_of(session) if isinstance(e, agentrt.TurnEnded)]
        assert [(e.outcome, e.by) for e in ended] == [("cancelled", "caller")]
        assert session.state.phase == "idle"
        with trio.move_on_after(5):
            await session.run("more")
        assert len(agents.processes) == 1


async def test_an_error_in_the_block_cancels_the_turn_and_is_raised_bare(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        with pytest.raises(KeyError):
            async with session.prompt("work"):
                raise KeyError("mine")
        assert len(agents.sent("session/cancel")) == 1
        assert session.state.phase == "idle"


async def test_an_error_in_the_session_s_block_is_raised_bare(
    autojump_clock: trio.abc.Clock,
) -> None:
    with pytest.raises(KeyError):
        async with session_with(echo):
            raise KeyError("mine")


async def test_a_cancelled_turn_s_reader_gets_the_end_and_not_the_backlog(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def chatty(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for n in range(1000):
                agent.say(f"{n} ")
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with session_with(chatty) as (session, _), session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, agentrt.TextDelta):
                await trio.sleep(1)
                break
        turn.cancel()
        rest = await every(turn)
    assert kinds(rest) == ["turn.ended"]
    with session.subscribe(after=turn.seq - 1) as events:
        assert await anext(events) is rest[0], "its number is the end's"
    assert turn.result.text == "".join(f"{n} " for n in range(1000))


async def test_an_agent_that_ignores_the_cancel_is_replaced_after_the_grace(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(unresponsive, echo) as (session, agents):
        with trio.move_on_after(5):
            await session.run("work")
        assert trio.current_time() == pytest.approx(5 + session.limits.cancel_grace_s, abs=0.5)
        assert (await session.run("again")).text == "again"
        assert len(agents.processes) == 2
    assert agents.processes[0].signals[:1] == ["eof"]


async def test_a_cancel_without_a_sign_is_sent_once_more(autojump_clock: trio.abc.Clock) -> None:
    async def needs_two(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            prompt.cancelled = trio.Event()
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with session_with(needs_two) as (session, agents):
        with trio.move_on_after(5):
            await session.run("work")
        assert trio.current_time() == pytest.approx(5 + session.limits.cancel_resend_s, abs=0.5)
        assert len(agents.sent("session/cancel")) == 2
        assert len(agents.processes) == 1


async def test_a_second_cancel_is_not_a_second_message(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient) as (session, agents):
        async with session.prompt("work") as turn:
            turn.cancel()
            turn.cancel()
            session.cancel()
        assert len(agents.sent("session/cancel")) == 1


async def test_a_cancel_of_the_session_is_its_user_s(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient) as (session, _):
        async with session.prompt("work", check=False) as turn:
            await trio.sleep(1)
            session.cancel()
        assert (turn.result.outcome, turn.result.by) == ("cancelled", "user")


async def test_no_cancel_is_sent_when_nothing_runs(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(echo) as (session, agents):
        await session.run("one")
        session.cancel()
        await session.run("two")
        assert agents.sent("session/cancel") == []


async def test_the_agent_s_own_word_does_not_decide_a_cancelled_turn_s_outcome(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def rude(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            if prompt.text == "error":
                prompt.fail()
            else:
                prompt.end("end_turn")

    async with session_with(rude) as (session, _):
        for text in ("end_turn", "error"):
            async with session.prompt(text) as turn:
                turn.cancel()
            assert turn.result.outcome == "cancelled"


# --- clocks


async def test_a_turn_that_streams_for_ever_meets_the_hard_limit(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def endless(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            while not prompt.cancelled.is_set():
                agent.say(".")
                await trio.sleep(1)
            prompt.end("cancelled")

    limits = agentrt.Limits(turn_timeout_s=60, idle_timeout_s=10)
    async with session_with(endless, limits=limits) as (session, agents):
        with pytest.raises(agentrt.errors.TurnTimedOut) as caught:
            await session.run("go")
        assert caught.value.result.error.data == {"limit": "hard"}
        assert trio.current_time() == pytest.approx(60, abs=2)
        assert len(agents.sent("session/cancel")) == 1


async def test_a_silent_turn_outlives_any_interval_without_an_idle_limit(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def thoughtful(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(1700)
            prompt.end()

    async with session_with(thoughtful) as (session, _):
        assert (await session.run("go")).outcome == "completed"


async def test_silence_beyond_the_idle_limit_ends_the_turn(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(obedient, limits=agentrt.Limits(idle_timeout_s=10)) as (session, _):
        result = await session.run("go", check=False)
    assert result.outcome == "timed_out"
    assert result.error is not None
    assert result.error.data == {"limit": "idle"}


async def test_any_activity_resets_the_idle_clock(autojump_clock: trio.abc.Clock) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(10):
                await trio.sleep(9)
                agent.think("hm")
            prompt.end()

    async with session_with(slow, limits=agentrt.Limits(idle_timeout_s=10)) as (session, _):
        assert (await session.run("go")).outcome == "completed"


async def test_an_open_permission_stops_the_idle_clock(autojump_clock: trio.abc.Clock) -> None:
    async def asking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end()

    limits = agentrt.Limits(idle_timeout_s=10)
    async with (
        session_with(asking, limits=limits, permissions=agentrt.ask) as (session, _),
        session.prompt("go") as turn,
    ):
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                await trio.sleep(100)
                turn.answer(event.request, "allow_once")
    assert turn.result.outcome == "completed"


async def test_late_answers_of_abandoned_prompts_never_reach_a_later_turn(
    autojump_clock: trio.abc.Clock,
) -> None:
    """Three prompts are given up on, one after the other, and answered late, each by its own
    process while it is being ended; the fourth gets its own answer."""

    async def late(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            await trio.sleep(11)
            agent.say(f"late {prompt.text}")
            prompt.end()

    async with session_with(late, late, late, echo) as (session, _):
        for n in range(3):
            result = await session.run(
                f"abandoned {n}", limits=agentrt.Limits(turn_timeout_s=5), check=False
            )
            assert result.outcome == "timed_out"
        result = await session.run("mine")
    assert result.text == "mine"


# --- the agent's end


async def test_a_dead_agent_ends_the_turn_with_its_status_and_its_last_words(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def crashing(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.say("so far")
            agent.process.complain("segmentation fault\n")
            agent.process.exit(-11)
            await trio.sleep_forever()

    async with session_with(crashing, echo, fake={"capabilities": {"loadSession": True}}) as (
        session,
        agents,
    ):
        with pytest.raises(agentrt.errors.AgentDied, match="SIGSEGV") as caught:
            await session.run("go")
        assert caught.value.result.text == "so far"
        assert caught.value.result.error.data["stderr"] == "segmentation fault\n"
        assert str(caught.value).endswith("standard error ---\nsegmentation fault")
        assert session.state.phase == "dead"
        assert (await session.run("again")).text == "again"
        assert [m["params"]["sessionId"] for m in agents.sent("session/load")] == ["s1"]
        assert [m["params"]["prompt"][0]["text"] for m in agents.sent("session/prompt")] == [
            "again"
        ]


async def test_an_agent_that_cannot_resume_is_restarted_and_the_loss_is_told(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def once(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.exit(3)

    async with session_with(once, echo) as (session, _):
        await session.run("go", check=False)
        await session.run("again")
        notices = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
        assert [(n.code, n.data) for n in notices] == [("agent_restarted", {"resumed": False})]


async def test_an_agent_that_closes_its_output_is_ended_and_the_turn_told(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def mute(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            agent.process.close_stdout()
            await trio.sleep_forever()

    async with session_with(mute, echo) as (session, _):
        assert (await session.run("go", check=False)).outcome == "agent_died"
        assert (await session.run("again")).text == "again"


async def test_an_agent_that_exits_at_once_is_a_start_error_with_its_stderr(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def broken(agent: FakeAcpAgent) -> None:
        agent.process.complain("no api key")
        agent.process.exit(2)

    with pytest.raises(agentrt.AgentStartError, match="no api key") as caught:
        async with session_with(broken):
            pass
    assert caught.value.returncode == 2


# --- the session's end


async def test_leaving_the_session_waits_for_the_running_turn(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await trio.sleep(20)
            agent.say("done")
            prompt.end()

    async with trio.open_nursery() as nursery:
        async with session_with(slow) as (session, _):
            nursery.start_soon(session.run, "go")
            await trio.sleep(1)
        ended = [e for e in log_of(session) if isinstance(e, agentrt.TurnEnded)]
    assert [e.outcome for e in ended] == ["completed"]
    assert session.state.phase == "closed"


async def test_leaving_by_cancellation_ends_the_turn_and_the_process_now(
    autojump_clock: trio.abc.Clock,
) -> None:
    with trio.move_on_after(5):
        async with session_with(unresponsive) as (session, agents):
            await session.run("go")
    assert trio.current_time() < 5 + 10 + 6  # the cancel's grace and the ladder
    assert agents.processes[0].returncode is not None
    assert session.state.phase == "closed"
    assert len([e for e in log_of(session) if isinstance(e, agentrt.TurnEnded)]) == 1


async def test_a_closed_session_takes_no_prompt(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(echo) as (session, _):
        await session.aclose()
        with pytest.raises(agentrt.SessionClosed):
            await session.run("late")


# --- the queue


async def test_a_user_s_cancel_holds_the_waiting_prompts_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents), trio.open_nursery() as nursery:

        async def ask(text: str) -> None:
            await session.run(text, check=False)

        nursery.start_soon(ask, "one")
        await trio.sleep(1)
        nursery.start_soon(ask, "two")
        await trio.sleep(1)
        session.cancel()
        await trio.sleep(100)
        assert len(agents.sent("session/prompt")) == 1
        assert session.snapshot().paused
        session.queue.resume()
        await trio.sleep(1)
        assert len(agents.sent("session/prompt")) == 2
        nursery.cancel_scope.cancel()


async def test_a_waiting_prompt_whose_caller_goes_away_is_never_sent(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(obedient) as (session, agents):
        async with session.prompt("one") as turn:
            with trio.move_on_after(5):
                await session.run("two")
            assert session.snapshot().queue == []
            turn.cancel()
        assert len(agents.sent("session/prompt")) == 1


# --- work the agent begins by itself


async def test_content_outside_a_prompt_is_a_turn_of_the_agent_s_own(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def talkative(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()
            await trio.sleep(10)
            agent.say("by the way")

    async with session_with(talkative) as (session, _):
        await session.run("go")
        await trio.sleep(11)
        assert session.state.turn is not None
        assert session.state.turn.origin == "agent"
        await trio.sleep(10)
        assert session.state.phase == "idle"
        started = [e for e in log_of(session) if isinstance(e, agentrt.TurnStarted)]
        assert [e.origin for e in started] == ["user", "agent"]


async def test_a_prompt_does_not_wait_for_a_turn_that_has_no_end_on_the_wire(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def muttering(agent: FakeAcpAgent) -> None:
        async def mutter() -> None:
            while True:
                await trio.sleep(0.5)
                agent.think("hm")

        async with trio.open_nursery() as nursery:
            async for prompt in agent.prompts:
                prompt.end()
                if prompt.text == "one":
                    nursery.start_soon(mutter)
            nursery.cancel_scope.cancel()

    async with session_with(muttering) as (session, _):
        await session.run("one")
        await trio.sleep(5)
        with trio.fail_after(1):
            await session.run("two")


async def test_a_cancelled_turn_of_the_agent_s_own_ends_without_killing_anybody(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def talkative(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()
            await trio.sleep(5)
            agent.say("by the way")

    async with session_with(talkative) as (session, agents):
        await session.run("go")
        await trio.sleep(6)
        session.cancel()
        assert session.state.phase == "cancelling"
        await trio.sleep(3)
        assert session.state.phase == "idle"
        assert agents.processes[0].returncode is None


# --- readers


@pytest.mark.slow
async def test_a_reader_that_sleeps_through_a_flood_loses_no_character(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def flood(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for n in range(20_000):
                agent.say(f"{n},")
            prompt.end()

    async with session_with(flood) as (session, _), session.prompt("go") as turn:
        await trio.sleep(60)
        text = "".join([e.text async for e in turn if isinstance(e, agentrt.TextDelta)])
    assert text == "".join(f"{n}," for n in range(20_000)) == turn.result.text


async def test_every_subscriber_sees_the_same_events(autojump_clock: trio.abc.Clock) -> None:
    async def follow(events: AsyncIterator[object], into: list[object]) -> None:
        into.extend([event async for event in events])

    first: list[object] = []
    second: list[object] = []
    async with trio.open_nursery() as nursery, session_with(echo) as (session, _):
        start = session.snapshot().seq
        nursery.start_soon(follow, session.subscribe(), first)
        await session.run("one")
        nursery.start_soon(follow, session.subscribe(after=start), second)
        await session.run("two")
    assert first == second
    assert len(first) > 10


# --- context

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


async def test_handlers_see_the_context_of_the_prompt_s_caller(
    autojump_clock: trio.abc.Clock,
) -> None:
    seen: list[str] = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        seen.append(request_id.get())
        return agentrt.Allow()

    async def asking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end()

    async with session_with(asking, permissions=policy) as (session, _):
        request_id.set("r-7")
        await session.run("go")
    assert seen == ["r-7"]


@pytest.mark.parametrize("kind", ["turn", "subscription"])
async def test_only_one_task_at_a_time_iterates(kind: str) -> None:
    """Two would each get a part of the events."""
    async with session_with(obedient) as (session, _), session.prompt("x") as turn:
        events = turn if kind == "turn" else session.subscribe()
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async for _event in events:
                    pass

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(
                agentrt.LocalProtocolError, match="another task already iterates over it"
            ):
                await events.__anext__()
            nursery.cancel_scope.cancel()
        turn.cancel()
        await events.__anext__()  # the next may


async def test_an_agent_that_died_is_in_the_state_until_the_next_one_runs(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        async for _ in agent.prompts:
            return

    async with session_with(dies, echo) as (session, _):
        assert session.agent.alive
        first = session.agent.pid
        result = await session.run("one", check=False)
        assert result.error is not None
        assert result.error.code == "agent_died"
        state = session.state
        assert state.phase == "dead"
        assert state.error is not None
        assert state.error.code == "agent_died"
        assert state.error.message.startswith("the agent's process ended")
        assert state.error.data == result.error.data
        assert (session.agent.pid, session.agent.alive) == (None, False)
        await session.run("two")
        assert session.state.error is None
        assert session.agent.alive
        assert session.agent.pid != first or first is None


async def test_the_state_says_until_when_a_cancel_is_waited_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    limits = agentrt.Limits(cancel_grace_s=7)
    async with (
        session_with(unresponsive, limits=limits, now=trio.current_time) as (session, _),
        session.prompt("go", check=False) as turn,
    ):
        await trio.sleep(2)
        turn.cancel()
        state = session.state.turn
        assert state is not None
        assert (state.since, state.cancel_deadline) == (0, 9)


async def test_what_a_turn_used_is_in_its_result(autojump_clock: trio.abc.Clock) -> None:
    async def counting(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            used = {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}
            prompt.end(usage=used)

    async with session_with(counting) as (session, _):
        usage = (await session.run("go")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (5, 7)


@pytest.mark.parametrize("which", ["hard", "idle"])
async def test_a_limit_that_was_reached_is_an_error_with_a_code(
    autojump_clock: trio.abc.Clock, which: str
) -> None:
    limits = agentrt.Limits(**{{"hard": "turn_timeout_s", "idle": "idle_timeout_s"}[which]: 3})
    async with session_with(obedient, limits=limits) as (session, _):
        error = (await session.run("go", check=False)).error
    assert error is not None
    assert (error.code, error.data) == ("timed_out", {"limit": which})
