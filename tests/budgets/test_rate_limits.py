"""`wait=WaitForLimits(…)`: a turn waits for the end of a rate limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import agentrt
from agentrt.events import Notice
from agentrt.testing import FakeAcpAgent
from agentrt.tools import Terminal, TerminalExit, TerminalOutput
from agentrt.unattended import WaitForLimits
from runtime.fakes import Incarnations, Script, log_of, session_with
from runtime.own_tools import HTTP, client_of, entry_of

NOW = 1_800_000_000.0
FOLDER = "/nowhere/project"
LIMITED = "429: rate limit exceeded"


def wall() -> float:
    """A wall clock that runs with Trio's."""
    return NOW + trio.current_time()


@asynccontextmanager
async def waiting(
    script: Script, at_most_s: float = 6 * 3600, **options: Any
) -> AsyncIterator[tuple[agentrt.Session, Incarnations]]:
    wait = WaitForLimits(at_most_s=at_most_s)
    async with session_with(script, now=wall, wait=wait, **options) as opened:
        yield opened


def limited(times: int, data: Any = None, message: str = LIMITED) -> Script:
    """An agent whose first prompts fail because of a rate limit."""

    async def script(agent: FakeAcpAgent) -> None:
        left = times
        async for prompt in agent.prompts:
            if left:
                left -= 1
                prompt.fail(message=message, data=data)
            else:
                agent.say("done")
                prompt.end()

    return script


def notices(session: agentrt.Session, code: str) -> list[Notice]:
    return [e for e in log_of(session) if isinstance(e, Notice) and e.code == code]


async def test_the_prompt_is_sent_again_when_the_limit_ends(autojump_clock: MockClock) -> None:
    resets = {"resetsAt": NOW + 3 * 3600}
    async with waiting(limited(1, resets)) as (session, agents):
        result = await session.run("work")
        assert (result.outcome, result.text) == ("completed", "done")
        assert 3 * 3600 <= trio.current_time() <= 3 * 3600 + 60
        assert len(agents.sent("session/prompt")) == 2
        assert [turn.id for turn in session.snapshot().turns] == [result.turn]
        [notice] = notices(session, "rate_limit_wait")
        assert notice.data["until"] == pytest.approx(NOW + 3 * 3600, abs=60)


async def test_viewers_see_the_time_until_which_a_turn_waits(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 900})) as (session, _):
        turn = session.submit("work")
        await trio.sleep(60)
        running = session.state.turn
        assert running is not None
        assert running.waits_until == pytest.approx(NOW + 900, abs=10)
        assert running.deadline is None  # its own limits do not count meanwhile
        await session.wait_idle()
        assert turn.result.outcome == "completed"


async def test_without_a_time_the_waits_become_longer(autojump_clock: MockClock) -> None:
    async with waiting(limited(3)) as (session, agents):
        assert (await session.run("work")).outcome == "completed"
        assert 7 * 60 <= trio.current_time() <= 8 * 60
        assert len(agents.sent("session/prompt")) == 4


async def test_a_wait_that_would_be_too_long_is_not_begun(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 7200}), at_most_s=3600) as (session, agents):
        result = await session.run("work", check=False)
        assert result.outcome == "failed"
        assert trio.current_time() < 60
        assert len(agents.sent("session/prompt")) == 1


async def test_the_waits_of_one_turn_add_up(autojump_clock: MockClock) -> None:
    async with waiting(limited(100), at_most_s=3600) as (session, _):
        assert (await session.run("work", check=False)).outcome == "failed"
        assert trio.current_time() < 3600


@pytest.mark.parametrize("did", ["said", "called a tool", "asked"])
async def test_a_turn_that_has_done_something_is_not_repeated(
    autojump_clock: MockClock, did: str
) -> None:
    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if did == "said":
                agent.say("I begin.")
            elif did == "called a tool":
                agent.use("call", "rm -rf build")
            else:
                await agent.ask()
            prompt.fail(message=LIMITED)

    async with waiting(script, permissions=agentrt.deny_all) as (session, agents):
        assert (await session.run("work", check=False)).outcome == "failed"
        assert len(agents.sent("session/prompt")) == 1
        assert len(notices(session, "rate_limit_offer")) == 1


class Services:
    """Files and terminals in which nothing happens."""

    async def read_text_file(self, path: str) -> str:
        return ""

    async def write_text_file(self, path: str, content: str) -> None:
        pass

    async def create(self, command: Sequence[str], **options: Any) -> Terminal:
        return self

    async def output(self) -> TerminalOutput:
        return TerminalOutput("")

    async def wait(self) -> TerminalExit:
        return TerminalExit(exit_code=0)

    async def kill(self) -> None:
        pass

    async def release(self) -> None:
        pass


@agentrt.tool
def noted() -> str:
    return "noted"


