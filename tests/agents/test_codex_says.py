"""What a real codex says beyond text and commands: sub-agents, reviews, compaction, goals."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil
import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Script, Shell, Text, prompt_for
from .story import Story, session_with, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["codex"])]

PATIENCE = 120.0
ENDED_S = 15.0
"""Seconds in which a stopped command ends. Codex itself gives it 30."""


def tasks(story: Story) -> list[agentrt.events.Task]:
    return [event.task for event in story.all(agentrt.events.TaskChanged)]


def spawn(*turns: list[Text | Shell]) -> Call:
    return Call("spawn_agent", {"message": prompt_for(list(turns))})


def sleeps(lab: Lab) -> float:
    """Seconds for which the agent's `sleep 297` has run; 0 if it does not run."""
    for process in lab.processes():
        with suppress(psutil.Error):  # it has ended
            if process.cmdline()[:2] == ["sleep", "297"]:
                return time.time() - process.create_time()
    return 0.0


async def test_a_sub_agent_works_below_its_call_and_reports(lab: Lab) -> None:
    child = spawn([Text("I begin."), Shell("echo hi > sub.txt")], [Text("Looked.")])
    script: Script = [[child], [Text("It works.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run(prompt_for(script))
            await until(lambda: session.snapshot().tasks[0].status == "completed")
    assert result.text == "It works."
    opened = [event.item for event in story.all(agentrt.ItemOpened)]
    card = next(item for item in opened if item.tool and item.tool.name == "collabAgentToolCall")
    steps = [item for item in opened if item.parent == card.id]
    assert [item.type for item in steps] == ["text", "tool", "text"]
    last = tasks(story)[-1]
    assert (last.kind, last.status, last.detail) == ("subagent", "completed", "Looked.")
    assert last.item == card.id
    assert last.usage is not None
    assert story.notices("unknown_update") == []
    assert (lab.work / "sub.txt").exists()


async def test_a_sub_agent_is_stopped_by_its_task(lab: Lab) -> None:
    script: Script = [[spawn([Shell("sleep 297")], [Text("Slept.")])], [Text("It sleeps.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            await session.run(prompt_for(script))
            await until(
                lambda: any(
                    item.tool is not None and "sleep" in item.tool.title
                    for item in session.snapshot().items
                )
            )
            [task] = session.snapshot().tasks
            await until(lambda: sleeps(lab) > 1)  # codex ends one that has only just begun
            await session.stop_task(task.id)
            with trio.fail_after(ENDED_S):
                await until(lambda: not sleeps(lab))
            await until(lambda: session.snapshot().tasks[0].status == "cancelled")
            again = await session.run(prompt_for([[Text("Still here.")]]))
    assert again.text == "Still here."


async def test_slash_commands_are_offered_and_do_what_they_say(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            commands = session.snapshot().commands
            assert {"compact", "review", "init", "status"} <= {each.name for each in commands}
            await session.run(prompt_for([[Text("Hello.")]]))
            review = prompt_for([[Text("Nothing found.")]])
            assert (await session.run(f"/review {review}")).text == "Nothing found."
            assert (await session.run("/compact")).outcome == "completed"
            status = await session.run("/status")
            after = await session.run(prompt_for([[Text("Still here.")]]))
    assert "Model: scripted" in status.text
    assert after.text == "Still here."
    ended = [task for task in tasks(story) if task.status == "completed"]
    assert [task.kind for task in ended] == ["review", "compaction"]
    assert story.notices("unknown_update") == []


async def test_a_goal_is_a_task(lab: Lab) -> None:
    script: Script = [
        [Call("create_goal", {"objective": "finish it"})],
        [Call("update_goal", {"status": "complete"})],
        [Text("Done.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            await session.run(prompt_for(script))
    goals = [task for task in tasks(story) if task.kind == "goal"]
    assert {task.title for task in goals} == {"finish it"}
    assert goals[-1].status == "completed"
