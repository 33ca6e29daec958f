"""Hostile agents and their client: each row of the table in `docs/project/failure-shapes.md` on a
real process. The turn ends with a named outcome within a bound; the next one works, or the
session says why not; nothing is left behind."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

import agentrt
from faults.quick import mostly_slow

from .bad_agent import Agent, Message
from .kit import BOUND, LADDER, SHORT, bad_session, notices, told, until, works

# --- what is said


async def test_text_noise_before_and_among_messages() -> None:
    def start(agent: Agent) -> None:
        agent.raw(b"Welcome back!\n\x1b[2J\x1b[31mLoaded cached credentials.\x1b[0m\n")

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("a")
        agent.raw(b"Migrating the database ...\n\n")
        agent.say("b")
        agent.end(prompt)

    async with bad_session(start=start, misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "ab"
        assert await notices(session) == ["malformed"] * 3
        # Noise is not answered: an agent has no use for errors about its own log.
        heard = (await session.run("report")).text
        assert heard == "initialize session/new session/prompt session/prompt"


@pytest.mark.parametrize("line", ["42", "null", "[]"])
async def test_line_of_a_bare_value_mid_turn(line: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("a")
        agent.raw(agent.arg.encode() + b"\n")
        agent.say("b")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=line) as session:
        result = await session.run("misbehave")
        assert (result.outcome, result.text) == ("completed", "ab")
        assert await notices(session) == ["malformed"]
        await works(session)


async def test_id_echoed_as_string() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.send({"id": str(prompt["id"]), "result": {"stopReason": "end_turn"}})

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        assert await notices(session) == ["id_type"]
        await works(session)


@pytest.mark.parametrize(
    ("error", "message"), [("it broke", "it broke"), (None, "failed without a reason")]
)
async def test_error_is_a_string_or_null(error: str | None, message: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.send({"id": prompt["id"], "error": agent.arg})

    async with bad_session(misbehave=misbehave, arg=error) as session:
        with pytest.raises(agentrt.errors.AgentFailed, match=message):
            await session.run("misbehave")
        await works(session)


async def test_result_and_error_both() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        error = {"code": -32603, "message": "it broke"}
        agent.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}, "error": error})

    async with bad_session(misbehave=misbehave) as session:
        with pytest.raises(agentrt.errors.AgentFailed, match="it broke"):
            await session.run("misbehave")
        await works(session)


async def test_response_twice_and_unknown_id() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.send({"id": 99, "result": {"stopReason": "end_turn"}})
        agent.say("a")
        agent.end(prompt)
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "a"
        await works(session)
        assert await notices(session) == ["foreign_response", "duplicate_response"]


async def test_update_after_the_response() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("answer")
        agent.end(prompt)
        agent.say("tail")

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "answer"
        await until(session, lambda: len(session.snapshot().turns) == 2)
        await until(session, lambda: session.state.phase == "idle")
        # Shown, as the agent's own: whoever waited for the answer has it already.
        assert [turn.origin for turn in session.snapshot().turns] == ["user", "agent"]
        assert [i.text for i in session.snapshot().items if i.type == "text"] == ["answer", "tail"]
        await works(session)


async def test_update_for_another_session() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("mine")
        own, agent.session = agent.session, "somebody-elses"
        agent.say("not mine")
        agent.session = own
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "mine"
        assert await notices(session) == ["foreign_session"]
        await works(session)


@pytest.mark.slow
@pytest.mark.parametrize("mib", mostly_slow([20, 40], one_in=2))
async def test_line_of_20_or_40_mib(mib: int) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("x" * (agent.arg << 20))
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=mib) as session:
        assert len((await session.run("misbehave")).text) == mib << 20
        await works(session)


async def test_line_longer_than_the_limit_of_64_mib() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("a")
        agent.raw(b"x" * ((64 << 20) + 1) + b"\n")
        agent.say("b")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        async with session.prompt("misbehave") as turn:
            [notice] = [event async for event in turn if isinstance(event, agentrt.Notice)]
        assert (turn.result.outcome, turn.result.text) == ("completed", "ab")
        assert notice.code == "line_too_long"
        assert notice.data == {"size": (64 << 20) + 1, "limit": 64 << 20}
        await works(session)


@pytest.mark.parametrize(
    ("answer", "reason"), [({}, None), (None, None), ({"stopReason": "weird"}, "weird")]
)
async def test_result_empty_or_null_or_unknown_stop_reason(answer: Any, reason: str | None) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.answer(prompt, agent.arg)

    async with bad_session(misbehave=misbehave, arg=answer) as session:
        result = await session.run("misbehave")
        assert (result.outcome, result.stop_reason) == ("completed", reason)
        assert await notices(session) == ["stop_reason"]
        await works(session)


async def test_unknown_update_and_bad_chunk() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("a")
        agent.update("telepathy", thought="?")
        agent.update("agent_message_chunk")
        agent.update("agent_message_chunk", content={"type": "smell"})
        agent.say("b")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "ab"
        assert await notices(session) == ["unknown_update", "unusable_update", "unusable_update"]
        await works(session)


async def test_lone_surrogate() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("cut \ud83d")  # as Node does when it cuts an emoji in two
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        text = (await session.run("misbehave")).text
        assert text == "cut \ufffd"
        assert text.encode()
        assert await notices(session) == ["repaired"]
        await works(session)


async def test_invalid_utf8_in_a_chunk() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        chunk = agent.updating("agent_message_chunk", content={"type": "text", "text": "caf@"})
        agent.raw(json.dumps(chunk).encode().replace(b"@", b"\xe9") + b"\n")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "caf\ufffd"
        assert await notices(session) == ["repaired"]
        await works(session)


async def test_burst_of_300_chunks() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for number in range(300):
            agent.say(f"{number},")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        expected = "".join(f"{number}," for number in range(300))
        assert (await session.run("misbehave")).text == expected
        await works(session)


# --- what is done with the streams and the process


async def test_1_mib_on_stderr_before_answering() -> None:
    def flood(agent: Agent, request: Message) -> None:
        for _ in range(16):
            os.write(2, b"e" * 65536)
        agent.greet(request)

    def misbehave(agent: Agent, prompt: Message) -> None:
        for _ in range(16):
            os.write(2, b"e" * 65536)
        agent.end(prompt)

    async with bad_session(initialize=flood, misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await works(session)


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [("exit", 3, "exit status 3"), ("exit", 0, "exit status 0"), ("kill", -9, "signal SIGKILL")],
)
async def test_exit_or_sigkill_mid_turn(how: str, status: int, words: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("so far")
        agent.mark("out of memory")
        if agent.arg < 0:
            os.kill(os.getpid(), -agent.arg)
        sys.exit(agent.arg)

    async with bad_session(misbehave=misbehave, arg=status) as session:
        with pytest.raises(agentrt.errors.AgentDied, match=words) as caught:
            await session.run("misbehave")
        result = caught.value.result
        assert result.text == "so far"
        assert result.error is not None
        assert result.error.data == {"returncode": status, "stderr": "out of memory\n"}
        assert session.state.phase == "dead"
        await works(session)
        assert "agent_restarted" in await notices(session)


async def test_closes_stdout_but_lives_on() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        os.close(1)
        while True:
            time.sleep(60)  # ignoring the end of its input, too

    async with bad_session(misbehave=misbehave) as session:
        with trio.fail_after(LADDER + 30):
            result = await session.run("misbehave", check=False)
        assert result.outcome == "agent_died"
        await works(session)
        assert "agent_unreachable" in await notices(session)


async def test_agent_exits_while_a_grandchild_keeps_stdout_open() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.spawn("exec sleep 600", start_new_session=True)
        agent.say("so far")
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        with trio.fail_after(30):  # known from the exit, not from the end of the pipe
            result = await session.run("misbehave", check=False)
        assert (result.outcome, result.text) == ("agent_died", "so far")
        await works(session)


async def test_ignores_cancel() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        while True:
            agent.receive()  # whatever it is

    async with bad_session(misbehave=misbehave) as session:
        async with session.prompt("misbehave") as turn:
            await anext(turn)
            turn.cancel()
            with trio.fail_after(SHORT.cancel_grace_s + 1):
                async for _ in turn:
                    pass
        assert (turn.result.outcome, turn.result.by) == ("cancelled", "caller")
        assert "cancel_ignored" in await notices(session)
        await works(session)  # on another process


SAID = (
    *("nothing", "text", "white space", "thoughts", "image", "plan"),
    *("tool call that has ended", "tool call that runs", "usage", "mode", "title", "commands"),
    *("unknown update", "error"),
)
"""What an agent may say before it ends a prompt as cancelled that nobody cancelled."""


def take_and_cancel(agent: Agent, message: Message) -> None:
    """End every prompt as cancelled from the one that names what is said before each end."""
    if message.get("method") == "session/prompt":
        name, _, kind = message["params"]["prompt"][0]["text"].partition(": ")
        if name == "brick":
            agent.says = kind
    if message.get("method") != "session/prompt" or not hasattr(agent, "says"):
        type(agent).take(agent, message)
        return
    kind, number = agent.says, len(agent.heard)
    agent.insert(message)
    if kind == "text":
        agent.say(f"I begin with number {number}")
        agent.say(" and the rest.")
    elif kind == "white space":
        agent.say(" \n\t")
    elif kind == "thoughts":
        agent.update("agent_thought_chunk", content={"type": "text", "text": "The user wants"})
    elif kind == "image":
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        agent.update("agent_message_chunk", content=image)
    elif kind == "plan":
        step = {"content": "Look", "priority": "high", "status": "pending"}
        agent.update("plan", entries=[step])
    elif "tool call" in kind:
        status = "completed" if "ended" in kind else "in_progress"
        agent.update("tool_call", toolCallId=f"call_{number}", title="Read", status=status)
    elif kind == "usage":
        agent.update("usage_update", used=10 + number, size=1000)
    elif kind == "mode":
        agent.update("current_mode_update", currentModeId=f"m{number % 2}")
    elif kind == "title":
        agent.update("session_info_update", title=f"Talk {number}")
    elif kind == "commands":
        agent.update("available_commands_update", availableCommands=[])
    elif kind == "unknown update":
        agent.update("weather_update", weather="fine")
    if kind == "error":
        agent.refuse(message, -32800, "Request cancelled")
    else:
        agent.end(message, "cancelled")


def obey(agent: Agent, prompt: Message) -> None:
    """Work until the cancel comes, and end the prompt then."""
    agent.say("working")
    agent.wait_for("session/cancel")
    agent.end(prompt, "cancelled")


async def cancel_a_turn(session: agentrt.Session) -> None:
    async with session.prompt("misbehave", check=False) as turn:
        await anext(turn)
        turn.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("before", ["never cancelled", "cancelled", "has answered since"])
async def test_cancels_prompts_that_nobody_has_cancelled(before: str) -> None:
    """Each end names the agent. Behind a cancel one is enough to replace it, else two in a row."""
    async with bad_session(misbehave=obey, take=take_and_cancel, bound=4 * BOUND) as session:
        for said in SAID:
            stuck = (await notices(session)).count("cancel_stuck")
            if before != "never cancelled":
                await cancel_a_turn(session)
            if before == "has answered since":
                await works(session)
            prompts = [f"brick: {said}", "are you there?"]
            for prompt in prompts[: 1 if before == "cancelled" else 2]:
                assert (await notices(session)).count("cancel_stuck") == stuck, said
                lost = await session.run(prompt, check=False)
                assert (lost.outcome, lost.by) == ("cancelled", "agent"), said
            await works(session)  # on another process
            assert (await notices(session)).count("cancel_stuck") == stuck + 1, said


async def test_cancels_a_prompt_now_and_then() -> None:
    """Such an agent is kept, since the prompts in between are answered."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("I have begun")
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave) as session:
        for _ in range(3):
            assert (await session.run("misbehave", check=False)).by == "agent"
            await works(session)
        assert await notices(session) == []