@pytest.mark.parametrize("did", ["wrote", "ran", "called", "asked", "read", "nothing"])
async def test_a_turn_for_which_this_process_did_something_is_not_repeated(did: str) -> None:
    """Also if the agent has reported no tool call. With a real clock, because of threads."""
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "wrote": ("fs/write_text_file", {"path": f"{FOLDER}/new", "content": ""}),
        "read": ("fs/read_text_file", {"path": f"{FOLDER}/old"}),
        "ran": ("terminal/create", {"command": "make"}),
    }

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if did in requests:
                method, params = requests[did]
                assert "result" in await agent.request(method, params)
            elif did == "called":
                async with client_of(entry_of(agents)) as client:
                    assert not (await client.call_tool("noted", {})).is_error
            elif did == "asked":
                await agent.ask()
            prompt.fail(message=LIMITED)

    options = {"cwd": FOLDER, "files": Services(), "terminals": Services(), "tools": [noted]}
    again = did in ("read", "nothing")
    opening = waiting(script, 100, permissions=agentrt.allow_all, fake=HTTP, **options)
    async with opening as (session, agents):
        events = session.subscribe(after=0)
        session.submit("work")
        with trio.fail_after(30):
            async for event in events:
                if isinstance(event, Notice) and event.code.startswith("rate_limit_"):
                    break
        session.cancel()
        assert event.code == ("rate_limit_wait" if again else "rate_limit_offer")


async def test_a_failure_tells_when_its_limit_ends(autojump_clock: MockClock) -> None:
    """Also in a session that waits for no limit."""
    data = {"rate_limits": {"used_percent": 100, "resets_at": NOW + 3600}}
    async with session_with(limited(1, data), now=wall) as (session, _):
        error = (await session.run("work", check=False)).error
    assert error is not None
    assert (error.cause, error.retry_at) == ("rate_limit", NOW + 3600)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, None),
        ({"resetsAt": NOW - 50}, None),  # has passed
        ({"resetsAt": NOW + 50, "status": "rejected"}, NOW + 50),
        (
            {
                "primary": {"used_percent": 100.0, "resets_at": NOW + 100},
                "secondary": {"used_percent": 10.0, "resets_at": NOW + 900},
            },
            NOW + 100,
        ),
        ({"resetsAt": True}, None),
        ({"a": {"b": {"c": {"d": {"resetsAt": NOW + 50}}}}}, None),
    ],
)
async def test_the_time_is_found_in_an_agents_report(
    autojump_clock: MockClock, data: Any, expected: float | None
) -> None:
    async with session_with(limited(1, data), now=wall) as (session, _):
        error = (await session.run("work", check=False)).error
    assert error is not None
    assert error.retry_at == expected


@pytest.mark.parametrize("message", ["Internal error", "prompt is too long", "401 unauthorized"])
async def test_other_failures_are_not_waited_for(autojump_clock: MockClock, message: str) -> None:
    async with waiting(limited(1, message=message)) as (session, agents):
        assert (await session.run("work", check=False)).outcome == "failed"
        assert len(agents.sent("session/prompt")) == 1


async def test_a_wait_can_be_stopped_and_ends_at_once(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 900})) as (session, agents):
        turn = session.submit("work")
        await trio.sleep(60)
        session.cancel()
        assert turn.ended
        assert (turn.result.outcome, turn.result.by) == ("cancelled", "user")
        await trio.sleep(3600)
        assert len(agents.sent("session/prompt")) == 1
        assert (await session.run("again")).outcome == "completed"


async def test_cancelling_the_caller_ends_the_wait(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 900})) as (session, _):
        with trio.move_on_after(60):
            await session.run("work")
        assert trio.current_time() < 62
        assert session.state.turn is None


async def test_the_time_of_a_budget_goes_on(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 900})) as (session, agents):
        with agentrt.budget(seconds=300):
            assert (await session.run("work")).by == "budget"
        assert len(agents.sent("session/prompt")) == 1


async def test_a_turn_keeps_its_time_for_the_work_after_the_wait(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(turn_timeout_s=100, idle_timeout_s=50, busy_silence_timeout_s=200)
    script = limited(1, {"resetsAt": NOW + 3600})
    async with waiting(script, limits=limits) as (session, _):
        assert (await session.run("work")).outcome == "completed"


async def test_a_dead_agent_ends_the_wait(autojump_clock: MockClock) -> None:
    async with waiting(limited(1, {"resetsAt": NOW + 900})) as (session, agents):
        turn = session.submit("work")
        await trio.sleep(60)
        agents.processes[-1].exit(1)
        await session.wait_idle()
        assert turn.result.outcome == "agent_died"


async def test_without_the_option_a_rate_limit_fails_the_turn(autojump_clock: MockClock) -> None:
    async with session_with(limited(1, {"resetsAt": NOW + 900})) as (session, _):
        assert (await session.run("work", check=False)).outcome == "failed"


@pytest.mark.parametrize("at_most_s", [0, -1, float("inf"), "6h", True])
def test_a_maximum_that_makes_no_sense_is_refused(at_most_s: Any) -> None:
    with pytest.raises(ValueError, match="above 0"):
        WaitForLimits(at_most_s=at_most_s)
