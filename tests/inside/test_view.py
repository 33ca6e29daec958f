"""The view of a session: what is told for good, and what is left to be drawn.

The view gets single events, to see the rows that each adds; a screen shows only their sum.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentrt._cli.repl.view import KEPT_LINES, CallView, text_of_line
from agentrt._cli.screen.cards import full, has_more, printed
from agentrt.events import (
    ErrorInfo,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Outcome,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    ResourceLink,
    Task,
    TaskChanged,
    Text,
    TextDelta,
    ToolCall,
    ToolText,
    TurnEnded,
    TurnStarted,
)
from inside.screen import Drawing, Painter, ScrollingText, View

pytestmark = pytest.mark.usefixtures("autojump_clock")

PLAN = [PlanEntry("one", "completed"), PlanEntry("two", "in_progress"), PlanEntry("three")]


class Record:
    """A display that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self.calls.append((name, arguments))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


def seen(*events: Event) -> tuple[View, Record]:
    record = Record()
    view = View(record)
    for event in events:
        view.take(event)
    return view, record


def drawn(view: View, width: int = 80) -> str:
    page = ScrollingText(Painter(colour=False), lambda: width)
    return "".join(text for _, text in Drawing(page).live(view, 0.0, 24))


def turn(*events: Event, outcome: Outcome = "completed") -> list[Event]:
    error = ErrorInfo("x", "it is gone") if outcome not in ("completed", "cancelled") else None
    end = TurnEnded(turn="t", outcome=outcome, error=error)
    return [TurnStarted(turn="t", origin="user", prompt=[Text("go")]), *events, end]


@pytest.mark.parametrize(
    "outcome", ["cancelled", "agent_died", "failed", "timed_out", "refused", "limit"]
)
async def test_the_plan_of_a_turn_that_was_broken_off_is_not_drawn(outcome: Outcome) -> None:
    view, _ = seen(*turn(PlanChanged(PLAN)))
    assert "plan 1/3" in drawn(view)  # the next turn may go on with it
    view, _ = seen(*turn(PlanChanged(PLAN), outcome=outcome))
    assert "plan" not in drawn(view)
    view.take(PlanChanged(PLAN))  # said behind the end
    assert "plan" not in drawn(view)
    for event in turn(PlanChanged(PLAN)):
        view.take(event)
    assert "plan 1/3" in drawn(view)


async def test_a_turn_without_an_answer_says_so() -> None:
    _, record = seen(*turn())
    assert record.of("remark") == [("info", "(no answer)")]
    _, record = seen(*turn(ItemOpened(Item(id="i", type="text", content=(Text(" \n"),)))))
    assert record.of("remark") == [("info", "(no answer)")]
    _, record = seen(*turn(ItemOpened(Item(id="i", type="text")), TextDelta("i", "x")))
    assert record.of("remark") == []
    _, record = seen(*turn(outcome="cancelled"))
    assert record.of("remark") == []


async def test_a_prompt_is_shown_without_the_links_that_it_names() -> None:
    blocks = [Text("look at @a.py"), ResourceLink("file:///x/a.py", "a.py")]
    _, record = seen(TurnStarted(turn="t", origin="user", prompt=[*blocks]))
    assert record.of("prompted")[0][1] == "look at @a.py"
    blocks.append(ResourceLink("http://other", "other"))
    _, record = seen(TurnStarted(turn="t", origin="user", prompt=[*blocks]))
    assert record.of("prompted")[0][1] == "look at @a.py[http://other]"


async def test_the_queue_is_the_session_s() -> None:
    view, _ = seen(QueueChanged([QueueEntry("q", [Text("later")])], paused=True))
    assert [entry.id for entry in view.queue] == ["q"]
    assert view.paused


async def test_background_work_is_reported_when_it_changes() -> None:
    working, done = Task(id="a", title="dig"), Task(id="a", title="dig", status="completed")
    view, record = seen(TaskChanged(working), TaskChanged(working), TaskChanged(done))
    assert record.of("task_changed") == [(working,), (done,)]
    assert view.tasks == {}


def call(*, content: str | None = None, streamed: list[str] = []) -> CallView:  # noqa: B006
    tool = ToolCall(
        kind="execute", title="run", content=(ToolText(Text(content)),) if content else ()
    )
    view, record = seen(ItemOpened(Item(id="c", type="tool", tool=tool)))
    for text in streamed:
        view.take(ItemDelta("c", text))
    view.take(ItemUpdated("c", {"status": "running"}))
    view.take(ItemClosed("c", "completed"))
    (ended,) = record.of("call_ended")
    return ended[0]  # type: ignore[no-any-return]


