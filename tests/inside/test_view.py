"""The view of a session: what is printed for good, what is drawn until then, and its images.

The view gets single events and every prefix of an answer; a screen skips frames, and shows only
the sum of them.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt._cli.repl.view import KEPT_LINES, CallView, text_of_line
from agentrt._cli.screen.cards import full, has_more, printed
from agentrt._cli.screen.drawing import UNFINISHED_LINES
from agentrt._cli.screen.pictures import PICTURE_BYTES, picture, picture_protocol
from agentrt._cli.screen.status import last_lines
from agentrt.events import (
    ErrorInfo,
    Event,
    Image,
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


WIDTH = 40
ANSWERS = [
    "A paragraph with **bold words** and `code` that is longer than the terminal is wide, so that"
    " it has to be wrapped somewhere between two of its words.",
    "- one item of a list that is quite a bit longer than a single line can hold\n- another item",
    "```python\ndef f():\n    return 'a rather long string that has to be broken somewhere'\n```",
    "# A heading\nand a line behind it",
    "> a quotation that goes on for longer than one line of this narrow terminal has room",
    "nothing to see",
]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_the_last_frame_looks_as_what_is_printed_then(answer: str) -> None:
    page = ScrollingText(Painter(colour=True), lambda: WIDTH)
    drawing = Drawing(page)
    drawing.answer_text("item", answer)
    already = undressed(page.take()).splitlines()
    frame = "".join(text for _, text in drawing.live(View(drawing), 0.0, 60))
    drawing.answer_complete("item")
    finished = [line.rstrip() for line in undressed(page.take()).splitlines() if line.strip()]
    if frame:
        live = [line.rstrip() for line in frame.splitlines() if line.strip()]
        assert finished[-len(live) :] == live
        assert len(live) == min(len(finished), UNFINISHED_LINES)
    else:
        assert already, "it was finished before"


def test_a_window_without_room_shows_whole_lines() -> None:
    fragments = [("", "one "), ("bold", "line\n"), ("", "x" * 25 + "\n"), ("", "last\n")]
    assert last_lines(fragments, 3, 20) == [("", "x" * 25 + "\n"), ("", "last\n")]
    assert last_lines(fragments, 1, 20) == [("", "last\n")]
    assert last_lines(fragments, 9, 20) == fragments


def png(width: int, height: int, more: bytes = b"") -> Image:
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + more
    return Image(b64encode(data).decode(), "image/png")


@pytest.mark.parametrize(
    ("env", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1", "TMUX": "x"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_the_protocol_is_that_of_the_terminal(env: dict[str, str], protocol: str | None) -> None:
    assert picture_protocol(env) == protocol


def test_kitty_gets_chunks_that_it_must_not_answer() -> None:
    shown = picture(png(800, 400, b"x" * 10_000), "kitty", 80, 16)
    assert shown is not None
    height = shown.count("\n")
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", shown)
    assert chunks[0][0] == f"a=T,f=100,q=2,C=1,c=64,r={height},m=1"
    assert [head for head, _ in chunks[1:]] == ["m=1"] * (len(chunks) - 2) + ["m=0"]
    assert "".join(data for _, data in chunks) == png(800, 400, b"x" * 10_000).data
    assert all(len(data) <= 4096 for _, data in chunks)


@pytest.mark.parametrize(
    ("size", "cells"),
    [((8, 16), (1, 1)), ((1, 1), (1, 1)), ((8000, 1600), (80, 8)), ((16, 16000), (1, 16))],
)
def test_an_image_keeps_its_proportions_and_fits(
    size: tuple[int, int], cells: tuple[int, int]
) -> None:
    shown = picture(png(*size), "iterm", 80, 16) or ""
    assert f"width={cells[0]};height={cells[1]};" in shown
    assert shown.count("\n") == cells[1]


@pytest.mark.parametrize(
    "image",
    [
        Image("no base64\x1b[2J", "image/png"),
        Image(b64encode(b"<svg/>").decode(), "image/svg+xml"),
        png(0, 10),
        png(8, 8, b"x" * PICTURE_BYTES),
        Image("", "image/png"),
    ],
)
def test_what_cannot_be_shown_is_only_named(image: Image) -> None:
    page = ScrollingText(Painter(colour=False), lambda: 80)
    Drawing(page, "kitty").image(image)
    assert re.fullmatch(r"  \[image: image/\S+, [\d,]+ kB\]\n", undressed(page.take()))


SHOWN = re.compile(
    r"\n{1,16}\x1b\[\d+A(\x1b_G[a-zA-Z0-9=,]*;[A-Za-z0-9+/=]*\x1b\\)+\r\x1b\[\d+B"
    r"|\n{1,16}\x1b\[\d+A\x1b\]1337;File=[a-zA-Z0-9=;]*:[A-Za-z0-9+/=]*\x07\r\x1b\[\d+B"
)


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"GIF89a", b"\xff\xd8\xff\xc0", b""]),
    st.binary(max_size=40),
    st.sampled_from(["kitty", "iterm"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_image_can_be_another_sequence(start: bytes, rest: bytes, protocol: str) -> None:
    image = Image(b64encode(start + rest).decode(), "image/png")
    shown = picture(image, protocol, 80, 16)  # type: ignore[arg-type]
    assert shown is None or SHOWN.fullmatch(shown)
