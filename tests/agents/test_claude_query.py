"""`query` on the real Claude Code: it ends by itself, after all that belongs to the conversation.

The three cases are those in which a host that closes standard input too early loses a tool call: it
is never asked, and the model reads "Stream closed". No clock may be what ends any of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psutil
import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Pause, Script, Shell, Text, prompt_for
from .story import GATE, GONE, agent_of, open_gate, running, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
NEVER = agentrt.Limits(end_silence_s=500, drain_timeout_s=500, cancel_grace_s=500)
"""With these, whatever is ended by a clock misses its test's time."""


class Jobs:
    """The program of the reports: its tool is all that tells it of a job's outcome."""

    def __init__(self) -> None:
        self.invocations = 0

        @agentrt.tool
        async def record_result(summary: str) -> str:
            """Persist the final outcome of a job."""
            await trio.lowlevel.checkpoint()
            self.invocations += 1
            return f"recorded: {summary}"

        self.tool = record_result


async def ask(
    lab: Lab,
    prompts: Any,
    *,
    limits: agentrt.Limits = NEVER,
    watch: Callable[[agentrt.Event], Any] = lambda event: None,
    **options: Any,
) -> tuple[agentrt.Query, list[agentrt.Event]]:
    """A query that has ended, and all its events, each of which `watch` was shown."""
    opening = agentrt.query(
        prompts, agent=agent_of(lab), cwd=lab.work, env=lab.env, limits=limits, **options
    )
    with trio.fail_after(PATIENCE):
        async with opening as query:
            events = []
            async for event in query:
                watch(event)
                events.append(event)
            assert query.session.state.turn is None
    _, alive = psutil.wait_procs(lab.processes(), timeout=GONE)
    assert not alive, alive
    return query, events


def said(events: list[agentrt.Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, agentrt.TextDelta))


def stream_closed_errors(query: agentrt.Query) -> list[agentrt.events.Item]:
    """Tool calls that failed although the tool here did not."""
    items = query.session.snapshot().items
    return [item for item in items if item.type == "tool" and item.status != "completed"]


@pytest.mark.parametrize("case", ["case-a", "case-b", "case-c"])
async def test_a_tool_called_after_the_last_prompt_is_reached(lab: Lab, case: str) -> None:
    jobs = Jobs()

    async def prompts() -> AsyncIterator[str]:
        yield f"Please [[{case}]]"

    query, events = await ask(lab, prompts(), tools=[jobs.tool], permissions=agentrt.allow_all)
    assert jobs.invocations == 1
    assert stream_closed_errors(query) == []
    assert said(events).endswith("Recorded.")
    assert [result.outcome for result in query.results] == ["completed"]


async def test_a_background_shell_that_ends_later_is_waited_for_with_what_follows(
    lab: Lab,
) -> None:
    """Claude rests while the shell runs, and says that nothing is left to do."""
    script: Script = [
        [Shell(f"{GATE}; echo late", background=True)],
        [Text("Started.")],
        [Text("The shell is done.")],
    ]

    def watch(event: agentrt.Event) -> None:
        if isinstance(event, agentrt.TurnEnded):
            open_gate(lab)

    query, events = await ask(lab, prompt_for(script), watch=watch, permissions=agentrt.allow_all)
    assert said(events).endswith("The shell is done.")
    assert [task.status for task in query.session.background_tasks.values()] == ["completed"]
    turns = [event.origin for event in events if isinstance(event, agentrt.TurnStarted)]
    assert turns == ["user", "agent"]


async def test_two_background_shells_are_waited_for_with_two_turns(lab: Lab) -> None:
    script: Script = [
        [Shell(f"{GATE}; echo one", background=True)],
        [Shell("until test -e on; do sleep 0.05; done; echo two", background=True)],
        [Text("Started.")],
        [Pause(1.0), Text("The first is done.")],
        [Text("The second is done.")],
    ]

    def watch(event: agentrt.Event) -> None:
        if isinstance(event, agentrt.TurnEnded):
            open_gate(lab)
        elif isinstance(event, agentrt.TurnStarted) and event.origin == "agent":
            (lab.work / "on").touch()

    _, events = await ask(lab, prompt_for(script), watch=watch, permissions=agentrt.allow_all)
    assert said(events) == "Started.The first is done.The second is done."


async def test_a_shell_that_ends_in_its_own_turn_delays_nothing(lab: Lab) -> None:
    script: Script = [
        [Shell("echo at once", background=True)],
        [Shell("echo go; sleep 1")],
        [Text("All done.")],
    ]
    query, events = await ask(lab, prompt_for(script), permissions=agentrt.allow_all)
    assert said(events).startswith("All done.")
    assert [task.status for task in query.session.background_tasks.values()] == ["completed"]


async def test_a_shell_that_was_stopped_owes_nothing(lab: Lab) -> None:
    opening = agentrt.query(
        "Please [[background-shell]]",
        agent=agent_of(lab),
        cwd=lab.work,
        env=lab.env,
        limits=NEVER,
        permissions=agentrt.allow_all,
    )
    with trio.fail_after(PATIENCE):
        async with opening as query:
            async for event in query:
                if isinstance(event, agentrt.TurnEnded):
                    await until(lambda: running(lab, "sleep 297"))
                    [task] = query.session.background_tasks
                    await query.session.stop_task(task)
        await until(lambda: not running(lab, "sleep 297"))
    assert query.session.background_tasks[task].status == "cancelled"


async def test_a_shell_that_never_ends_is_waited_for_no_longer_than_the_limit(lab: Lab) -> None:
    query, events = await ask(
        lab,
        "Please [[background-shell]]",
        permissions=agentrt.allow_all,
        limits=agentrt.Limits(drain_timeout_s=0.5),
    )
    assert said(events) == "Started."
    assert [task.status for task in query.session.background_tasks.values()] == ["cancelled"]


async def test_the_prompts_may_go_on_after_the_last_one(lab: Lab) -> None:
    """The iterable works on while, and after, its last prompt is answered."""
    jobs = Jobs()
    reached = []

    async def prompts() -> AsyncIterator[str]:
        yield "Please [[record]]"
        reached.append(jobs.invocations)
        yield "Please [[record]]"
        reached.append(jobs.invocations)
        await trio.sleep(0.3)
        reached.append("done")

    query, _ = await ask(lab, prompts(), tools=[jobs.tool], permissions=agentrt.allow_all)
    assert reached == [1, 2, "done"]
    assert [result.outcome for result in query.results] == ["completed", "completed"]


@pytest.mark.parametrize("ask_host", [True, False], ids=["asking", "asking nobody"])
async def test_a_single_turn_with_nothing_bidirectional_ends(lab: Lab, ask_host: bool) -> None:
    query, events = await ask(lab, "Please [[text]]", options={"ask": ask_host})
    assert said(events) == "Hello from the scripted model."
    assert query.results[0].text == said(events)


async def test_a_failed_turn_does_not_end_the_conversation(lab: Lab) -> None:
    query, _ = await ask(lab, ["Please [[error-400]]", "Please [[again]]"])
    assert [result.outcome for result in query.results] == ["failed", "completed"]
    assert query.results[1].text == "Another answer."
