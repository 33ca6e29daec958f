"""What brokers of agents stumbled over, by the numbers of the third table in
`docs/project/failure-shapes.md`: those shapes that no other test has."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

import agentrt
from agentrt.agents import Quirks
from agentrt.effects import TurnFinished
from claude.rig import INIT, Rig, only, result, state
from faults.quick import mostly_slow

from .bad_agent import Agent, Message, Tools
from .kit import (
    BOUND,
    PATIENT,
    SHORT,
    Marks,
    bad_agent,
    bad_session,
    notices,
    outcomes,
    until,
    works,
)

LOADS = {"loadSession": True}


# --- processes


async def test_f4_what_an_agent_started_twice_removed_ends_with_it() -> None:
    """The suite's own check finds what is left, whatever ties it has cut."""

    def start(agent: Agent) -> None:
        if os.fork():
            os.wait()
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        while True:
            time.sleep(60)

    async with bad_session(start=start) as session:
        await works(session)


@pytest.mark.parametrize("how", ["is read by nobody", "is closed by the agent"])
async def test_f7_an_agent_may_write_to_stderr_or_close_it(how: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for _ in range(32):
            os.write(2, b"e" * 65536)
        if agent.arg == "is closed by the agent":
            os.close(2)
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=how) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await works(session)


@pytest.mark.slow
async def test_f44_a_session_is_resumed_when_the_old_process_is_gone(tmp_path: Path) -> None:
    """Two processes on one conversation would both write its history."""

    def start(agent: Agent) -> None:
        try:
            with open(agent.arg) as file, open(f"/proc/{file.read()}/stat") as stat:
                agent.mark("alone" if stat.read().rpartition(")")[2].split()[0] == "Z" else "two")
        except FileNotFoundError:
            agent.mark("alone")
        with open(agent.arg, "w") as file:
            file.write(str(os.getpid()))

    def eof(agent: Agent) -> None:
        while True:
            time.sleep(60)

    def misbehave(agent: Agent, prompt: Message) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            agent.receive()

    marks = Marks()
    async with bad_session(
        start=start,
        misbehave=misbehave,
        eof=eof,
        capabilities=LOADS,
        arg=str(tmp_path / "pid"),
        on_stderr=marks,
    ) as session:
        async with session.prompt("misbehave") as turn:
            turn.cancel()
        await works(session)
        assert marks.seen.split() == ["alone", "alone"]


async def test_f55_an_agent_has_time_to_put_its_locks_away(tmp_path: Path) -> None:
    def eof(agent: Agent) -> None:
        time.sleep(0.1)
        os.unlink(agent.arg)
        sys.exit(0)

    lock = tmp_path / "lock"
    lock.touch()
    async with bad_session(eof=eof, arg=str(lock), limits=PATIENT) as session:
        await works(session)
    assert not lock.exists()


STEPS = ("initialize", "new_session", "prompt", "text", "tool", "permission", "file", "answered")


@pytest.mark.parametrize("how", mostly_slow(["kill", "exit 0", "exit 1"], one_in=3))
@pytest.mark.parametrize("step", STEPS)
async def test_f46_an_exit_at_any_step_ends_what_was_open(step: str, how: str) -> None:
    def leave(agent: Agent) -> None:
        if agent.arg[1] == "kill":
            os.kill(os.getpid(), 9)
        sys.exit(int(agent.arg[1][-1]))

    def initialize(agent: Agent, request: Message) -> None:
        if agent.arg[0] == "initialize":
            agent.leave()
        agent.greet(request)

    def new_session(agent: Agent, request: Message) -> None:
        if agent.arg[0] == "new_session":
            agent.leave()
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        match agent.arg[0]:
            case "text":
                agent.say("so far")
            case "tool":
                agent.update("tool_call", toolCallId="c", title="Run", status="in_progress")
            case "permission":
                call = {"toolCall": {"toolCallId": "c"}, "options": []}
                agent.begin_request("session/request_permission", call)
            case "file":
                agent.begin_request("fs/read_text_file", {"path": "/etc/hostname"})
            case "answered":
                agent.end(prompt)
        agent.leave()

    methods = {
        "leave": leave,
        "initialize": initialize,
        "new_session": new_session,
        "misbehave": misbehave,
    }
    if step in STEPS[:2]:
        with pytest.raises(agentrt.AgentStartError, match="ended before it was ready"):
            async with bad_session(arg=[step, how], **methods):
                pass
        return
    async with bad_session(arg=[step, how], permissions=agentrt.ask, **methods) as session:
        result = await session.run("misbehave", check=False)
        assert result.outcome == ("completed" if step == "answered" else "agent_died")
        await until(session, lambda: session.state.phase == "dead")
        assert session.snapshot().permissions == []
        assert all(item.status != "in_progress" for item in session.snapshot().items)
        await works(session)


