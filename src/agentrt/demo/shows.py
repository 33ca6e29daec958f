"""The `/commands` that demonstrate the messages that a viewer may receive."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from .client import in_terminal
from .command import DemoCommand, number
from .files import FileRefused
from .media import audio_block, image_block
from .session import DemoSession, new_id
from .turn import DemoToolCall, DemoTurn, ToolKind, fenced, text_content
from .wire import JsonObject

STEP_S = 0.4
"""Seconds between two steps of a demonstration, so that a reader can follow."""

MARKDOWN = """\
# A heading

Some **bold**, *italic*, ~~struck~~ and `inline` text, a [link](https://example.com/)
and an emoji 🌅.

1. First
2. Second
   - nested
   - [x] done
   - [ ] not yet

| language | hello |
|---|---|
| Greek | Γειά σου |
| Japanese | こんにちは |
| Arabic | مرحبا |

```python
async def main() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child, "<b>not HTML</b>")
```

> What must never run: <script>alert("no")</script> and [this](javascript:alert(1)).

---

A line that is long enough to be broken by every viewer, however wide its window is, \
because it goes on and on without a single line break of its own until here.
"""


async def markdown(turn: DemoTurn, argument: str) -> None:
    """Show an answer in Markdown."""
    await turn.say(MARKDOWN)


async def think(turn: DemoTurn, argument: str) -> None:
    """Show thoughts."""
    if not turn.session.thoughts:
        await turn.say("The option “Show thoughts” is off, so I show none.")
        return
    await turn.think("I was asked for thoughts. I have no model, so this one was **written down**.")
    await turn.pause(STEP_S)
    await turn.think("A second thought, in a separate block.")
    await turn.say("Those were two thoughts; this is the answer.")


async def plan(turn: DemoTurn, argument: str) -> None:
    """Show a plan with steps that are completed one after the other."""
    steps = ("Look at the plan", "Take the second step", "Say that it is done")
    for done in range(len(steps) + 1):
        status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        await turn.plan(list(zip(steps, status, strict=False)))
        await turn.pause(STEP_S)
    await turn.say("All three steps of the plan are done.")


async def tools(turn: DemoTurn, argument: str) -> None:
    """Show one tool call of each kind; nothing is really read, changed or fetched."""
    cwd = turn.session.folder.cwd
    at = str(cwd / "example.py")
    diff = {"type": "diff", "path": at, "oldText": "a = 1\nb = 2\n", "newText": "a = 1\nb = 3\n"}
    new = {"type": "diff", "path": str(cwd / "new.py"), "newText": "print('hello')\n"}
    image = {"type": "content", "content": image_block()}
    made: Sequence[tuple[str, ToolKind, list[JsonObject]]] = [
        ("Read example.py", "read", [text_content(fenced("a = 1\nb = 2\n", "python"))]),
        ("Search for b", "search", [text_content("`example.py:2` b = 2")]),
        ("Change example.py", "edit", [diff]),
        ("Write new.py", "edit", [new]),
        ("Move a.txt to b.txt", "move", []),
        ("Delete b.txt", "delete", []),
        ("Think it over", "think", [text_content("Done thinking.")]),
        ("Take a screenshot", "fetch", [image]),
        ("Something else", "other", [text_content("No kind fits.")]),
    ]
    await turn.say("These tool calls are shown, not carried out.")
    for title, kind, content in made:
        locations = [{"path": at, "line": 2}] if kind in ("read", "edit") else []
        with turn.tool(title, kind, locations=locations, rawInput={"show": title}) as call:
            call.update(status="in_progress")
            await turn.pause(STEP_S)
            call.update(status="completed", content=content, rawOutput={"shown": True})
    with turn.tool("Open a file that is not there", "read") as call:
        call.update(status="in_progress")
        await turn.pause(STEP_S)
        call.update(status="failed", content=[text_content("No such file: `missing.txt`")])
    if turn.session.offers.terminal:
        await in_terminal(turn, "echo this ran in a terminal of the client")
    await turn.say("Those were all kinds of tool calls, the last one of them a failure.")


async def ask(turn: DemoTurn, argument: str) -> None:
    """Show a permission request."""
    raw = {"command": "true"}
    with turn.tool("Do nothing, with permission", "execute", rawInput=raw) as call:
        await turn.permit(call)
        await turn.pause(STEP_S)
    await turn.say("Allowed, so I did nothing, successfully.")


async def mode(turn: DemoTurn, argument: str) -> None:
    """Switch to another mode."""
    session = turn.session
    if argument not in ("ask", "auto", "plan"):
        raise FileRefused("There are three modes: `/mode ask`, `/mode auto` and `/mode plan`.")
    with turn.tool(f"Switch to mode {argument}", "switch_mode"):
        session.set("mode", argument)
        session.send_mode()
        session.send_options()
    await turn.say(f"The mode is now `{session.mode}`.")


async def media(turn: DemoTurn, argument: str) -> None:
    """Show every kind of content block."""
    uri = (turn.session.folder.cwd / "README.md").as_uri()
    note = {"uri": "demo://note", "mimeType": "text/markdown", "text": "An *embedded* file."}
    await turn.say("A picture, a tone, a link to a file and an embedded file:")
    await turn.show(image_block())
    await turn.show(audio_block())
    await turn.show({"type": "resource_link", "uri": uri, "name": "README.md"})
    await turn.show({"type": "resource", "resource": note})


async def usage(turn: DemoTurn, argument: str) -> None:
    """Count up an invented cost; the real cost of an agent without a model is zero."""
    real = turn.session.cost
    for _ in range(3):
        turn.session.cost += 0.0123
        turn.session.send_usage()
        await turn.pause(STEP_S)
    turn.session.cost = real
    await turn.say("That price was made up to show it; I have no model and cost nothing.")


async def title(turn: DemoTurn, argument: str) -> None:
    """Change the conversation's title."""
    if not argument:
        raise FileRefused("Say which title: `/title TEXT`.")
    turn.session.set_title(argument[:200])
    await turn.say(f"This conversation is now called “{argument[:200]}”.")


async def background(turn: DemoTurn, argument: str) -> None:
    """End the turn, and then send updates."""
    steps = int(number(argument, 3, 1000))
    await turn.say(f"My turn ends here, but {steps} updates will still come.")
    turn.session.nursery.start_soon(_work_on, turn, turn.session, steps)


async def _work_on(turn: DemoTurn, session: DemoSession, steps: int) -> None:
    """Send updates after the end of a turn, which the protocol allows."""
    await turn.ended.wait()
    call = DemoToolCall(session, {"title": "Work in the background", "kind": "other"})
    for step in range(1, steps + 1):
        await trio.sleep(1.0 if session.model == "steady" else 0.02)
        call.update(status="in_progress", content=[text_content(f"step {step} of {steps}")])
        session.send_usage()
    call.update(status="completed")
    content = {"type": "text", "text": "The background work is done."}
    session.say({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": new_id()})
    session.save()


async def notice(turn: DemoTurn, argument: str) -> None:
    """Show a notice of each severity."""
    if not turn.session.offers.notices:
        raise FileRefused("Your client does not take notices.")
    for severity in ("info", "warning", "error"):
        title = f"A notice: {severity}"
        fields = {"severity": severity, "title": title, "description": "As asked."}
        turn.session.send({"sessionUpdate": "notice", **fields})
        await turn.pause(STEP_S)


COMMANDS = (
    DemoCommand("markdown", "a streamed answer in Markdown", markdown),
    DemoCommand("think", "thoughts before the answer", think),
    DemoCommand("plan", "a plan that progresses", plan),
    DemoCommand("tools", "tool calls of every kind", tools),
    DemoCommand("ask", "a permission request", ask),
    DemoCommand("mode", "changes the mode", mode, "ask, auto or plan"),
    DemoCommand("media", "a picture, a tone, a linked and an embedded file", media),
    DemoCommand("usage", "usage and price, counting up", usage),
    DemoCommand("title", "gives the conversation a title", title, "TEXT"),
    DemoCommand("background", "updates after the turn has ended", background, "how many"),
    DemoCommand("notice", "notices of three severities", notice),
)