async def test_lines_of_output_that_are_left_out_are_counted() -> None:
    paint = Painter(colour=False)
    ended = call(content="\n".join(f"line {n}" for n in range(20_000)))
    card = printed(ended, paint, 100)
    assert "19,995 more lines" in card
    assert "ctrl-o shows the last 2,000" in card
    assert "/export FILE writes them all" in card
    assert "line 19999" in card.splitlines()[-1]
    assert has_more(ended, 100)
    assert "… 18,000 lines before these; /export FILE" in full(ended, paint)
    assert full(ended, paint).count("\n") == 2 + KEPT_LINES


async def test_output_that_streamed_is_counted_though_it_is_forgotten() -> None:
    lines = [f"line {n}\n" for n in range(3 * KEPT_LINES + 10)]
    left_out, kept = call(streamed=lines).output()
    assert left_out + len(kept) == len(lines)
    assert text_of_line(kept[-1]) == f"line {len(lines) - 1}"


async def test_a_long_output_in_a_fence_has_none_and_is_counted() -> None:
    lines = [f"line {n}" for n in range(10_000)]
    left_out, kept = call(content="\n".join(["```console", *lines, "```"])).output()
    assert [text_of_line(line) for line in kept] == lines[-KEPT_LINES:]
    assert left_out == 10_000 - KEPT_LINES


async def test_only_the_fence_around_output_is_left_out() -> None:
    _, lines = call(content="```sh\none\n```\ntwo\n```").output()
    assert [text_of_line(line) for line in lines] == ["one", "```", "two"]
    _, lines = call(content="```\nleft open").output()
    assert [text_of_line(line) for line in lines] == ["```", "left open"]


async def test_a_call_is_reported_once_when_it_runs_and_once_when_it_is_over() -> None:
    opened = ItemOpened(Item(id="c", type="tool", status="pending", tool=ToolCall(title="t")))
    view, record = seen(opened)
    assert record.calls == []
    for status in ("waiting", "running", "running"):
        view.take(ItemUpdated("c", {"status": status}))
    view.take(ItemClosed("c", "completed"))
    assert [name for name, _ in record.calls] == ["call_began", "call_ended"]
    assert view.calls == {}


def undressed(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


async def test_the_steps_of_sub_agents_stand_below_their_names() -> None:
    page = ScrollingText(Painter(colour=False), lambda: 80)
    view = View(Drawing(page))
    for id, parent in (
        ("a", None),
        ("b", None),
        ("a1", "a"),
        ("a2", "a"),
        ("b1", "b"),
        ("b2", "b1"),
    ):
        tool = ToolCall(title=f"Call {id}", kind="other")
        view.take(ItemOpened(Item(id=id, type="tool", status="running", tool=tool, parent=parent)))
    assert "  ▸ Call a2\n" in "".join(text for _, text in Drawing(page).live(view, 0.0, 24))
    for id in ("a1", "a2", "b2", "b1", "a", "b"):
        view.take(ItemClosed(id, "completed"))
    assert undressed(page.take()) == (
        "▸ Call a\n"
        "  ✓ Call a1\n"
        "  ✓ Call a2\n"
        "  ▸ Call b1\n"
        "    ✓ Call b2\n"
        "▸ Call b\n"
        "  ✓ Call b1  1 steps\n"
        "✓ Call a  2 steps\n"
        "✓ Call b  1 steps\n"
    )


async def test_a_long_thought_and_shortened_output_can_be_shown_in_full() -> None:
    page = ScrollingText(Painter(colour=False), lambda: 80)
    drawing = Drawing(page)
    drawing.thought("short", 0.0)
    assert not drawing.shortened
    drawing.thought("one\ntwo " * 50, 0.0)
    assert undressed(drawing.shortened[-1]()) == ("one\ntwo " * 50).strip() + "\n"
    drawing.call_ended(call(content="x" * 1000))
    assert "x" * 1000 in drawing.shortened[-1]()


async def test_a_line_of_output_that_wraps_counts_as_its_rows() -> None:
    card = undressed(printed(call(content="x" * 1000 + "\nend"), Painter(colour=False), 80))
    assert card.splitlines()[1:] == [
        "  │ … 10 more lines, ctrl-o shows them",
        *["  │ " + "x" * 75] * 3,
        "  │ " + "x" * (1000 - 13 * 75),
        "  │ end",
    ]
