"""Cancelling turns of the real Claude Code, in every state that one can be in.

The agent is told by `interrupt` and ends its turn by itself: with these limits no clock may do it,
and the process of before answers the next prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Pause, Script, Shell, Status, Text, prompt_for
from .story import GATE, open_gate, running, session_with, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
SLEEP = "sleep 297"
BY_ITSELF = agentrt.Limits(cancel_grace_s=500, cancel_resend_s=500, end_silence_s=500)
"""With these, whatever is ended by a clock misses its test's time."""


class Waiting:
    """A hook and a tool that never answer, and say when they run and when they were stopped."""

    def __init__(self) -> None:
        self.runs = trio.Event()
        self.stopped = trio.Event()

        @agentrt.tool
        async def record_result(summary: str) -> str:
            """Persist the final outcome of a job."""
            await self.wait()
            return ""

        @agentrt.hook("PreToolUse", matcher="Bash")
        async def think(input: dict[str, Any]) -> None:
            await self.wait()

        self.tool, self.hook = record_result, think

    async def wait(self) -> None:
        self.runs.set()
        try:
            await trio.sleep_forever()
        finally:
            self.stopped.set()


@dataclass
class Scene:
    """A session at work, as a state sees it that is waited for."""

    lab: Lab
    session: agentrt.Session
    waiting: Waiting

    async def told(self, kind: type, **fields: Any) -> None:
        """Until such an event has been told."""
        with self.session.subscribe(after=0) as events:
            async for event in events:
                if isinstance(event, kind) and all(
                    getattr(event, name) == value for name, value in fields.items()
                ):
                    return

    async def begun(self) -> None:
        await self.told(agentrt.TurnStarted)

    async def asked_model(self) -> None:
        await until(lambda: self.lab.model.asks())


@dataclass(frozen=True)
class State:
    """One state of a turn: how to get there, and what is left of it."""

    prompt: str
    reached: Callable[[Scene], Awaitable[Any]]
    hooked: bool = False
    tools: list[str] = field(default_factory=list)
    """The statuses of its tool calls afterwards."""


STATES: dict[str, State] = {
    "streaming": State("[[slow]]", lambda s: s.told(agentrt.TextDelta)),
    "before the first byte": State("[[mute]]", lambda s: s.asked_model()),
    "before the first word": State("[[silent]]", lambda s: s.asked_model()),
    "in a stalled stream": State("[[stalled]]", lambda s: s.told(agentrt.TextDelta)),
    "between two tries": State(
        prompt_for([[Status(529, retry_after=60)]]), lambda s: s.told(agentrt.Notice)
    ),
    "in a command": State(
        "[[sleep]]", lambda s: until(lambda: running(s.lab, SLEEP)), tools=["cancelled"]
    ),
    "in a command that ignores signals": State(
        "[[stubborn]]", lambda s: until(lambda: running(s.lab, SLEEP)), tools=["cancelled"]
    ),
    "in a hook": State(
        "[[shell]]", lambda s: s.waiting.runs.wait(), hooked=True, tools=["cancelled"]
    ),
    "in a tool": State("[[record]]", lambda s: s.waiting.runs.wait(), tools=["cancelled"]),
    "right behind the prompt": State("[[slow]]", lambda s: s.begun()),
}


@pytest.mark.parametrize("name", STATES)
async def test_a_cancel_ends_the_turn_and_the_next_prompt_is_answered(lab: Lab, name: str) -> None:
    state, waiting = STATES[name], Waiting()
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab,
            permissions=agentrt.allow_all,
            tools=[waiting.tool],
            hooks=[waiting.hook] if state.hooked else [],
            limits=BY_ITSELF,
        ) as (session, story):
            pid = session.agent.pid
            async with session.prompt(state.prompt) as turn:
                await state.reached(Scene(lab, session, waiting))
                turn.cancel()
            assert waiting.stopped.is_set() == waiting.runs.is_set()
            again = await session.run("Please [[again]]")
            assert session.agent.pid == pid
            await until(lambda: not running(lab, SLEEP))
    result = turn.result
    assert (result.outcome, result.by, result.error) == ("cancelled", "caller", None)
    # None: it was taken back before it had begun, and there is no result.
    assert result.stop_reason in ("aborted_streaming", "aborted_tools", None)
    assert "[ede_diagnostic]" not in str(story.events)
    assert again.text == "Another answer."
    assert [status for _, status in story.tools()] == state.tools
    assert [end.outcome for end in story.all(agentrt.TurnEnded)] == ["cancelled", "completed"]