@pytest.mark.parametrize(
    "reply",
    [
        "earlier answer",  # the one that it gave last, word for word
        "begun answer",  # that of the cancelled prompt, from its beginning
        "earlier prompt",  # one that it names
        "nothing",
    ],
)
async def test_answers_an_earlier_prompt_after_a_cancel(reply: str) -> None:
    """The first prompt after the cancel is lost; it is reported, and the next one works."""

    def take(agent: Agent, message: Message) -> None:
        if message.get("method") != "session/prompt" or not getattr(agent, "stuck", False):
            type(agent).take(agent, message)
            return
        if agent.arg == "earlier prompt":
            message["params"]["prompt"] = [{"type": "text", "text": "misbehave"}]
        agent.insert(message)
        if agent.arg == "earlier answer":
            agent.say("how are you on this day?")
        elif agent.arg == "begun answer":
            agent.say("I have been working on this")
            agent.say(" for a while, and it is done.")
        elif agent.arg == "earlier prompt":
            agent.update("user_message_chunk", content={"type": "text", "text": "misbehave"})
            agent.say("It is done.")
        agent.end(message)

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("I have been working on this")
        while agent.receive().get("method") != "session/cancel":
            pass
        agent.stuck = True
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave, take=take, arg=reply) as session:
        await session.run("how are you on this day?")
        async with session.prompt("misbehave", check=False) as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    turn.cancel()
        await session.run("are you there?")
        await works(session)  # on another process
        stuck = [
            each for each in await told(session) if getattr(each, "code", "") == "cancel_stuck"
        ]
        assert [each.data for each in stuck if isinstance(each, agentrt.Notice)] == [
            {
                "end": {"nothing": "no_output", "earlier prompt": "earlier_prompt"}.get(
                    reply, "earlier_answer"
                )
            }
        ]


async def test_never_answers_initialize(mock_clock: MockClock) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        agent.mark("please log in")

    def heard(data: bytes) -> None:
        mock_clock.rate = 1.0  # until now no time has passed, however slow the machine is

    limits = replace(SHORT, startup_timeout_s=0.5)
    with (
        trio.fail_after(limits.startup_timeout_s + LADDER + 1),
        pytest.raises(agentrt.AgentStartError, match=r"(?s)within 0.5 s.*please log in"),
    ):
        async with bad_session(initialize=initialize, limits=limits, on_stderr=heard):
            pass


async def test_protocol_version_2_in_answer_to_1() -> None:
    def initialize(agent: Agent, request: Message) -> None:
        agent.answer(request, {"protocolVersion": 2})

    with pytest.raises(agentrt.AgentStartError, match="version 2"):
        async with bad_session(initialize=initialize):
            pass


async def test_agent_ignores_stdin_eof() -> None:
    def eof(agent: Agent) -> None:
        agent.mark("eof")
        while True:
            time.sleep(60)

    async with bad_session(eof=eof) as session:
        await works(session)
        with trio.fail_after(LADDER + 30):
            await session.aclose()
    assert session.state.phase == "closed"