# --- pipes


async def test_f8_answers_and_a_flood_may_cross_in_full_pipes(tmp_path: Path) -> None:
    """The agent asks for a megabyte, and writes much before it reads again."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        path = os.path.join(os.getcwd(), "large")
        for _ in range(3):
            asked = agent.begin_request("fs/read_text_file", {"path": path})
            for _ in range(100):
                agent.say("x" * 4096)
            while (message := agent.receive()).get("id") != asked:
                pass
            agent.say(str(len(message["result"]["content"])))
        agent.end(prompt)

    (tmp_path / "large").write_text("y" * (1 << 20))
    async with bad_session(misbehave=misbehave, limits=PATIENT, cwd=tmp_path) as session:
        text = (await session.run("misbehave")).text
        assert len(text) == 3 * (100 * 4096 + 7)
        assert text.count(str(1 << 20)) == 3
        await works(session)


@pytest.mark.parametrize("size", [(1 << 16) + 1, (1 << 18) + 1, 1 << 20])
async def test_f12_a_line_of_any_size_is_a_message(size: int) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("é" * (agent.arg // 2))
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=size) as session:
        assert (await session.run("misbehave")).text == "é" * (size // 2)
        await works(session)


async def test_f18_what_the_agent_asks_is_answered_although_nobody_reads_the_turn() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for number in range(300):
            agent.say("x" * 1000)
            assert agent.ask(f"call_{number}") == "yes"
        agent.say("done")
        agent.end(prompt)

    small = replace(PATIENT, recent_events=16, recent_events_bytes=4096)
    async with bad_session(
        misbehave=misbehave, permissions=agentrt.allow_all, limits=small
    ) as session:
        async with session.prompt("misbehave") as turn:
            await until(session, lambda: turn.ended)
        assert turn.result.text.endswith("done")
        await works(session)


# --- turns


async def test_f20_what_a_cancelled_turn_still_says_is_in_no_later_one() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("working")
        agent.wait_for("session/cancel")
        text = {"type": "text", "text": "late "}
        late = agent.updating("agent_message_chunk", content=text)
        agent.send({"id": prompt["id"], "result": {"stopReason": "cancelled"}}, *[late] * 20)

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        for _ in range(3):
            async with session.prompt("misbehave") as turn:
                await anext(turn)
                turn.cancel()
            assert "late" not in turn.result.text
            await works(session)


@pytest.mark.parametrize("ms", [0, 1, 5])
async def test_f25_a_cancel_at_any_time_ends_the_turn(ms: int) -> None:
    """Before the agent has read the prompt, while it reads it, when it works."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        if not agent.pending(0.002):  # slow to begin
            agent.say("working")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    async with bad_session(misbehave=misbehave, limits=PATIENT) as session:
        pid = session.agent.pid
        for _ in range(5):
            async with session.prompt("misbehave") as turn:
                if ms:
                    await trio.sleep(ms / 1000)
                turn.cancel()
            assert turn.result.outcome == "cancelled"
            await works(session)
        assert session.agent.pid == pid


