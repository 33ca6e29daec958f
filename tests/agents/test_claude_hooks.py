"""Hooks and elicitations of the real Claude Code: when it asks, and what the answers do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Script, Shell, Text, prompt_for
from .story import session_with, until

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0


def hook_events() -> list[str]:
    """The names of all events, as the error for another name has them."""
    with pytest.raises(ValueError, match="choose from") as error:
        agentrt.hook("no such event")
    return str(error.value).partition("choose from: ")[2].split(", ")


Answer = dict[str, Any]


def hook(event: str, answer: Answer | None = None, **options: Any) -> agentrt.tools.Hook:
    """A hook that always answers the same."""

    @agentrt.hook(event, **options)
    async def always(input: dict[str, Any]) -> Answer | None:
        await trio.lowlevel.checkpoint()
        return answer

    return always


def decides(event: str, **output: Any) -> Answer:
    return {"hookSpecificOutput": {"hookEventName": event, **output}}


def shown(session: agentrt.Session, tool: agentrt.events.Item) -> str:
    """What a tool call shows in the end."""
    [item] = [item for item in session.snapshot().items if item.id == tool.id]
    assert item.tool is not None
    return "".join(str(getattr(part, "content", "")) for part in item.tool.content)


# --- which moments there are

COMPACTION = {"PreCompact", "SessionStart", "PostCompact"}
"""It begins the session anew, with its summary."""

MOMENTS: dict[str, set[str]] = {
    "[[shell]]": {
        "UserPromptSubmit",
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PostToolBatch",
        "MessageDisplay",
        "Stop",
    },
    prompt_for([[Shell("exit 3")], [Text("It failed.")]]): {"PostToolUseFailure"},
    "[[agent]]": {"SubagentStart", "SubagentStop"},
    prompt_for(
        [
            [Call("TaskCreate", {"subject": "look", "description": "look around"})],
            [Call("TaskUpdate", {"taskId": "1", "status": "completed"})],
            [Text("Looked.")],
        ]
    ): {"TaskCreated", "TaskCompleted"},
    "[[error-400]]": {"StopFailure"},
    "/greet you": {"UserPromptExpansion"},
    "/compact": COMPACTION,
}
"""What a prompt is sure to bring about."""


async def test_hooks_are_asked_at_their_moments(lab: Lab) -> None:
    asked: list[str] = []

    def watch(event: str) -> agentrt.tools.Hook:
        @agentrt.hook(event)
        async def note(input: dict[str, Any], context: agentrt.tools.HookContext) -> None:
            await trio.lowlevel.checkpoint()
            assert input["hook_event_name"] == event == context.event
            asked.append(event)

        return note

    commands = lab.work / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("Greet $ARGUMENTS. [[again]]")
    events = {*set().union(*MOMENTS.values()), "PreModelSwitch", "PostModelSwitch"}
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, hooks=[watch(event) for event in events], permissions=agentrt.allow_all
        ) as (session, story):
            for prompt in MOMENTS:
                await session.run(prompt, check=False)
                await session.wait_idle()
            await session.set_model("haiku")
            await until(lambda: set(asked) == events)  # some are not waited for
    assert Counter(asked)["UserPromptSubmit"] >= len(MOMENTS) - 1
    assert story.notices("compacted")
    assert story.notices("handler_failed") == []


async def test_every_event_may_be_hooked_and_the_rarer_ones_have_their_moments(lab: Lab) -> None:
    """Claude Code 2.1.329 has never been seen to ask the others of a host: `CwdChanged`,
    `FileChanged`, `PermissionDenied`, `Setup`, `TeammateIdle`; and `InstructionsLoaded` only now
    and then."""
    asked: set[str] = set()
    (lab.work / "part").mkdir()
    (tree := lab.home / "tree").mkdir()

    def watch(event: str) -> agentrt.tools.Hook:
        @agentrt.hook(event)
        async def note(input: dict[str, Any]) -> Answer | None:
            await trio.lowlevel.checkpoint()
            asked.add(event)
            return decides(event, worktreePath=str(tree)) if event == "WorktreeCreate" else None

        return note

    async def until_asked(*events: str) -> None:
        await until(lambda: asked.issuperset(events))

    script: Script = [
        [Call("mcp__shop__order")],
        [Call("EnterWorktree", {"name": "tree"})],
        [Call("ExitWorktree", {"action": "remove", "discard_changes": True})],
        [Text("Ordered, entered, left.")],
    ]
    (settings := lab.work / ".claude" / "settings.json").parent.mkdir()
    settings.write_text("{}")
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, hooks=[watch(event) for event in hook_events()], mcp_servers=[shop(lab)]
        ) as (session, story):
            async with session.prompt(prompt_for(script)) as turn:
                async for event in turn:
                    match event:
                        case agentrt.PermissionOpened(form=None):
                            turn.answer(event.request, "allow_once")
                        case agentrt.PermissionOpened():
                            session.submit_form(event.request, {"count": 3})
                        case _:
                            pass
            await until_asked("Elicitation", "ElicitationResult", "Notification")
            await until_asked("WorktreeCreate", "WorktreeRemove")
            await session.call("register_repo_root", directory=str(lab.work / "part"))
            await until_asked("DirectoryAdded")
            settings.write_text('{"env": {"COLOUR": "blue"}}')
            await until_asked("ConfigChange")
            await session.run("/clear")
            await until_asked("SessionEnd", "SessionStart")
    assert turn.result.text == "Ordered, entered, left."
    assert story.notices("handler_failed") == []


async def test_a_hook_knows_its_turn_and_its_tool_call(lab: Lab) -> None:
    contexts: list[agentrt.tools.HookContext] = []

    @agentrt.hook("PreToolUse", matcher="Bash")
    async def note(input: dict[str, Any], context: agentrt.tools.HookContext) -> None:
        await trio.lowlevel.checkpoint()
        contexts.append(context)

    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[note], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[shell]]")
            await session.run(prompt_for([[Call("TaskList")], [Text("Listed.")]]))
    [context] = contexts  # the other tool is not matched
    assert context.turn is not None
    assert context.turn.id == result.turn
    tool = story.tools()[0][0].tool
    assert tool is not None
    assert context.tool_call == tool.call


# --- before a tool


async def test_a_hook_allows_a_tool_that_would_be_asked_about(lab: Lab) -> None:
    allow = hook("PreToolUse", decides("PreToolUse", permissionDecision="allow"))
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[allow]) as (session, story):
            await session.run("Please [[shell]]")
    assert [status for _, status in story.tools()] == ["completed"]
    assert story.all(agentrt.PermissionOpened) == []
    assert (lab.work / "ran.txt").exists()


async def test_a_hook_denies_a_tool_and_the_model_learns_why(lab: Lab) -> None:
    deny = hook(
        "PreToolUse",
        decides(
            "PreToolUse", permissionDecision="deny", permissionDecisionReason="not in this house"
        ),
        matcher="Bash",
    )
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[deny], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[shell]]")
    [(tool, status)] = story.tools()
    assert status == "denied"
    assert "not in this house" in shown(session, tool)
    assert result.outcome == "completed"
    assert not (lab.work / "ran.txt").exists()


async def test_a_hook_changes_what_a_tool_is_called_with(lab: Lab) -> None:
    changed = {"command": "echo changed > ran.txt"}
    change = hook(
        "PreToolUse",
        decides("PreToolUse", permissionDecision="allow", updatedInput=changed),
    )
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[change]) as (session, _):
            await session.run("Please [[shell]]")
    assert (lab.work / "ran.txt").read_text() == "changed\n"


async def test_a_hook_has_the_host_asked(lab: Lab) -> None:
    ask = hook("PreToolUse", decides("PreToolUse", permissionDecision="ask"))
    script: Script = [[Shell("echo harmless")], [Text("Done.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[ask], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            await session.run(prompt_for(script))
    assert [closed.by for closed in story.all(agentrt.events.PermissionClosed)] == ["policy"]


async def test_every_hook_of_a_moment_is_asked_at_once(lab: Lab) -> None:
    met = [trio.Event(), trio.Event()]

    def meeting(mine: int) -> agentrt.tools.Hook:
        @agentrt.hook("PreToolUse")
        async def meet(input: dict[str, Any]) -> None:
            met[mine].set()
            await met[1 - mine].wait()

        return meet

    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, hooks=[meeting(0), meeting(1)], permissions=agentrt.allow_all
        ) as (session, _):
            assert (await session.run("Please [[shell]]")).outcome == "completed"


async def test_a_hook_that_takes_too_long_is_cancelled_and_the_tool_blocked(lab: Lab) -> None:
    left = trio.Event()

    @agentrt.hook("PreToolUse", timeout=1)
    async def slow(input: dict[str, Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            left.set()

    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[slow], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[shell]]")
            assert left.is_set()
    [(tool, status)] = story.tools()
    assert status != "completed"
    assert "timeout" in shown(session, tool)
    assert result.text.endswith("The command is finished.")
    assert not (lab.work / "ran.txt").exists()


@pytest.mark.parametrize(("on_failure", "ran"), [(None, True), ("block", False)])
async def test_a_hook_that_fails_blocks_only_if_it_was_to(
    lab: Lab, on_failure: Any, ran: bool
) -> None:
    @agentrt.hook("PreToolUse", on_failure=on_failure)
    async def broken(input: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("no such rule")

    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[broken], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            result = await session.run("Please [[shell]]")
    assert result.outcome == "completed"
    assert (lab.work / "ran.txt").exists() is ran
    assert "no such rule" in story.notices("handler_failed")[0].message


async def test_a_hook_need_not_be_waited_for(lab: Lab) -> None:
    later = hook("PreToolUse", {"async": True})
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[later], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            await session.run("Please [[shell]]")
    assert [status for _, status in story.tools()] == ["completed"]


# --- after a tool, around a prompt, at the end


async def test_a_hook_stops_the_turn_after_a_tool(lab: Lab) -> None:
    stop = hook("PostToolUse", {"continue": False, "stopReason": "enough"})
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[stop], permissions=agentrt.allow_all) as (session, _):
            result = await session.run("Please [[shell]]")
            again = await session.run("Please [[again]]")
    assert (result.outcome, result.stop_reason) == ("completed", "hook_stopped")
    assert result.text == "I will run a command."
    assert again.text == "Another answer."


async def test_a_hook_replaces_what_the_model_sees_of_a_tool(lab: Lab) -> None:
    replaced = {"stdout": "nothing to see", "stderr": "", "interrupted": False, "isImage": False}
    replace = hook("PostToolUse", decides("PostToolUse", updatedToolOutput=replaced))
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[replace], permissions=agentrt.allow_all) as (
            session,
            story,
        ):
            await session.run("Please [[shell]]")
    [(tool, _)] = story.tools()
    assert "nothing to see" in shown(session, tool)


async def test_a_blocked_prompt_is_refused_with_the_reason(lab: Lab) -> None:
    """Elsewhere it looks like an empty success."""
    block = hook("UserPromptSubmit", {"decision": "block", "reason": "not on Sundays"})
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[block]) as (session, _):
            result = await session.run("Please [[text]]")
    assert (result.outcome, result.text) == ("refused", "")
    assert result.error is not None
    assert "not on Sundays" in result.error.message
    assert lab.model.asks() == []


async def test_a_hook_lets_claude_go_on(lab: Lab) -> None:
    @agentrt.hook("Stop")
    async def once(input: dict[str, Any]) -> Answer | None:
        await trio.lowlevel.checkpoint()
        if input["stop_hook_active"]:
            return None
        return {"decision": "block", "reason": "and the tests?"}

    script: Script = [[Text("Finished.")], [Text("Tested, too.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[once]) as (session, story):
            result = await session.run(prompt_for(script))
    assert result.text == "Finished.\n\nTested, too."
    assert len(story.all(agentrt.TurnEnded)) == 1


async def test_a_hook_may_answer_a_permission_before_the_host_does(lab: Lab) -> None:
    """Both are asked at the same time; the request is taken back from the slower one."""
    allow = hook("PermissionRequest", decides("PermissionRequest", decision={"behavior": "allow"}))
    with trio.fail_after(PATIENCE):
        async with session_with(lab, hooks=[allow], permissions=agentrt.ask) as (session, story):
            result = await session.run("Please [[shell]]")
    assert result.outcome == "completed"
    assert (lab.work / "ran.txt").exists()
    assert [closed.by for closed in story.all(agentrt.events.PermissionClosed)] == ["agent"]


# --- elicitations of MCP servers

SHOP = """
import json, sys

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

form = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
for line in sys.stdin:
    m = json.loads(line)
    match m.get("method") or m.get("id"):
        case "initialize":
            version = m["params"]["protocolVersion"]
            info = {"name": "shop", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send({"id": m["id"], "result": result})
        case "tools/list":
            order = {"name": "order", "description": "Order.", "inputSchema": {"type": "object"}}
            send({"id": m["id"], "result": {"tools": [order]}})
        case "tools/call":
            call = m["id"]
            params = {"message": "How many?", "requestedSchema": form}
            send({"id": "form", "method": "elicitation/create", "params": params})
        case "form":
            content = [{"type": "text", "text": json.dumps(m["result"])}]
            send({"id": call, "result": {"content": content}})
        case _ if "id" in m:
            send({"id": m["id"], "error": {"code": -32601, "message": "unknown"}})
"""
"""An MCP server whose tool asks a person before it does anything."""

Fill = Callable[[agentrt.Session, str], None]


def shop(lab: Lab) -> Answer:
    """The server, as a session is told of it."""
    (program := lab.work / "shop.py").write_text(SHOP)
    return {"name": "shop", "command": sys.executable, "args": [str(program)], "env": []}


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            lambda s, key: s.submit_form(key, {"count": 3}),
            '{"action": "accept", "content": {"count": 3}}',
        ),
        (lambda s, key: s.dismiss(key), '{"action": "cancel"}'),
    ],
    ids=["filled", "dismissed"],
)
async def test_the_form_of_an_mcp_server_is_filled_by_a_viewer(
    lab: Lab, reply: Fill, told: str
) -> None:
    script: Script = [[Call("mcp__shop__order")], [Text("Ordered.")]]
    with trio.fail_after(PATIENCE):
        async with (
            session_with(lab, mcp_servers=[shop(lab)]) as (session, story),
            session.prompt(prompt_for(script)) as turn,
        ):
            async for event in turn:
                match event:
                    case agentrt.PermissionOpened(form=None):
                        turn.answer(event.request, "allow_once")
                    case agentrt.PermissionOpened(title="How many?"):
                        reply(session, event.request)
                    case _:
                        pass
    [(tool, _)] = story.tools()
    assert told in shown(session, tool)
    assert turn.result.text == "Ordered."
