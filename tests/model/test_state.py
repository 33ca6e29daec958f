"""The fold: what each event does to the state of a session, and that a snapshot is a copy."""

from __future__ import annotations

import msgspec
import pytest

from agentrt.events import (
    AgentState,
    Choice,
    Command,
    CommandsChanged,
    Diff,
    ErrorInfo,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    PermissionClosed,
    PermissionOpened,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    Snapshot,
    State,
    StateChanged,
    Task,
    TaskChanged,
    Text,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    ToolCall,
    ToolText,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)
from agentrt.lowlevel import SessionState

from .talk import shown, through_json


def fold(*events: Event) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state


def text_item(id: str = "i1") -> ItemOpened:
    return ItemOpened(Item(id=id, type="text", turn="t1"))


def tool_item(id: str = "i1", **fields: object) -> ItemOpened:
    return ItemOpened(Item(id=id, type="tool", turn="t1", tool=ToolCall(**fields)))


# --- the session and its turns


def test_a_session_begins_without_anything() -> None:
    snapshot = SessionState(AgentState("demo", "acp")).snapshot("s", "e", 0)
    assert snapshot == Snapshot(
        session="s",
        epoch="e",
        seq=0,
        state=State("starting", None, AgentState("demo", "acp")),
        turns=[],
        items=[],
        permissions=[],
        queue=[],
        paused=False,
        plan=[],
        tasks=[],
        usage=None,
        modes=None,
        commands=[],
        title=None,
    )


def test_a_state_replaces_the_state() -> None:
    dead = State("dead", None, AgentState("demo", "acp"), ErrorInfo("agent_failed", "gone"))
    assert fold(StateChanged(dead)).state == dead


def test_a_started_turn_has_no_outcome_and_an_ended_one_has_all_of_its_end() -> None:
    state = fold(TurnStarted("t1", "user", [Text("hi")]))
    assert state.turns["t1"].outcome is None
    state.apply(
        TurnEnded(
            turn="t1",
            outcome="cancelled",
            by="user",
            stop_reason="end_turn",
            usage=Usage(total_tokens=3),
            error=ErrorInfo("e", "m"),
            structured_output={"a": 1},
        )
    )
    turn = state.turns["t1"]
    assert (turn.origin, turn.outcome, turn.by, turn.stop_reason, turn.usage, turn.error) == (
        "user",
        "cancelled",
        "user",
        "end_turn",
        Usage(total_tokens=3),
        ErrorInfo("e", "m"),
    )
    assert turn.structured_output == {"a": 1}


# --- items


@pytest.mark.parametrize("delta", [ItemDelta, TextDelta, ThoughtDelta])
def test_deltas_append_to_the_text_of_their_item(delta: type[ItemDelta]) -> None:
    state = fold(text_item("i1"), text_item("i2"), delta("i1", "a"), delta("i1", "b"))
    assert (state.text("i1"), state.text("i2")) == ("ab", "")
    assert [item.text for item in state.snapshot("s", "e", 4).items] == ["ab", ""]


def test_a_delta_continues_the_text_that_an_item_was_opened_with() -> None:
    opened = ItemOpened(Item(id="i1", type="text", text="a"))
    assert fold(opened, TextDelta("i1", "b")).text("i1") == "ab"


def test_closing_an_item_keeps_its_text_and_gives_it_its_status() -> None:
    state = fold(text_item(), TextDelta("i1", "a"), ItemClosed("i1", "cancelled"))
    assert (state.items["i1"].text, state.items["i1"].status) == ("a", "cancelled")


def test_output_that_comes_behind_the_close_is_still_shown() -> None:
    state = fold(
        tool_item(), ItemClosed("i1", "denied"), ItemDelta("i1", "a"), ItemDelta("i1", "b")
    )
    assert state.text("i1") == "ab"
    assert state.snapshot("s", "e", 4).items[0].text == "ab"


def test_an_update_replaces_the_fields_it_names() -> None:
    state = fold(tool_item(title="a"), ItemUpdated("i1", {"status": "waiting"}))
    assert (state.items["i1"].status, state.items["i1"].turn) == ("waiting", "t1")


def test_an_update_of_the_tool_keeps_what_it_does_not_name() -> None:
    state = fold(
        tool_item(call="c1", title="a", kind="edit", content=(ToolText(Text("old")),)),
        ItemUpdated("i1", {"tool": {"title": "b", "content": (Diff("p", "new"),)}}),
    )
    assert state.items["i1"].tool == ToolCall(
        call="c1", title="b", kind="edit", content=(Diff("p", "new"),)
    )


