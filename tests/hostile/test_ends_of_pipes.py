"""An agent whose pipes or process end at an awkward moment, or in an awkward order: it is told
what happened, nothing that was said is lost, and the next turn works."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import trio
from msgspec import structs

import agentrt

from .bad_agent import Agent, Message
from .kit import LADDER, PATIENT, SHORT, Marks, bad_session, notices, told, until, works


async def test_a_prompt_is_of_any_size() -> None:
    """Larger than the pipe, and than what may wait of answers."""
    limits = structs.replace(PATIENT, agent_outbox_bytes=1000)
    async with bad_session(limits=limits) as session:
        text = "x" * 1_000_000
        assert (await session.run(text)).text == text
        await works(session)


@pytest.mark.slow
async def test_an_agent_that_reads_nothing_is_ended_by_the_next_prompt() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        while True:
            time.sleep(60)

    async with bad_session(misbehave=misbehave) as session:
        await session.run("misbehave")
        with trio.fail_after(SHORT.write_timeout_s + LADDER + 1):
            result = await session.run("x" * 1_000_000, check=False)
        assert result.outcome == "agent_died"
        assert result.error is not None
        assert "has not read its input for 1 s" in result.error.message
        await works(session)


@pytest.mark.slow
async def test_an_agent_that_asks_without_end_and_reads_no_answer_is_ended() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        while True:
            agent.begin_request("_vendor/question", {"text": "?" * 100})

    limits = structs.replace(SHORT, agent_outbox_bytes=100_000, write_timeout_s=60)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        with pytest.raises(agentrt.errors.AgentDied, match=r"unread \(limits.agent_outbox_bytes\)"):
            await session.run("misbehave")
        await works(session)


async def test_an_agent_that_closes_its_input_is_ended_by_the_cancel() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        os.close(0)
        agent.say("unresponsive")
        while True:
            time.sleep(60)

    async with bad_session(
        misbehave=misbehave, limits=structs.replace(SHORT, cancel_grace_s=60)
    ) as (session):
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert "agent_unreachable" in await notices(session)
        await works(session)


@pytest.mark.slow
async def test_a_crash_is_reported_as_a_crash_and_not_as_a_closed_pipe() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        sys.exit(3)

    async with bad_session(misbehave=misbehave) as session:
        for _ in range(5):
            assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        assert set(await notices(session)) == {"agent_restarted"}


async def test_a_death_between_two_turns_leaves_its_reason_in_the_state() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        agent.mark("licence expired")
        sys.exit(3)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: session.state.phase == "dead")
        error = session.state.error
        assert error is not None
        assert (error.code, error.message) == (
            "agent_died",
            "the agent's process ended (exit status 3)",
        )
        assert error.data == {"returncode": 3, "stderr": "licence expired\n"}
        await works(session)
        assert session.state.error is None


async def test_all_that_was_said_before_the_end_is_heard() -> None:
    """Far more than a pipe holds, and a grandchild keeps the pipe open."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.spawn("exec sleep 600", start_new_session=True)
        for _ in range(64):
            agent.say("x" * 65536)
        sys.exit(3)

    async with bad_session(misbehave=misbehave) as session:
        result = await session.run("misbehave", check=False)
        assert (result.outcome, len(result.text)) == ("agent_died", 64 * 65536)
        await works(session)


async def test_an_answer_without_its_newline_counts_if_it_is_the_last_word() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        answer = {"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}}
        agent.raw(json.dumps(answer).encode())
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: session.state.phase == "dead")
        await works(session)


async def test_half_a_line_at_the_end_is_one_notice() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.raw(b'{"jsonrpc":"2.0","method":"session/upd')
        sys.exit(1)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        await works(session)
        assert await notices(session) == ["malformed", "agent_restarted"]


@pytest.mark.slow
async def test_a_grandchild_that_floods_the_pipe_after_the_exit_is_cut_off() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("flood")
        agent.spawn("exec yes", start_new_session=True)
        time.sleep(0.1)
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        with trio.fail_after(LADDER + 30):
            result = await session.run("misbehave", check=False)
        assert result.outcome == "agent_died"
        await works(session)


