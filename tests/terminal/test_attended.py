"""Where a person sits: what ends a turn, and what is said about a line that is no prompt."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from agentrt import Limits
from agentrt._cli.printing import as_date
from agentrt._cli.repl.conversation import what_is_meant
from agentrt._cli.repl.export import exported
from agentrt._cli.repl.slash_commands import COMMANDS as OURS
from agentrt._cli.repl.view import how_it_ended
from agentrt._cli.screen.status import status_line
from agentrt._cli.setup import Setup
from agentrt._cli.text import folded, wrapped
from agentrt.agents import BUILT_IN
from agentrt.config import Config
from agentrt.events import (
    AgentState,
    Command,
    CommandsChanged,
    ErrorInfo,
    Item,
    ItemClosed,
    ItemOpened,
    LimitWindow,
    Modes,
    ModesChanged,
    State,
    StateChanged,
    Text,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)
from agentrt.lowlevel import SessionState
from inside.screen import Drawing, Painter, ScrollingText, View


def test_a_turn_has_no_hard_limit_unless_one_was_set() -> None:
    setup = Setup(agent=BUILT_IN["demo"], config=Config())
    assert setup.limits.turn_timeout_s == Limits().turn_timeout_s
    assert setup.attended.limits.turn_timeout_s is None
    setup = Setup(
        agent=BUILT_IN["demo"], config=Config(limits={"turn_timeout_s": 7.0, "idle_timeout_s": 3.0})
    )
    assert (setup.attended.limits.turn_timeout_s, setup.attended.limits.idle_timeout_s) == (
        7.0,
        3.0,
    )


def page(width: int) -> ScrollingText:
    return ScrollingText(Painter(colour=False), lambda: width)


def status(view: View, width: int, **said: str) -> str:
    line = status_line(
        view,
        said.pop("seconds", None) and 125.0,
        agent="claude",
        permissions="allow-all" if said.pop("all", None) else None,
        queue=2,
        hint="esc stops it",
        now=0.0,
        width=width,
    )
    return "".join(text for _, text in line)


async def test_the_status_line_marks_a_mode_that_the_agent_has_not_confirmed(
    autojump_clock: MockClock,
) -> None:
    shown = View(Drawing(page(80)))
    shown.take(ModesChanged(Modes(mode="plan", model="large", unconfirmed=["mode"])))
    line = status(shown, 200)
    assert "large · plan (unconfirmed)" in line


async def test_limits_of_the_account_are_shown_when_nearly_used_and_the_end_names_a_time(
    autojump_clock: MockClock,
) -> None:
    shown = View(Drawing(page(80)))
    low = LimitWindow(name="seven_day", used_percent=12.0)
    high = LimitWindow(name="five_hour", used_percent=91.0, resets_at=1_795_700_000)
    shown.take(UsageChanged(Usage(used=100, limits=[low, high])))
    line = status(shown, 200)
    assert f"five hour limit 91% resets {as_date(1_795_700_000)}" in line
    assert "seven day" not in line
    reached = ErrorInfo("rate_limit", "out of tokens", retry_at=1_795_700_000)
    assert how_it_ended(TurnEnded(turn="t1", outcome="failed", error=reached)) == (
        f"the turn failed: out of tokens (possible again {as_date(1_795_700_000)})"
    )


async def test_the_status_line_leaves_out_whole_parts_and_shows_that_nothing_is_asked(
    autojump_clock: MockClock,
) -> None:
    shown = View(Drawing(page(80)))
    agent = AgentState("claude", "claude")
    shown.take(StateChanged(State("running", None, agent)))
    shown.take(ModesChanged(Modes(mode="acceptEdits", model="claude-sonnet-4-5")))
    shown.take(UsageChanged(Usage(used=100_000, size=200_000, cost=1.25)))
    whole = status(shown, 200, all="x", seconds="x")
    parts = ["claude", "claude-sonnet-4-5", "acceptEdits", "50% context", "$1.25", "2 queued"]
    assert whole.endswith(" · ".join(["working 125 s", *parts, "allow-all   esc stops it"]))
    seen = set()
    for width in range(200, 9, -1):
        line = status(shown, width, all="x", seconds="x")
        assert len(line) < width or line in "⠋ working 125 s"
        for part in line.replace("   ", " · ").split(" · ")[1:]:
            assert part in (*parts, "allow-all", "esc stops it")
        seen.add(line)
    assert "allow-all" in status(shown, 30, all="x", seconds="x")
    assert len(seen) > 6


COMMANDS = [Command("review"), Command("plugin:check")]


@pytest.mark.parametrize(
    ("line", "theirs", "said"),
    [
        ("/hlep", [], "unknown command /hlep; did you mean /help?"),
        ("/QIUT now", [], "did you mean /quit?"),
        ("/reviewx the change", COMMANDS, "did you mean /review?"),
        ("/xyzzy", COMMANDS, "unknown command /xyzzy (//xyzzy sends it"),
        ("/xyzzy", [], None),  # the agent does not say what it has
        ("/review it", COMMANDS, None),
        ("/plugin:check", COMMANDS, None),
        ("/etc/hosts is wrong", COMMANDS, None),
        ("/ is full", COMMANDS, None),
    ],
)
async def test_a_mistyped_command_is_not_sent(
    line: str, theirs: list[Command], said: str | None, autojump_clock: MockClock
) -> None:
    shown = View(Drawing(page(80)))
    shown.take(CommandsChanged(theirs))
    told = what_is_meant(OURS, shown, line)
    if said is None:
        assert told is None
    else:
        assert said in (told or "")


def test_our_words_break_at_spaces() -> None:
    text = "  paused · Enter resumes them · Alt-Up takes one back"
    rows = wrapped(text, 40).split("\n")
    assert rows == ["  paused · Enter resumes them · Alt-Up", "  takes one back"]
    assert wrapped("x" * 25, 10).split("\n") == ["x" * 10, "x" * 10, "x" * 5]
    assert wrapped("漢字漢字漢字", 5).split("\n") == ["漢字", "漢字", "漢字"]
    for width in range(2, 60):
        assert wrapped(text, width).replace("\n", "").replace(" ", "") == text.replace(" ", "")


def test_a_line_keeps_its_looks_where_it_is_broken() -> None:
    written = ScrollingText(Painter(colour=True), lambda: 20)
    written.line(("bold", "agentrt: "), ("dim", "this is more than one line"))
    first, second, *_ = written.take().split("\n")
    assert first == "\x1b[1magentrt: \x1b[0m\x1b[2mthis is\x1b[0m"
    assert second == "\x1b[2mmore than one line\x1b[0m"


def test_a_long_prompt_is_shown_by_its_ends_and_can_be_seen_whole() -> None:
    text = "\n".join(f"line {n}" for n in range(500))
    written = page(80)
    drawing = Drawing(written)
    drawing.prompt(text)
    told = written.take()
    assert told.count("\n") == 12
    assert "… 489 more lines, ctrl-o shows all of it" in told
    assert "line 499" in told
    assert [unfold() for unfold in drawing.shortened] == [text + "\n"]
    assert folded("short", "how") == "short"
    assert len(folded("x" * 100_000, "how")) < 2200


def test_an_export_says_how_each_turn_ended() -> None:
    state = SessionState()
    for turn, words, outcome in (("t1", "one", "cancelled"), ("t2", "two", "completed")):
        state.apply(TurnStarted(turn, "user", [Text(words)]))
        item = Item(id=turn, type="user", turn=turn, status="completed", content=(Text(words),))
        state.apply(ItemOpened(item))
        call = Item(
            id=f"c{turn}", type="tool", turn=turn, tool=ToolCall(title="dig", kind="execute")
        )
        state.apply(ItemOpened(call))
        state.apply(ItemClosed(call.id, "cancelled" if outcome == "cancelled" else "completed"))
        state.apply(TurnEnded(turn=turn, outcome=outcome))  # type: ignore[arg-type]
    text = exported(state.snapshot("s", "e", 1), "markdown").partition(".\n\n")[2]
    assert text == (
        "## You\n\n> one\n\n- **execute** `dig`: cancelled\n\n*cancelled*\n\n"
        "## You\n\n> two\n\n- **execute** `dig`: completed\n"
    )