async def test_a_cancel_takes_back_an_open_permission(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.ask, limits=BY_ITSELF) as (
            session,
            story,
        ):
            async with session.prompt("Please [[shell]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.cancel()
            again = await session.run("Please [[again]]")
    assert turn.result.outcome == "cancelled"
    assert [closed.outcome for closed in story.all(agentrt.events.PermissionClosed)] == [
        "cancelled"
    ]
    assert [status for _, status in story.tools()] == ["cancelled"]
    assert again.text == "Another answer."
    assert not (lab.work / "ran.txt").exists()


async def test_a_cancel_at_rest_does_nothing(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=BY_ITSELF) as (session, story):
            await session.run("Please [[text]]")
            session.cancel()
            again = await session.run("Please [[again]]")
            session.cancel()
    assert again.text == "Another answer."
    assert [end.outcome for end in story.all(agentrt.TurnEnded)] == ["completed", "completed"]


async def test_a_cancelled_scope_around_a_turn_costs_next_to_nothing(lab: Lab) -> None:
    """A host that closes the process instead pays five to ten seconds for it; here no limit would
    be met in time."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=BY_ITSELF) as (session, story):
            pid = session.agent.pid
            with trio.CancelScope() as scope:
                async with session.prompt("Please [[slow]]") as turn:
                    async for event in turn:
                        if isinstance(event, agentrt.TextDelta):
                            scope.cancel()
            assert scope.cancelled_caught
            assert session.state.phase == "idle"
            assert session.agent.pid == pid
            assert (await session.run("Please [[again]]")).text == "Another answer."
    ends = story.all(agentrt.TurnEnded)
    assert [(end.outcome, end.by) for end in ends] == [("cancelled", "caller"), ("completed", None)]


async def test_prompts_that_wait_are_held_back_by_a_stop(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            session_with(lab, limits=BY_ITSELF) as (session, story),
            trio.open_nursery() as nursery,
        ):
            turn = session.prompt("Please [[slow]]")
            async with turn:
                nursery.start_soon(session.run, "Please [[again]]")
                await Scene(lab, session, Waiting()).told(agentrt.TextDelta)
                session.cancel()
            assert turn.result.by == "user"
            assert session.state.turn is None
            assert len(session.snapshot().queue) == 1
            session.queue.resume()
    assert [end.outcome for end in story.all(agentrt.TurnEnded)] == ["cancelled", "completed"]


# --- background work

ENDLESS_AGENT = "Please [[background-agent]]"


async def test_a_cancel_spares_background_agents_and_they_can_be_stopped(lab: Lab) -> None:
    slow: Script = [[Text("word " * 400, chunk=5, pace=0.1)]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            _,
        ):
            await session.run(ENDLESS_AGENT)
            await until(lambda: running(lab, SLEEP))
            async with session.prompt(prompt_for(slow)) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        turn.cancel()
            assert turn.result.outcome == "cancelled"
            assert running(lab, SLEEP)
            [agent] = [t for t in session.background_tasks.values() if t.kind == "local_agent"]
            assert agent.status == "running"
            await session.stop_task(agent.id)
            await session.wait_idle()
            assert session.background_tasks[agent.id].status == "cancelled"
            await until(lambda: not running(lab, SLEEP))


async def test_a_cancel_can_be_made_to_stop_background_agents(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab,
            permissions=agentrt.allow_all,
            limits=BY_ITSELF,
            options={"spare_tasks": False},
        ) as (session, _):
            await session.run(ENDLESS_AGENT)
            await until(lambda: running(lab, SLEEP))
            async with session.prompt("Please [[slow]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        turn.cancel()
            assert turn.result.outcome == "cancelled"
            await until(lambda: not running(lab, SLEEP))
            await session.wait_idle()
            assert {task.status for task in session.background_tasks.values()} == {"cancelled"}


async def test_a_cancel_spares_background_shells(lab: Lab) -> None:
    script: Script = [
        [Shell(GATE, background=True)],
        [Text("Started."), Pause()],
        [Text("The shell is done.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            story,
        ):
            async with session.prompt(prompt_for(script)) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        turn.cancel()
            [task] = session.background_tasks.values()
            assert task.status == "running"
            open_gate(lab)
            await session.wait_idle()
            assert [task.status for task in session.background_tasks.values()] == ["completed"]
    assert [end.outcome for end in story.all(agentrt.TurnEnded)] == ["cancelled", "completed"]


async def test_a_turn_that_claude_began_by_itself_can_be_cancelled(lab: Lab) -> None:
    script: Script = [
        [Shell(GATE, background=True)],
        [Text("Started.")],
        [Text("word " * 400, chunk=5, pace=0.1)],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, limits=BY_ITSELF) as (
            session,
            story,
        ):
            await session.run(prompt_for(script))
            open_gate(lab)
            await Scene(lab, session, Waiting()).told(agentrt.TurnStarted, origin="agent")
            session.cancel()
            again = await session.run("Please [[again]]")
    assert again.text == "Another answer."
    ends = story.all(agentrt.TurnEnded)
    assert [end.outcome for end in ends] == ["completed", "cancelled", "completed"]
    assert ends[1].by == "user"


async def test_a_cancel_may_come_at_any_moment_behind_the_prompt(lab: Lab) -> None:
    """Also where the aborted result overtakes the turn's beginning: nothing hangs, and nothing of
    it is shown in the next prompt's turn."""
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=BY_ITSELF) as (session, story):
            await session.run("Please [[again]]")
            for milliseconds in [*range(10), *range(0, 50, 5)] * 2:
                async with session.prompt("[[slow]]") as turn:
                    await trio.sleep(milliseconds / 1000)
                    turn.cancel()
                assert turn.result.outcome == "cancelled"
                again = await session.run("Please [[again]]")
                assert again.text == "Another answer."
    ends = story.all(agentrt.TurnEnded)
    assert len(ends) == len(story.all(agentrt.TurnStarted))
    assert {start.origin for start in story.all(agentrt.TurnStarted)} == {"user"}