@pytest.mark.slow
async def test_a_stopped_process_meets_the_limit_and_is_killed() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    limits = structs.replace(SHORT, turn_timeout_s=0.3)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        assert (await session.run("misbehave", check=False)).outcome == "timed_out"
        await works(session)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exits", r"ended before it was ready \(exit status 4\)(?s:.*)no licence"),
        ("is killed", r"ended before it was ready \(signal SIGKILL\)(?s:.*)no licence"),
        ("closes stdout", r"was ended before it was ready: the agent closed its output"),
    ],
)
async def test_an_end_in_the_handshake_is_a_start_error_with_its_reason(
    how: str, message: str
) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        agent.mark("no licence")
        if agent.arg != "closes stdout":
            agent.spawn("exec sleep 600", start_new_session=True)
        match agent.arg:
            case "exits":
                sys.exit(4)
            case "is killed":
                os.kill(os.getpid(), 9)
            case "closes stdout":
                os.close(1)
                time.sleep(60)

    with trio.fail_after(LADDER + 30), pytest.raises(agentrt.AgentStartError, match=message):
        async with bad_session(initialize=initialize, arg=how):
            pass


@pytest.mark.slow
async def test_a_restart_that_fails_says_why_each_time_until_it_works(tmp_path: Path) -> None:
    def start(agent: Agent) -> None:
        if os.path.exists(agent.arg):
            agent.mark("no licence")
            sys.exit(7)

    def misbehave(agent: Agent, prompt: Message) -> None:
        open(agent.arg, "w").close()
        sys.exit(1)

    stop = tmp_path / "stop"
    async with bad_session(start=start, misbehave=misbehave, arg=str(stop)) as session:
        assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        for _ in range(2):
            with pytest.raises(agentrt.AgentStartError, match="no licence"):
                await session.run("again")
            assert session.state.phase == "dead"
            assert session.state.error is not None
            assert "no licence" in session.state.error.message
        stop.unlink()
        await works(session)


async def test_a_prompt_whose_caller_leaves_during_the_restart_is_never_sent(
    tmp_path: Path,
) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        if os.path.exists(agent.arg):
            agent.mark("again")
            time.sleep(0.3)
        open(agent.arg, "w").close()
        agent.greet(request)

    def misbehave(agent: Agent, prompt: Message) -> None:
        sys.exit(1)

    marks = Marks()
    async with bad_session(
        initialize=initialize, misbehave=misbehave, arg=str(tmp_path / "ran"), on_stderr=marks
    ) as session:
        await session.run("misbehave", check=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "never mind")
            await marks.wait("again")
            nursery.cancel_scope.cancel()
        assert session.snapshot().queue == []
        heard = (await session.run("report")).text
        assert heard in {f"initialize session/{how} session/prompt" for how in ("new", "resume")}


async def test_a_death_at_an_open_question_closes_it_and_stops_its_handler() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.begin_request(
            "session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}
        )
        agent.mark("asked")
        time.sleep(0.1)
        os.kill(os.getpid(), 9)

    stopped = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(True)
        return agentrt.Allow()

    async with bad_session(misbehave=misbehave, permissions=policy) as session:
        assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        assert session.snapshot().permissions == []
        assert [i.status for i in session.snapshot().items if i.tool] == ["orphaned"]
        await works(session)
        assert stopped


async def test_a_late_answer_to_a_dead_agent_s_question_is_refused() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.begin_request(
            "session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}
        )
        sys.exit(1)

    async with bad_session(misbehave=misbehave, permissions=agentrt.ask) as session:
        await session.run("misbehave", check=False)
        [asked] = [e for e in await told(session) if isinstance(e, agentrt.PermissionOpened)]
        with pytest.raises(agentrt.LocalProtocolError, match="no question"):
            session.answer(asked.request, "allow_once")
        await works(session)


@pytest.mark.slow
async def test_sixteen_crashes_at_a_time_are_sixteen_separate_ones() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("so far")
        os.kill(os.getpid(), 9)

    async def one() -> None:
        async with bad_session(misbehave=misbehave, bound=60) as session:
            assert (await session.run("misbehave", check=False)).text == "so far"
            await works(session)

    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(one)


@pytest.mark.slow
async def test_what_was_said_in_time_counts_although_the_program_was_too_busy_to_read_it() -> None:
    """A handler that blocks the whole program is a mistake, but not the agent's."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    limits = structs.replace(PATIENT, cancel_grace_s=0.2, cancel_resend_s=0.2)
    async with bad_session(misbehave=misbehave, limits=limits) as session:
        pid = session.agent.pid
        for _ in range(6):
            async with session.prompt("misbehave") as turn:
                await anext(turn)
                turn.cancel()
                time.sleep(0.3)  # noqa: ASYNC251
            assert turn.result.stop_reason == "cancelled"
        assert await notices(session) == []
        assert session.agent.pid == pid