def test_an_update_from_json_gives_the_same_structs() -> None:
    content = (ToolText(Text("x")), Diff("p", "new", "old"), Diff("q", "new"))
    events = [tool_item(call="c1"), ItemUpdated("i1", {"tool": {"content": content}})]
    state = fold(*through_json(events))
    assert state.items["i1"].tool == ToolCall(call="c1", content=content)
    assert shown(state, 2) == shown(fold(*events), 2)


def test_an_event_is_not_changed_by_the_events_after_it() -> None:
    opened = tool_item(title="a")
    fold(opened, ItemUpdated("i1", {"tool": {"title": "b"}}), ItemClosed("i1", "completed"))
    assert opened == tool_item(title="a")


@pytest.mark.parametrize(
    "event",
    [
        ItemDelta("i9", "a"),
        ItemUpdated("i9", {"status": "running"}),
        ItemClosed("i9", "completed"),
        PermissionClosed(request="r9", outcome="cancelled"),
        TurnEnded(turn="t9", outcome="completed"),
        Notice("info", "late", "too late"),
    ],
)
def test_an_event_about_something_unknown_changes_nothing(event: Event) -> None:
    assert shown(fold(event), 1) == shown(SessionState(), 1)


# --- questions and values


def test_a_permission_is_there_from_its_opening_to_its_closing() -> None:
    first, second = (PermissionOpened(request=r, title="?") for r in ("r1", "r2"))
    state = fold(first, second, PermissionClosed(request="r1", outcome="selected", option="yes"))
    assert state.snapshot("s", "e", 3).permissions == [second]


@pytest.mark.parametrize(
    ("event", "name", "value"),
    [
        (QueueChanged([QueueEntry("q1", [Text("next")])], True), "paused", True),
        (QueueChanged([QueueEntry("q1", [])]), "queue", [QueueEntry("q1", [])]),
        (PlanChanged([PlanEntry("step")]), "plan", [PlanEntry("step")]),
        (UsageChanged(Usage(used=1, size=9)), "usage", Usage(used=1, size=9)),
        (ModesChanged(Modes(mode="ask")), "modes", Modes(mode="ask")),
        (CommandsChanged([Command("help")]), "commands", [Command("help")]),
        (TitleChanged("A title"), "title", "A title"),
    ],
)
def test_a_value_is_replaced_whole(event: Event, name: str, value: object) -> None:
    assert getattr(fold(event).snapshot("s", "e", 1), name) == value


def test_a_task_is_replaced_by_its_id_and_keeps_its_place() -> None:
    tasks = [Task(id="b1"), Task(id="b2"), Task(id="b1", status="completed")]
    state = fold(*map(TaskChanged, tasks))
    assert state.snapshot("s", "e", 3).tasks == [tasks[2], tasks[1]]


# --- snapshots


def test_a_snapshot_is_not_changed_by_later_events() -> None:
    state = fold(
        TurnStarted("t1", "user"),
        text_item("i1"),
        tool_item("i2", title="a"),
        TextDelta("i1", "a"),
        PermissionOpened(request="r1", title="?"),
        TaskChanged(Task(id="b1")),
    )
    snapshot = state.snapshot("s", "e", 6)
    before = msgspec.json.encode(snapshot)
    for event in (
        TextDelta("i1", "b"),
        ItemUpdated("i2", {"status": "waiting", "tool": {"title": "b"}}),
        ItemClosed("i1", "completed"),
        PermissionClosed(request="r1", outcome="cancelled"),
        TaskChanged(Task(id="b1", status="failed")),
        TurnEnded(turn="t1", outcome="completed"),
        PlanChanged([PlanEntry("x")]),
    ):
        state.apply(event)
    assert msgspec.json.encode(snapshot) == before


def test_a_snapshot_survives_json() -> None:
    state = fold(
        TurnStarted("t1", "agent"),
        tool_item("i1", content=(Diff("p", "n"),), input={"a": [1, None]}),
        ModesChanged(Modes(modes=[Choice("a", "A")])),
    )
    snapshot = state.snapshot("s", "e", 3)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot


@pytest.mark.parametrize("pieces", [0, 1, 64, 65, 1025, 5000])
def test_a_closed_item_has_its_whole_text_however_it_is_looked_at(pieces: int) -> None:
    text = "".join(f"{n} " for n in range(pieces))

    def closed() -> SessionState:
        opened = ItemOpened(Item(id="i1", type="text"))
        deltas = [TextDelta("i1", f"{n} ") for n in range(pieces)]
        return fold(opened, *deltas, ItemClosed("i1", "completed"))

    assert closed().items["i1"].text == text
    assert closed().text("i1") == text
    assert closed().snapshot("s", "e", 1).items[0].text == text
    state = closed()
    assert [state.items["i1"].text, state.text("i1")] == [text, text]
    state.apply(TextDelta("i1", "more"))
    assert state.text("i1") == text + "more"
