"""The agent is started once more: what becomes of the conversation, and who may end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from fakes import Script, echo, kinds, log_of, session_with, unresponsive

import agentrt
from agentrt.testing import FakeAcpAgent

RESUMES = {"capabilities": {"loadSession": True}}


async def dies(agent: FakeAcpAgent) -> None:
    async for _ in agent.prompts:
        agent.process.exit(3)


def refusing(code: int, message: str) -> Script:
    """An agent that answers `session/load` so."""

    async def script(agent: FakeAcpAgent) -> None:
        take = agent._take

        def refuse(request: dict) -> None:
            if request.get("method") == "session/load":
                agent.received.append(request)
                agent.error(request["id"], code, message)
            else:
                take(request)

        agent._take = refuse  # type: ignore[method-assign]
        await echo(agent)

    return script


async def test_a_session_closed_while_its_agent_is_started_again_is_closed_and_stays_so(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def slow(agent: FakeAcpAgent) -> None:
        agent._take = lambda request: None  # type: ignore[method-assign]
        await trio.sleep_forever()

    async with session_with(dies, slow, fake=RESUMES) as (session, agents):
        await session.run("go", check=False)
        with trio.move_on_after(1):
            await session.run("never sent")
        begun = trio.current_time()
        await session.aclose()
        assert session.state.phase == "closed"
        assert trio.current_time() - begun < session.limits.startup_timeout_s
    assert session.state.phase == "closed"
    assert kinds(log_of(session)).count("turn.started") == 1
    assert [process.returncode is not None for process in agents.processes] == [True, True]
    assert "eof" in agents.processes[1].signals  # the ladder, not only its last rung


async def killed_on_cancel(session: agentrt.Session) -> None:
    async with session.prompt("go", check=False):
        await trio.sleep(1)
        session.cancel(now=True)


async def died(session: agentrt.Session) -> None:
    await session.run("go", check=False)


async def left(session: agentrt.Session) -> None:
    await session.aclose()


@pytest.mark.parametrize("ends", [killed_on_cancel, died, left])
async def test_of_an_agent_that_has_ended_no_process_is_named(
    autojump_clock: trio.abc.Clock, ends: Callable[[agentrt.Session], Awaitable[None]]
) -> None:
    script = dies if ends is died else unresponsive
    async with session_with(script) as (session, agents):
        assert (session.agent.pid, session.agent.alive) == (agents.processes[0].pid, True)
        await ends(session)
        await trio.sleep(60)
        assert (session.agent.pid, session.agent.alive) == (None, False)
        assert session.state.agent == session.agent


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32002, "Resource not found"),
        (-32603, "Session not found: s1"),
        (-32603, "session s1 does not exist"),
        (-32603, 'Invalid session identifier "s1".'),
        (-32603, "No previous sessions found for this project."),
    ],
)
async def test_an_agent_that_does_not_know_the_conversation_begins_an_empty_one_and_it_is_reported(
    autojump_clock: trio.abc.Clock, code: int, message: str
) -> None:
    async with session_with(dies, refusing(code, message), fake=RESUMES) as (session, agents):
        await session.run("go", check=False)
        assert (await session.run("again")).text == "again"
        [notice] = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
        assert (notice.code, notice.data) == ("agent_restarted", {"resumed": False})
        assert len(agents.processes) == 3


@pytest.mark.parametrize("message", ["Internal error", "database is locked", "Rate limited"])
async def test_an_agent_that_refuses_to_resume_for_another_reason_keeps_the_conversation(
    autojump_clock: trio.abc.Clock, message: str
) -> None:
    refusal = refusing(-32603, message)
    scripts = (dies, refusal, echo)
    async with session_with(*scripts, fake=RESUMES) as (session, agents):
        await session.run("go", check=False)
        with pytest.raises(agentrt.AgentStartError, match=f"resume the conversation.*{message}"):
            await session.run("again")
        assert session.state.phase == "dead"
        assert session.state.error is not None
        assert message in session.state.error.message
        assert agents.sent("session/new", 1) == []
        # The next prompt tries once more, and the conversation goes on.
        assert (await session.run("once more")).text == "once more"
        assert [m["params"]["sessionId"] for m in agents.sent("session/load")] == ["s1"]


async def test_a_prompt_that_waits_for_its_agent_to_be_started_is_taken_back_by_a_cancel(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(dies, echo, fake=RESUMES) as (session, agents):
        await session.run("go", check=False)
        turn = session.submit("never")
        assert session.queue
        turn.cancel()
        turn.cancel()
        assert not session.queue
        assert (await session.run("next")).text == "next"
        assert [m["params"]["prompt"][0]["text"] for m in agents.sent("session/prompt")] == ["next"]
