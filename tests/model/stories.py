"""The conversations behind the golden traces: together they use every kind of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentrt.effects import (
    BlockReceived,
    CommandsSet,
    ModesSet,
    PlanSet,
    TaskSet,
    TextEnded,
    TextReceived,
    TitleSet,
    UsageSet,
    UserContentReceived,
)
from agentrt.events import (
    Choice,
    Command,
    Diff,
    ErrorInfo,
    Image,
    Modes,
    Notice,
    Option,
    PlanEntry,
    QueueEntry,
    ResourceLink,
    Task,
    TerminalRef,
    Text,
    ToolText,
    Usage,
)

from .talk import Talk, ask, call

AWKWARD: Final = 'é 👩‍👩‍👧 \u2028 "quoted" \\ </script> \x1b[31mred\x1b[0m \x00 |\r\n'
"""What breaks careless code: several code points to a sign, separators, escapes, markup."""


def answer(talk: Talk) -> None:
    """A prompt, a thought, an answer in two messages and a picture."""
    prompt = [Text("Why?"), ResourceLink("file:///project/a.py", "a.py")]
    talk.begin(list(prompt), hard=1800.0)
    talk.step()
    talk.tell(TextReceived("Let me ", thought=True, message="m1"), TextReceived("see.", True, "m1"))
    talk.tell(TextReceived("Because", message="m1"), TextReceived(" of " + AWKWARD, message="m1"))
    talk.step()
    talk.tell(
        BlockReceived(block=Image("aGk=", "image/png"), message="m1"),
        TextReceived("Also this.", False, "m2"),
    )
    talk.tell(TextEnded(), UsageSet(Usage(used=1200, size=200000)), TitleSet("Why"))
    talk.tell(UsageSet(Usage(cost=0.25, currency="USD")))
    talk.conversation.end("completed", stop_reason="end_turn", usage=Usage(total_tokens=1300))
    talk.step()


def tools(talk: Talk) -> None:
    """Text, tool, text; a diff, live output, a sub-agent, a plan, a failure."""
    talk.begin([Text("Fix it.")])
    talk.step()
    plan = [PlanEntry("Read"), PlanEntry("Edit", priority="high")]
    talk.tell(TextReceived("First I read."), PlanSet(plan))
    talk.tell(call("c1", opens=True, name="Read", title="Read a.py", kind="read", status="pending"))
    talk.tell(call("c1", status="running", locations=[{"path": "/project/a.py", "line": 3}]))
    talk.tell(call("c1", status="completed", content=[ToolText(Text("x = 1\n"))]))
    talk.step()
    talk.tell(TextReceived("Then I edit."))
    talk.tell(call("c2", opens=True, title="Edit", kind="edit", input={"path": "a.py", "n": None}))
    talk.tell(call("c2", content=[Diff("/project/a.py", "x = 2\n", "x = 1\n")], title="Edit a.py"))
    talk.tell(PlanSet([PlanEntry("Read", "completed"), PlanEntry("Edit", "in_progress", "high")]))
    talk.tell(call("c2", status="completed"))
    talk.tell(
        call("c3", opens=True, title="pytest", kind="execute", content=[TerminalRef("term1")])
    )
    talk.items.append_output("term1", "1 failed")
    talk.items.append_output("term1", AWKWARD)
    talk.tell(call("c3", status="failed", output={"exit": 1}))
    talk.tell(
        call("c4", opens=True, name="Task", status="running"), TextReceived("Sub", parent="c4")
    )
    talk.tell(call("c5", opens=True, parent="c4"), call("c5", status="completed"))
    talk.tell(call("c4", status="completed"), TextReceived("Done."))
    talk.conversation.end("failed", error=ErrorInfo("agent_error", "no more", {"code": -32603}))
    talk.step()


def questions(talk: Talk) -> None:
    """Allowed, denied before any tool call, overtaken by the agent, and a form."""
    talk.begin([Text("Do it.")])
    talk.tell(call("c1", opens=True, title="rm a"), ask("r1", "c1", detail=[{"type": "content"}]))
    talk.step()
    talk.conversation.resolve("r1", "selected", by="user", option="yes")
    talk.tell(call("c1", status="running"), call("c1", status="completed"))
    talk.step()
    talk.tell(ask("r2", "c2", name="Bash", tool_kind="execute", input={"command": "rm b"}))
    talk.step()
    talk.conversation.resolve("r2", "selected", by="policy", option="no", denied=True)
    talk.tell(call("c3", opens=True), ask("r3", "c3"), call("c3", status="completed"))
    talk.step()
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    talk.conversation.ask(ask("r4", kind="elicitation", title="Name?", form=form), 1060.0)
    talk.step()
    talk.conversation.resolve("r4", "expired", by="timeout", denied=True)
    talk.step()
    talk.conversation.end("completed", stop_reason="end_turn", structured_output={"ok": [True]})
    talk.step()


def cancel(talk: Talk) -> None:
    """A cancel with everything open, what comes late, and the next prompt."""
    talk.begin([Text("Work.")], hard=1800.0)
    talk.tell(TextReceived("Working"), call("c1", opens=True, status="running"), ask("r1", "c2"))
    talk.queued(QueueEntry("q1", [Text("And then?")]), paused=False)
    talk.step()
    talk.conversation.cancel("user", 1010.0)
    talk.queued(QueueEntry("q1", [Text("And then?")]), paused=True)
    talk.step()
    talk.tell(TextReceived(" on"), call("c1", status="completed"), call("c3", opens=True))
    talk.step()
    talk.conversation.end("cancelled", stop_reason="end_turn")
    talk.step()
    talk.queued()
    talk.begin([Text("And then?")])
    talk.tell(call("c1", status="failed"), call("c3", status="failed"), TextReceived("Then this."))
    talk.step()
    talk.conversation.cancel(None, 1020.0)
    talk.conversation.end(
        "timed_out", error=ErrorInfo("timed_out", "hard limit", {"limit": "hard"})
    )
    talk.step()


def background(talk: Talk) -> None:
    """Settings, commands, tasks, and a turn that the agent begins by itself."""
    switch = Option(id="fast", name="Fast", value=False)
    model = Option(
        id="model", name="Model", category="model", value="a", choices=[Choice("a", "A")]
    )
    modes = Modes(mode="ask", modes=[Choice("ask", "Ask", "Asks first")], options=[model, switch])
    talk.tell(ModesSet(modes), CommandsSet([Command("help", "Shows help", "topic"), Command("x")]))
    talk.begin([Text("Start it.")])
    talk.tell(TaskSet(Task(id="b1", title="Build", turn="t1", kind="shell")))
    talk.conversation.end("completed")
    talk.step()
    talk.tell(TaskSet(Task(id="b2", title="Watch")), TaskSet(Task(id="b1", status="completed")))
    talk.step()
    talk.tell(
        TextReceived("The build is done."),
        UserContentReceived(content=[Text("<task done>")]),
        TextReceived("Fine."),
    )
    talk.step()
    talk.tell(Notice("warning", "line_too_long", "a line was too long", {"bytes": 70000000}))
    talk.conversation.end("completed")
    talk.tell(ModesSet(Modes(mode=None, model="a", models=[Choice("a", "A")])), TitleSet(None))
    talk.step()
    talk.set_agent(alive=False, pid=None)
    talk.live("end")
    talk.conversation.error = ErrorInfo("agent_failed", "it cannot be started")
    talk.step()


def restart(talk: Talk) -> Talk:
    """A history that is replayed, a crash in the middle of a turn, and a life after it."""
    talk.tell(
        UserContentReceived(content=[Text("Hello")], message="u1", replay=True),
        TextReceived("Hi", message="m1", replay=True),
        call("c1", opens=True, status="running", title="ls", replay=True),
    )
    talk.items.replayed()
    talk.step()
    talk.begin([Text("Go on.")])
    talk.tell(TextReceived("Going"), call("c1", opens=True, title="ls"), ask("r1", "c1"))
    talk.tell(TaskSet(Task(id="b1")))
    talk.step()

    talk = talk.restarted()
    talk.set_agent(pid=43, alive=True)
    talk.live("start", "open")
    talk.step()
    talk.begin([Text("Again.")])
    talk.tell(TextReceived("Again."))
    talk.conversation.end("agent_died", error=ErrorInfo("agent_died", "signal SIGKILL"))
    talk.step()
    return talk


STORIES: Final[dict[str, Callable[[Talk], Talk | None]]] = {
    story.__name__: story for story in (answer, tools, questions, cancel, background, restart)
}