async def test_f40_an_agent_that_is_not_ready_yet_fails_the_prompt_with_its_words() -> None:
    """It is not sent again: nobody but the agent knows whether it has begun."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.end(prompt)
        busy = agent.wait_for("session/prompt")
        agent.refuse(busy, -32600, "a prompt is running")

    async with bad_session(misbehave=misbehave) as session:
        await session.run("misbehave")
        with pytest.raises(agentrt.errors.AgentFailed, match="a prompt is running"):
            await session.run("hello")
        await works(session)
        heard = (await session.run("report")).text.split()
        assert heard.count("session/prompt") == 4


async def test_f42_a_prompt_whose_agent_died_is_not_sent_again(tmp_path: Path) -> None:
    def start(agent: Agent) -> None:
        agent.mark("started")

    def misbehave(agent: Agent, prompt: Message) -> None:
        with open(agent.arg, "a") as file:
            file.write("worked\n")
        os.kill(os.getpid(), 9)

    work = tmp_path / "work"
    marks = Marks()
    async with bad_session(
        start=start, misbehave=misbehave, arg=str(work), capabilities=LOADS, on_stderr=marks
    ) as session:
        assert (await session.run("misbehave", check=False)).outcome == "agent_died"
        await works(session)
        assert marks.seen.split() == ["started", "started"]
        assert work.read_text() == "worked\n"


@pytest.mark.parametrize(
    ("end", "outcome", "status"),
    [
        ("forgets it", "completed", "completed"),
        pytest.param("fails", "failed", "failed", marks=pytest.mark.slow),
        ("dies", "agent_died", "orphaned"),
        pytest.param("is cancelled", "cancelled", "cancelled", marks=pytest.mark.slow),
        ("ignores all", "cancelled", "cancelled"),
        ("is slow", "timed_out", "cancelled"),
    ],
)
async def test_f51_no_tool_call_runs_on_for_ever(end: str, outcome: str, status: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.update("tool_call", toolCallId="c", title="Run", status="in_progress")
        match agent.arg:
            case "forgets it":
                agent.end(prompt)
            case "fails":
                agent.refuse(prompt, -32603, "it broke")
            case "dies":
                sys.exit(1)
            case "is cancelled":
                agent.wait_for("session/cancel")
                agent.end(prompt, "cancelled")
            case _:
                while True:
                    agent.receive()

    limits = replace(SHORT, turn_timeout_s=0.3) if end == "is slow" else SHORT
    async with bad_session(misbehave=misbehave, arg=end, limits=limits) as session:
        async with session.prompt("misbehave", check=False) as turn:
            async for event in turn:
                if isinstance(event, agentrt.ItemOpened) and event.item.tool is not None:
                    if end in ("is cancelled", "ignores all"):
                        turn.cancel()
        assert turn.result.outcome == outcome
        [item] = [item for item in session.snapshot().items if item.tool is not None]
        assert item.status == status
        await works(session)


async def test_f62_a_turn_in_which_nothing_was_said_or_done_is_no_failure_of_ours() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.answer(prompt, {"stopReason": "end_turn", "usage": {"totalTokens": 0}})

    async with bad_session(misbehave=misbehave) as session:
        result = await session.run("misbehave")
        assert (result.outcome, result.text) == ("completed", "")
        assert [item.type for item in session.snapshot().items] == ["user"]
        await works(session)


# --- beginnings, names


async def test_f59_a_session_has_its_own_tools_and_no_others() -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say(agent.tools.call("mine") + ", " + agent.tools.call("others"))
        agent.end(prompt)

    @agentrt.tool
    async def mine() -> str:
        """Of this session."""
        return "called"

    @agentrt.tool
    async def others() -> str:
        """Of the other one."""
        raise AssertionError("called")

    order = {"new_session": new_session, "misbehave": misbehave}
    async with (
        bad_session(tools=(mine,), **order) as session,
        bad_session(tools=(others,), **order),
    ):
        text = (await session.run("misbehave")).text
        assert text.startswith("called, ")
        assert "others" in text


async def test_f60_a_login_that_never_ends_is_a_start_error(mock_clock: MockClock) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        methods = [{"id": "key", "name": "API key"}]
        agent.answer(request, {"protocolVersion": 1, "authMethods": methods})

    def new_session(agent: Agent, request: Message) -> None:
        agent.refuse(request, -32000, "Authentication required")

    def other(agent: Agent, message: Message) -> None:
        agent.mark(message["method"])  # and no answer

    def heard(data: bytes) -> None:
        mock_clock.rate = 1.0  # until now no time has passed, however slow the machine is

    agent = bad_agent(initialize=initialize, new_session=new_session, other=other)
    agent = replace(agent, quirks=Quirks(auth_method="key"))
    limits = replace(SHORT, startup_timeout_s=0.5)
    with (
        trio.fail_after(BOUND),
        pytest.raises(agentrt.AgentStartError, match=r"(?s)not ready.*authenticate"),
    ):
        async with agentrt.open_session(agent, limits=limits, on_stderr=heard):
            pass


@pytest.mark.parametrize("id", ["the prompt's", 0, -1, "7", "", 1.5, 2**70])
async def test_f61_an_agent_numbers_its_requests_as_it_likes(id: object) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        id = prompt["id"] if agent.arg == "the prompt's" else agent.arg
        agent.send({"id": id, "method": "_vendor/question", "params": {}})
        answer = agent.receive()
        agent.say(f"{answer['id'] == id} {answer['error']['code']}")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=id) as session:
        assert (await session.run("misbehave")).text == "True -32601"
        await works(session)


# --- bytes


@pytest.mark.parametrize("how", ["a byte at a time", "with CRLF", "behind a BOM", "with blanks"])
async def test_bytes_of_a_message_may_come_in_any_form(how: str) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        chunk = agent.updating("agent_message_chunk", content={"type": "text", "text": "é\x00€𝄞"})
        line = json.dumps({"jsonrpc": "2.0", **chunk}, ensure_ascii=False).encode()
        match agent.arg:
            case "a byte at a time":
                for byte in line + b"\n":
                    agent.raw(bytes([byte]))
                    time.sleep(0.0005)
            case "with CRLF":
                agent.raw(line + b"\r\n")
            case "behind a BOM":
                agent.raw(b"\xef\xbb\xbf" + line + b"\n")
            case "with blanks":
                agent.raw(b"\n \n\t" + line + b"  \n\n")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, arg=how) as session:
        assert (await session.run("misbehave")).text == "é\x00€𝄞"
        await works(session)


@pytest.mark.slow
async def test_bytes_without_a_newline_do_not_fill_the_memory() -> None:
    """A quarter of a gibibyte here; how much it is makes no difference."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("a")
        for _ in range(256):
            agent.raw(b"x" * (1 << 20))
        agent.raw(b"\n")
        agent.say("b")
        agent.end(prompt)

    async with bad_session(
        misbehave=misbehave, limits=replace(PATIENT, message_bytes=1 << 20), bound=60
    ) as session:
        async with session.prompt("misbehave") as turn:
            [notice] = [event async for event in turn if isinstance(event, agentrt.Notice)]
        assert notice.code == "line_too_long"
        assert notice.data == {"size": 256 << 20, "limit": 1 << 20}
        assert turn.result.text == "ab"
        await works(session)


@pytest.mark.slow
async def test_a_flood_of_a_hundred_thousand_notifications_is_nothing_special() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        line = b'{"jsonrpc":"2.0","method":"_vendor/noise","params":{}}\n'
        agent.raw(line * 100_000)
        agent.say("a")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, bound=60) as session:
        assert (await session.run("misbehave")).text == "a"
        assert await notices(session) == []
        assert await outcomes(session) == ["completed"]
        await works(session)


def test_f24_the_end_of_an_interrupt_need_not_have_a_result() -> None:
    rig = Rig()
    rig.start()
    rig.prompt("go")
    rig.feed(state("running"), INIT)
    rig.do(rig.driver.cancel())
    aborted = result("u1", subtype="error_during_execution", is_error=True)
    for field in ("result", "terminal_reason", "stop_reason"):
        del aborted[field]
    finished = only(rig.feed(aborted, state("idle")), TurnFinished)
    assert (finished.outcome, finished.error) == ("cancelled", None)
