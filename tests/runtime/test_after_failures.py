"""An agent that lost its login, cannot be started again, or does not know the program's tools."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt.testing import FakeAcpAgent, FakeCodexAgent, MemoryAgent, open_fake_session
from runtime.fakes import log_of, session_with

AGENT = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        r = {"protocolVersion": 1, "authMethods": [{"id": "web", "name": "Log in on the web"}]}
    elif m.get("method") == "session/new":
        r = {"sessionId": "s1"}
    elif m.get("method") == "session/prompt":
        error = {"code": -32000, "message": "Authentication required"}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": error}), flush=True)
        if "leave" in line:
            sys.exit(3)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


async def test_a_login_that_expires_in_a_session_lists_the_ways_to_log_in(tmp_path: Path) -> None:
    agent = agentrt.agents.acp([sys.executable, "-c", AGENT])
    with trio.fail_after(20):
        async with agentrt.open_session(agent, cwd=tmp_path) as session:
            result = await session.run("go", check=False)
    error = result.error
    assert error is not None
    assert (error.code, error.cause) == ("auth_required", "auth")
    assert "Log in on the web" in error.message
    assert error.data["methods"] == [{"id": "web", "name": "Log in on the web", "type": "agent"}]


async def test_an_agent_that_cannot_be_started_again_is_a_result_of_an_unchecked_run(
    tmp_path: Path,
) -> None:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    agent = agentrt.agents.acp([sys.executable, str(program)])
    with trio.fail_after(20):
        async with agentrt.open_session(agent, cwd=tmp_path) as session:
            await session.run("leave", check=False)
            program.unlink()
            with session.subscribe(after=0) as events:
                async for event in events:
                    if (
                        isinstance(event, agentrt.events.StateChanged)
                        and event.state.phase == "dead"
                    ):
                        break
            result = await session.run("go", check=False)
            assert (result.outcome, result.turn) == ("agent_died", "")
            assert result.error is not None
            assert result.error.code == "agent_failed"
            with pytest.raises(agentrt.AgentrtError):
                await session.run("go")


@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [
        (-32000, "Authentication required", "auth"),
        (-32603, "429 Too Many Requests", "rate_limit"),
        (-32603, "unknown model m-9", "model_unknown"),
        (-32603, "the disk is full", None),
    ],
)
async def test_a_refused_start_has_the_cause_that_the_agent_names(
    autojump_clock: trio.abc.Clock, code: int, message: str, cause: str | None
) -> None:
    """The one cause is in the error of the opening, of an unchecked run and of the session."""
    refuses = False

    class Refusing(FakeAcpAgent):
        def _take(self, request: dict[str, Any]) -> None:
            if refuses and request.get("method") in ("session/new", "session/load"):
                self.error(request["id"], code, message)
            else:
                super()._take(request)

    async def script(process: MemoryAgent) -> None:
        async with Refusing.serving(process) as agent:
            async for _ in agent.prompts:
                process.exit(3)

    start = partial(MemoryAgent, script)
    async with open_fake_session(start) as session:
        refuses = True
        await session.run("leave", check=False)
        result = await session.run("go", check=False)
        assert result.error is not None
        assert (result.error.code, result.error.cause) == ("agent_failed", cause)
        assert session.state.error == result.error
    with pytest.raises(agentrt.AgentStartError) as caught:
        async with open_fake_session(start):
            pass
    assert caught.value.cause == cause


@agentrt.tool
async def look(what: str) -> str:
    """Look at something."""
    await trio.lowlevel.checkpoint()
    return what


async def test_tools_that_an_agent_never_asks_for_are_a_notice_after_the_first_turn(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def obedient(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()

    async with session_with(obedient, tools=[look]) as (session, _):
        await session.run("go")
        await session.run("again")
        told = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
    assert [(notice.level, notice.code) for notice in told] == [("warning", "tools_not_fetched")]
    assert told[0].data == {"tools": ["look"]}


async def test_tools_that_were_sent_need_not_be_asked_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def obedient(process: MemoryAgent) -> None:
        async with FakeCodexAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                prompt.end()

    start = partial(MemoryAgent, obedient)
    async with open_fake_session(start, protocol="codex", tools=[look]) as session:
        await session.run("go")
        told = [e for e in log_of(session) if isinstance(e, agentrt.Notice)]
    assert told == []
