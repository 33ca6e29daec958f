"""Sub-agents and background work of real Claude Codes, old and new: what belongs to which turn."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Arguments, Call, Pause, Script, Shell, Step, Text, prompt_for
from .recipes import CLAUDES
from .story import GATE, Story, open_gate, session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", CLAUDES)]

PATIENCE = 120.0


def sub_agent(*work: list[Step], background: bool | None = None) -> Step:
    """A call that starts a sub-agent with a script of its own. `background`: where it runs; by
    default, where this version of Claude Code likes."""
    arguments: Arguments = {
        "description": "look",
        "subagent_type": "general-purpose",
        "prompt": prompt_for(list(work)),
    }
    if background is not None:
        arguments["run_in_background"] = background
    return Call("Agent", arguments)


def items(story: Story, turn: str) -> list[tuple[str, bool]]:
    """The types of a turn's items, and whether each is a sub-agent's."""
    opened = [event.item for event in story.all(agentrt.ItemOpened)]
    return [(item.type, item.parent is not None) for item in opened if item.turn == turn]


def turns(story: Story) -> list[tuple[str, str]]:
    started = {event.turn: event.origin for event in story.all(agentrt.TurnStarted)}
    return [(started[end.turn], end.outcome) for end in story.all(agentrt.TurnEnded)]


def denied_by_itself(lab: Lab) -> None:
    if lab.agent == "claude-2.1.165":
        pytest.skip("this version denies what its background agents would have to ask")


async def test_the_steps_of_a_sub_agent_are_shown_below_its_call(lab: Lab) -> None:
    script: Script = [
        [sub_agent([Shell("echo hi > sub.txt")], [Text("Looked.")], background=False)],
        [Text("It looked.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run(prompt_for(script))
    assert result.text == "It looked."  # not what the sub-agent said
    assert items(story, result.turn) == [
        ("user", False),
        ("tool", False),
        ("tool", True),
        ("text", True),
        ("text", False),
    ]
    assert story.all(agentrt.events.TaskChanged) == []
    assert (lab.work / "sub.txt").exists()


async def test_a_background_agent_outlives_its_turn_and_is_followed_by_another(lab: Lab) -> None:
    script: Script = [
        [sub_agent([Shell(GATE)], [Text("Looked.")], background=True)],
        [Text("Started.")],
        [Text("It looked.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            result = await session.run(prompt_for(script))
            assert session.state.turn is None  # nobody need wait for it
            assert [task.status for task in session.background_tasks.values()] == ["running"]
            open_gate(lab)
        assert [task.status for task in session.background_tasks.values()] == ["completed"]
    assert result.text == "Started."
    assert turns(story) == [("user", "completed"), ("agent", "completed")]
    assert items(story, result.turn) == [("user", False), ("tool", False), ("text", False)]


@pytest.mark.parametrize("background", [None, True, False])
async def test_what_a_sub_agent_says_and_does_is_logged_below_its_call(
    lab: Lab, background: bool | None
) -> None:
    """Also what it was not asked about, and its report."""
    work: list[list[Step]] = [
        [Text("Looking."), Shell("cat secret.txt")],
        [Shell("touch sub.txt")],
        [Text("All is well.")],
    ]
    script: Script = [
        [sub_agent(*work, background=background)],
        [Text("Started.")],
        [Text("It looked.")],
    ]
    (lab.work / "secret.txt").write_text("a secret")
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            await session.run(prompt_for(script))
            await session.wait_idle()
        items = session.snapshot().items
    [call] = [item for item in items if item.tool is not None and item.parent is None]
    below = [item for item in items if item.parent == call.id]
    assert [item.text for item in below if item.type == "text"] == ["Looking.", "All is well."]
    commands = [item.tool for item in below if item.tool is not None]
    assert [tool.input["command"] for tool in commands] == ["cat secret.txt", "touch sub.txt"]
    assert "a secret" in str(commands[0].content)
    [touch] = [
        i for i in below if i.tool is not None and i.tool.input["command"] != "cat secret.txt"
    ]
    assert {item.status for item in below if item is not touch} == {"completed"}
    # The oldest version asks nobody about a command in the background, and reports only the end.
    old = lab.agent == "claude-2.1.165" and background is True
    assert touch.status == ("denied" if old else "completed")
    assert (lab.work / "sub.txt").exists() is not old
    tasks = list(session.background_tasks.values())
    assert [(task.item, task.status) for task in tasks] == [(call.id, "completed")] * len(tasks)
    assert all(item.turn is None for item in below) or not tasks
    report = 'Agent "look" completed' if old else "All is well."
    assert [task.detail for task in tasks] == [report] * len(tasks)
    if background is not None:
        assert len(tasks) == background


async def test_a_prompt_is_answered_while_an_agent_works_in_the_background(lab: Lab) -> None:
    """The agent's own turn, which follows, is not taken for the prompt's."""
    script: Script = [
        [sub_agent([Shell(GATE)], [Text("Looked.")], background=True)],
        [Text("Started.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            await session.run(prompt_for(script))
            result = await session.run("Please [[again]]")
            assert [task.status for task in session.background_tasks.values()] == ["running"]
            open_gate(lab)
    assert result.text == "Another answer."
    assert turns(story) == [("user", "completed"), ("user", "completed"), ("agent", "completed")]


async def test_a_background_agent_may_ask_and_call_outside_turns(lab: Lab) -> None:
    """Only the command is asked about: the program's own tools need no answer.

    The oldest version denies both by itself.
    """
    old = lab.agent == "claude-2.1.165"
    contexts: list[agentrt.ToolContext] = []
    asked: list[str] = []

    @agentrt.tool
    async def record_result(context: agentrt.ToolContext, summary: str) -> str:
        """Persist the final outcome of a job."""
        await trio.lowlevel.checkpoint()
        contexts.append(context)
        return "recorded"

    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request.tool)
        return agentrt.Allow()

    work: list[list[Step]] = [
        [Pause(0.5), Shell("touch sub.txt")],
        [Call("mcp__agentrt__record_result", {"summary": "looked"})],
        [Text("Looked.")],
    ]
    script: Script = [[sub_agent(*work, background=True)], [Text("Started.")], [Text("Done.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=policy, tools=[record_result]) as (session, story):
            await session.run(prompt_for(script))
    assert asked == ([] if old else ["Bash"])
    assert [context.turn for context in contexts] == ([] if old else [None])
    assert (lab.work / "sub.txt").exists() is not old
    assert turns(story) == [("user", "completed"), ("agent", "completed")]


async def test_a_question_of_a_background_agent_may_wait_for_a_viewer(lab: Lab) -> None:
    denied_by_itself(lab)
    work: list[list[Step]] = [[Pause(0.5), Shell("touch sub.txt")], [Text("Looked.")]]
    script: Script = [[sub_agent(*work, background=True)], [Text("Started.")], [Text("Done.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.ask) as (session, story):
            with session.subscribe() as events:
                await session.run(prompt_for(script))
                async for event in events:
                    if isinstance(event, agentrt.PermissionOpened):
                        assert session.state.turn is None
                        await session.run("Please [[again]]")  # it need not be answered first
                        session.answer(event.request, "allow_once")
                        break
            await session.wait_idle()
    assert (lab.work / "sub.txt").exists()
    assert turns(story) == [("user", "completed"), ("user", "completed"), ("agent", "completed")]


async def test_leaving_a_session_waits_for_its_background_shells(lab: Lab) -> None:
    script: Script = [
        [Shell(f"{GATE}; touch late.txt", background=True)],
        [Text("Started.")],
        [Text("It is done.")],
    ]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all) as (session, story):
            await session.run(prompt_for(script))
            assert not (lab.work / "late.txt").exists()
            open_gate(lab)
    assert (lab.work / "late.txt").exists()
    assert turns(story) == [("user", "completed"), ("agent", "completed")]


@pytest.mark.slow
async def test_a_long_command_in_the_foreground_is_no_background_task(lab: Lab) -> None:
    """Claude announces it in the same words after three seconds."""
    script: Script = [[Shell("echo go; sleep 4")], [Text("Slept.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, story):
            await session.run(prompt_for(script))
            assert session.background_tasks == {}
    assert story.all(agentrt.events.TaskChanged) == []
