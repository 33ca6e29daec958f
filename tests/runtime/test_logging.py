"""What is logged, what each record says that it is about, and what is never in one."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import agentrt
from agentrt.testing import FakeAcpAgent
from runtime.fakes import session_with

OWN = logging.getLogger("program")


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everything that is logged, with what it is about."""
    caplog.handler.addFilter(agentrt.telemetry.LogContext())
    caplog.set_level(logging.DEBUG)
    return caplog


def about(caplog: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str | None, str | None]]:
    """Message, session and turn of the records of one logger."""
    return [
        (r.getMessage(), vars(r)["session"], vars(r)["turn"])
        for r in caplog.records
        if r.name == name
    ]


async def hello(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.say("hello")
        prompt.end()


async def test_a_session_s_life_is_logged_with_what_it_is_about(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with session_with(hello) as (session, _):
        await session.run("hi")
    messages = [message for message, _, _ in about(records, "agentrt.session")]
    assert messages[0].startswith("the agent runs as process ")
    assert messages[1:] == [
        "the session is open",
        "the turn begins",
        "the turn ended: completed after 0 s",
        "the agent's process ended (exit status 0)",
        "the session is closed",
    ]
    [ended] = [r for r in records.records if "turn ended" in r.getMessage()]
    fields = vars(ended)
    assert (fields["session"], fields["agent"], fields["turn"]) == ("id1", "fake", "t1")
    assert (fields["outcome"], fields["seconds"]) == ("completed", 0)
    assert 0 < fields["seq"] <= session.log.seq
    assert ended.levelno == logging.INFO


async def test_two_sessions_at_once_log_each_for_itself_in_whosever_task(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with (
        session_with(hello, id="a", name="one") as (one, _),
        session_with(hello, id="b", name="two") as (two, _),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(one.run, "1")
        nursery.start_soon(two.run, "2")
    named = {r.getMessage(): set[tuple[str, str]]() for r in records.records}
    for record in records.records:
        if record.name == "agentrt.session":
            fields = vars(record)
            named[record.getMessage()].add((fields["session"], fields["agent"]))
    both = {("a1", "one"), ("b1", "two")}
    for message in ("the session is open", "the turn begins", "the session is closed"):
        assert named[message] == both


async def test_what_a_program_logs_in_its_block_is_no_session_s(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async with session_with(hello) as (session, _), session.prompt("hi"):
        OWN.info("mine")
    OWN.info("mine as well")
    assert about(records, "program") == [("mine", None, None), ("mine as well", None, None)]


async def test_a_policy_and_a_tool_log_for_their_session_and_turn(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def asking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end()

    def at_once(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        OWN.info("asked")
        return agentrt.Allow()

    async def later(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        OWN.info("asked, later")
        return agentrt.Allow()

    async with (
        session_with(asking, id="a", permissions=at_once) as (one, _),
        session_with(asking, id="b", permissions=later) as (two, _),
    ):
        await one.run("1")
        await two.run("2")
        await two.run("3")
    assert about(records, "program") == [
        ("asked", "a1", "t1"),
        ("asked, later", "b1", "t1"),
        ("asked, later", "b1", "t2"),
    ]


@pytest.mark.slow
async def test_a_session_that_a_tool_of_another_one_opens_logs_for_itself(
    records: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    @agentrt.tool
    async def delegate() -> str:
        """Has another agent work."""
        OWN.info("in the tool")
        async with agentrt.open_session("demo", cwd=tmp_path) as inner:
            await inner.run("hello")
        OWN.info("in the tool again")
        return "done"

    async with agentrt.open_session(
        "demo", cwd=tmp_path, tools=[delegate], permissions=agentrt.allow_all
    ) as outer:
        await outer.run("/tool delegate {}")
        assert about(records, "program") == [
            ("in the tool", outer.id, "t1"),
            ("in the tool again", outer.id, "t1"),
        ]
    ends = [r for r in about(records, "agentrt.session") if "turn ended" in r[0]]
    assert len({session for _, session, _ in ends}) == 2


async def test_a_handler_that_fails_is_logged_once_with_its_traceback(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def asking(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await agent.ask()
            prompt.end()

    def broken(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        raise RuntimeError("Authorization: Bearer abcdefghijklmnop")

    async with session_with(asking, permissions=broken) as (session, _):
        await session.run("hi")
    [failed] = [r for r in records.records if r.levelno == logging.ERROR]
    assert failed.getMessage() == "the permission policy failed"
    assert vars(failed)["turn"] == "t1"
    text = logging.Formatter().format(failed)
    assert "RuntimeError" in text
    assert "abcdefghijklmnop" not in text


async def test_a_dead_agent_a_restart_and_a_limit_are_logged(
    records: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def dies(agent: FakeAcpAgent) -> None:
        await agent.prompts.receive()
        agent.process.exit(3)

    async def hangs(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await prompt.cancelled.wait()
            prompt.end("cancelled")

    async with session_with(dies, hangs, limits=agentrt.Limits(turn_timeout_s=5)) as (session, _):
        await session.run("1", check=False)
        await session.run("2", check=False)
    logged = [
        (r.levelname, r.getMessage(), vars(r)["turn"])
        for r in records.records
        if r.name == "agentrt.session" and r.levelno >= logging.INFO
    ]
    how = "the agent's process ended (exit status 3)"
    assert ("WARNING", how, "t1") in logged
    ended = f"the turn ended: agent_died after 0 s: {how} before the turn was over"
    assert ("WARNING", ended, "t1") in logged
    restarted = "the agent was started again and does not remember the conversation"
    assert ("WARNING", restarted, None) in logged
    assert (
        "WARNING",
        "the turn reached its hard limit of 5 s (limits.turn_timeout_s)",
        "t2",
    ) in logged
    assert ("INFO", "the turn is being cancelled by agentrt", "t2") in logged


AGENT = """
import json, os, sys
print("warming up", os.environ["FAKE_API_KEY"], file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": 1, "sessionId": "s"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    print("and no newline", end="", file=sys.stderr, flush=True)
"""


async def test_an_agent_s_stderr_is_logged_by_lines_without_its_secrets(
    records: pytest.LogCaptureFixture,
) -> None:
    agent = agentrt.agents.acp((sys.executable, "-c", AGENT), name="noisy")
    env = {"FAKE_API_KEY": "not-to-be-seen"}
    async with agentrt.open_session(agent, env=env) as session:
        pass
    said = about(records, "agentrt.process.stderr")
    assert said[0] == ("warming up [redacted]", session.id, None)
    assert said[-1] == ("and no newline" * 2, session.id, None)


async def test_a_process_that_does_not_leave_is_logged_with_each_signal(
    records: pytest.LogCaptureFixture,
) -> None:
    stubborn = AGENT + "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn += "print('deaf', file=sys.stderr, flush=True); time.sleep(60)"
    agent = agentrt.agents.acp((sys.executable, "-c", stubborn), name="stubborn")
    limits = agentrt.Limits(stdin_close_grace_s=0.5, terminate_grace_s=0.1)
    async with agentrt.open_session(agent, env={"FAKE_API_KEY": ""}, limits=limits) as session:
        pid = session.agent.pid
    [term, kill] = [r for r in records.records if r.name == "agentrt.process"]
    assert (vars(term)["signal"], term.levelname) == ("SIGTERM", "INFO")
    assert (vars(kill)["signal"], kill.levelname) == ("SIGKILL", "WARNING")
    assert vars(kill)["session"] == session.id
    assert vars(kill)["pid"] == pid


_BROKEN_POLICY = """
import agentrt, trio
{setup}
def broken(request): raise RuntimeError("a mistake")
async def main():
    async with agentrt.open_session("demo", permissions=broken) as session:
        result = await session.run("create a.txt with a")
        assert result.denials
        assert [each.error for each in result.failures] == ["RuntimeError: a mistake"]
        await session.run("/slow 5", check=False, limits=agentrt.Limits(turn_timeout_s=0.1))
trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "printed"),
    [
        ("", True),
        ("import logging; logging.basicConfig(filename='log')", False),
        ("import logging; logging.getLogger('agentrt').addHandler(logging.NullHandler())", False),
    ],
    ids=["no logging", "logging to a file", "logging turned off"],
)
def test_exceptions_of_the_program_s_own_code_are_printed_unless_it_configures_logging(
    tmp_path: Path, setup: str, printed: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BROKEN_POLICY.format(setup=setup)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "")
    if printed:
        assert done.stderr.startswith("agentrt: the permission policy failed\nTraceback ")
        assert done.stderr.endswith("RuntimeError: a mistake\n")  # and nothing of the time limit
    else:
        assert done.stderr == ""


async def test_a_piece_of_text_costs_no_call_of_logging(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    calls = []
    monkeypatch.setattr(logging.Logger, "isEnabledFor", lambda self, level: calls.append(level))

    async def chatty(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(int(prompt.text)):
                agent.say("word ")
                await trio.lowlevel.checkpoint()
            prompt.end()

    async with session_with(chatty) as (session, _):
        await session.run("1")
        calls.clear()
        await session.run("1")
        few = len(calls)
        calls.clear()
        await session.run("500")
    assert len(calls) == few + 2  # and the session's end
