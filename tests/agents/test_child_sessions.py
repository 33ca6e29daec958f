"""Sub-agents of real ACP agents, which run in child sessions of their own."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Script, Shell, Text, prompt_for
from .story import GATE, session_with, until
from .test_claude_background import sub_agent

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude-agent-acp"])]

PATIENCE = 120.0


@pytest.mark.parametrize("background", [False, True])
async def test_the_work_of_a_sub_agent_is_below_its_card_and_its_task(
    lab: Lab, background: bool
) -> None:
    work = [[Shell("echo hi > sub.txt")], [Text("Looked.")]]
    script: Script = [
        [sub_agent(*work, background=background)],
        [Text("It looked.")],
        [Text("It has finished.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run(prompt_for(script))
    assert "It looked." in result.text
    assert "Looked." not in result.text.replace("It looked.", "")
    opened = [event.item for event in story.all(agentrt.ItemOpened)]
    card = next(item for item in opened if item.tool and item.tool.title == "look")
    assert card.parent is None
    steps = [item for item in opened if item.parent == card.id]
    assert [item.type for item in steps] == ["tool", "text"]
    asked = [
        event.patch["tool"]["input"]
        for event in story.all(agentrt.events.ItemUpdated)
        if event.item == card.id and "input" in event.patch.get("tool", {})
    ]
    assert asked[-1] == {"prompt": prompt_for(work)}
    last = story.all(agentrt.events.TaskChanged)[-1].task
    assert (last.kind, last.status, last.item) == ("subagent", "completed", card.id)
    if not background:  # the adapter sends no report of work in the background
        assert "Looked." in (last.detail or "")
    assert story.notices("unknown_update") == []
    assert (lab.work / "sub.txt").exists()


async def test_a_sub_agent_is_stopped_by_its_task(lab: Lab) -> None:
    script: Script = [
        [sub_agent([Shell(f"touch began; {GATE}")], [Text("Slept.")], background=True)],
        [Text("It waits.")],
        [Text("It was stopped.")],
    ]
    with trio.fail_after(PATIENCE):
        async with (
            session_with(lab, permissions=agentrt.allow_all) as (session, story),
            session.prompt(prompt_for(script)) as turn,
        ):
            await until((lab.work / "began").exists)
            [task] = session.background_tasks
            await session.stop_task(task)
            async for _ in turn:
                pass
    last = story.all(agentrt.events.TaskChanged)[-1].task
    assert last.status == "cancelled"
    assert turn.result.outcome == "completed"
    assert "Slept." not in str(story.outline())
