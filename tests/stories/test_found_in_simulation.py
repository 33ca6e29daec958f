"""What the simulation found, one story each: mistakes that nobody had thought of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from msgspec.structs import replace

import agentrt
from agentrt import Allow, Deny, Limits, PermissionRequest
from agentrt.errors import RequestError
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_session
from runtime.fakes import asking, every, log_of, session_with, unresponsive

Clock = trio.abc.Clock

FORM = {"type": "object", "properties": {"x": {"type": "string"}}}


def notices(session: agentrt.Session) -> list[str]:
    return [e.code for e in log_of(session) if isinstance(e, agentrt.Notice)]


# --- ACP


async def test_a_stop_holds_the_queue_back_also_when_the_turn_is_being_cancelled_already(
    autojump_clock: Clock,
) -> None:
    async def slow_to_stop(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            await trio.sleep(1)
            prompt.end("cancelled")

    async with session_with(slow_to_stop) as (session, fakes):
        first = session.submit("first")
        session.submit("second")
        first.cancel()  # by its caller: what waits goes on
        session.cancel()  # a person's Stop: it does not
        await trio.sleep(5)
        assert first.ended
        assert len(session.queue) == 1
        assert len(fakes.sent("session/prompt")) == 1


async def test_a_policy_that_raises_a_request_error_has_denied_and_leaves_nothing_open(
    autojump_clock: Clock,
) -> None:
    async def policy(request: PermissionRequest) -> Allow:
        raise RequestError(-32001, "the place that decides is gone")

    async with session_with(asking, permissions=policy) as (session, _):
        result = await session.run("go")
        assert result.text == "no"
        closed = [e for e in log_of(session) if isinstance(e, agentrt.events.PermissionClosed)]
        assert [(e.outcome, e.by) for e in closed] == [("selected", "policy")]


async def test_a_denial_that_interrupts_does_so_also_when_a_form_is_asked_for(
    autojump_clock: Clock,
) -> None:
    async def agent(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            given = {"mode": "form", "message": "?", "requestedSchema": FORM}
            await agent.request("elicitation/create", given)
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    policy = lambda request: Deny("stop", interrupt=True)  # noqa: E731
    async with session_with(agent, permissions=policy) as (session, _):
        assert (await session.run("go")).outcome == "cancelled"


@pytest.mark.parametrize("how", ["withdrawn", "the tool call ends"])
async def test_the_idle_clock_goes_on_when_the_agent_takes_its_question_back(
    how: str, autojump_clock: Clock
) -> None:
    async def agent(agent: FakeAcpAgent) -> None:
        async for _prompt in agent.prompts:
            async with trio.open_nursery() as nursery:
                agent.update("tool_call", toolCallId="c", title="Build", status="in_progress")
                nursery.start_soon(agent.ask, "c")
                await trio.sleep(5)
                if how == "withdrawn":
                    agent.send({"method": "$/cancel_request", "params": {"requestId": 0}})
                else:
                    agent.update("tool_call_update", toolCallId="c", status="completed")

    limits = Limits(idle_timeout_s=2, turn_timeout_s=None, cancel_grace_s=1)
    async with session_with(agent, permissions=agentrt.ask, limits=limits) as (session, _):
        began = trio.current_time()
        with trio.fail_after(60):
            result = await session.run("go", check=False)
        assert result.outcome == "timed_out"
        assert trio.current_time() - began < 10


async def test_a_tool_call_is_late_of_which_only_a_refused_question_spoke(
    autojump_clock: Clock,
) -> None:
    """The agent asked while its turn was being cancelled, and speaks of the call afterwards."""

    async def agent(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            assert await agent.ask("c") is None
            prompt.end("cancelled")
            agent.update("tool_call_update", toolCallId="c", status="completed", title="Built!")

    async with session_with(agent, permissions=agentrt.ask) as (session, _):
        session.submit("go")
        session.cancel()
        await trio.sleep(1)
        assert len(session.snapshot().turns) == 1
        assert "late" in notices(session)


# --- Claude


class FakeClaude:
    """The far end of a Claude session: shakes hands, and hands prompts and interrupts on."""

    def __init__(self, process: MemoryAgent) -> None:
        self.process = process
        self.messages: list[dict[str, Any]] = []
        self.interrupts = 0

    def write(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.process.send(msgspec.json.encode(message) + b"\n")

    def state(self, state: str) -> None:
        self.write({"type": "system", "subtype": "session_state_changed", "state": state})

    def begin(self, uuid: str | None = None) -> None:
        self.state("running")
        if uuid is not None:
            self.write({"type": "command_lifecycle", "command_uuid": uuid, "state": "started"})
        self.write({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})

    def say(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.write({"type": "assistant", "message": {"id": text, "content": content}})

    def result(self, uuid: str | None = None) -> None:
        origin = {"origin": {"kind": "task-notification"}} if uuid is None else {}
        good = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
        self.write({**good, **origin, "user_message_uuid": uuid})

    async def next_prompt(self) -> str | None:
        """The uuid of the next prompt."""
        while (line := await self.process.receive_line()) is not None:
            message = msgspec.json.decode(line)
            self.messages.append(message)
            if message["type"] == "user":
                return str(message["uuid"])
            if message["type"] == "control_request":
                if message["request"]["subtype"] == "end_session":
                    return None
                self.interrupts += message["request"]["subtype"] == "interrupt"
                body = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                self.write({"type": "control_response", "response": body})
        return None


@asynccontextmanager
async def claude_session(script: Any, **options: Any) -> AsyncIterator[agentrt.Session]:
    async def program(process: MemoryAgent) -> None:
        await script(FakeClaude(process))

    async with open_fake_session(
        lambda: MemoryAgent(program), protocol="claude", **options
    ) as session:
        yield session


@pytest.mark.parametrize("limit", ["hard", "cancel_grace"])
async def test_an_agent_that_never_rests_behind_its_result_meets_the_turn_limits(
    limit: str, autojump_clock: Clock
) -> None:
    async def talks_on(claude: FakeClaude) -> None:
        while (uuid := await claude.next_prompt()) is not None:
            claude.begin(uuid)
            claude.result(uuid)
            while True:
                await trio.sleep(0.5)
                claude.write({"type": "keep_alive"})

    limits = replace(Limits(), turn_timeout_s=3.0 if limit == "hard" else None, cancel_grace_s=3.0)
    async with claude_session(talks_on, limits=limits) as session:
        turn = session.submit("go")
        if limit == "cancel_grace":
            session.cancel()
        await trio.sleep(4)
        assert turn.ended
        await session.aclose()


async def test_what_claude_says_of_a_turn_that_was_given_up_begins_no_other_one(
    autojump_clock: Clock,
) -> None:
    async def unresponsive(claude: FakeClaude) -> None:
        uuid = await claude.next_prompt()
        claude.begin(uuid)
        claude.say("working")
        await trio.sleep(1.2)  # given up by now, and about to be ended
        claude.say("still at it")
        await claude.next_prompt()

    limits = Limits(cancel_grace_s=1, terminate_grace_s=0.5)
    async with claude_session(unresponsive, limits=limits, permissions=agentrt.ask) as session:
        async with session.prompt("go") as turn:
            await anext(turn)
            turn.cancel()
            events = await every(turn)
        assert isinstance(events[-1], agentrt.TurnEnded)
        await trio.sleep(5)
        assert len(session.snapshot().turns) == 1
        assert "still at it" not in [item.text for item in session.snapshot().items]


async def test_the_rest_after_own_work_is_not_taken_for_the_rest_after_the_prompt(
    autojump_clock: Clock,
) -> None:
    """Claude works by itself, and rests, before it has read the prompt."""

    async def busy(claude: FakeClaude) -> None:
        first = await claude.next_prompt()
        claude.begin(first)
        claude.result(first)
        claude.state("idle")
        await trio.sleep(5)  # the second prompt is sent, and not read
        claude.begin()
        claude.say("by the way")
        claude.result()
        claude.state("idle")
        await trio.sleep(10)
        second = await claude.next_prompt()
        claude.begin(second)
        claude.say("answer")
        claude.result(second)
        claude.state("idle")
        await claude.next_prompt()

    async with claude_session(busy) as session:
        await session.run("first")
        result = await session.run("second")
        assert (result.outcome, result.error) == ("completed", None)
        assert result.text.endswith("answer")


# --- both


async def test_an_agent_that_cannot_be_started_again_costs_the_prompt_and_not_the_session(
    autojump_clock: Clock,
) -> None:
    starts = 0

    async def script(process: MemoryAgent) -> None:
        async with FakeAcpAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                if prompt.text == "die":
                    process.exit(1)
                agent.say(prompt.text)
                prompt.end()

    def start() -> MemoryAgent:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise agentrt.AgentStartError("there is no memory for another process")
        return MemoryAgent(script)

    async with open_fake_session(start) as session:
        assert (await session.run("die", check=False)).outcome == "agent_died"
        with pytest.raises(agentrt.AgentStartError, match="no memory"):
            await session.run("hello")
        assert session.state.phase == "dead"
        assert (await session.run("hello again")).text == "hello again"


async def test_an_agent_that_even_a_kill_does_not_end_is_not_heard_any_more(
    autojump_clock: Clock,
) -> None:
    class Unkillable(MemoryAgent):
        async def kill_tree(self) -> None:
            await trio.sleep_forever()

    async def undead(process: MemoryAgent) -> None:
        async with FakeAcpAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                prompt.end()
                await trio.sleep(60)
                agent.say("still here")

    limits = Limits(stdin_close_grace_s=0.5, terminate_grace_s=0.5, kill_wait_s=0.5)
    start = lambda: Unkillable(undead, ignores=frozenset({"eof", "terminate"}))  # noqa: E731
    async with open_fake_session(start, limits=limits) as session:
        await session.run("go")
        assert session._host.core.retire()  # as a session that rests for long
        await trio.sleep(10)
        assert session.state.phase == "dead"
        await trio.sleep(100)
        assert len(session.snapshot().turns) == 1
        assert session.state.turn is None


async def test_a_closed_session_names_no_process_that_was_given_up_on_before_it_went(
    autojump_clock: Clock,
) -> None:
    limits = Limits(cancel_grace_s=0.5, stdin_close_grace_s=2)
    options: Any = {"ignores": frozenset({"eof"})}
    async with session_with(unresponsive, fake=options, limits=limits) as (session, _):
        session.submit("go")
        await trio.sleep(1)
        await session.aclose()
    assert session.state.phase == "closed"
    assert not session.agent.alive
    assert session.agent.pid is None


async def test_a_session_is_closed_when_the_agent_is_gone_that_was_given_up_on(
    autojump_clock: Clock,
) -> None:
    async def resting(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()

    options: Any = {"ignores": frozenset({"eof"})}
    async with session_with(resting, fake=options, limits=Limits(stdin_close_grace_s=2)) as (
        session,
        _,
    ):
        await session.run("go")
        assert session._host.core.retire()
        await trio.sleep(1)
        await session.aclose()
        closed = [e for e in log_of(session) if isinstance(e, agentrt.events.StateChanged)]
    assert [e for e in log_of(session) if isinstance(e, agentrt.events.StateChanged)] == closed
    assert [e.state.agent.alive for e in closed if e.state.phase == "closed"] == [False]


async def test_an_agent_that_was_given_up_on_is_gone_as_soon_as_it_has_left_and_not_what_it_started(
    autojump_clock: Clock,
) -> None:
    class LeavesSomethingBehind(MemoryAgent):
        async def wait_tree(self) -> None:
            await trio.sleep_forever()

    async def script(process: MemoryAgent) -> None:
        async with FakeAcpAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                prompt.end()

    limits = Limits(stdin_close_grace_s=2, terminate_grace_s=2, kill_wait_s=2)
    async with open_fake_session(lambda: LeavesSomethingBehind(script), limits=limits) as session:
        await session.run("go")
        assert session._host.core.retire()  # as a session that rests for long
        await trio.sleep(1)
        assert not session.state.agent.alive
        assert session.state.agent.pid is None
        assert session.state.phase == "idle"  # the next prompt waits until nothing is left
        await trio.sleep(9)
        assert session.state.phase == "dead"
