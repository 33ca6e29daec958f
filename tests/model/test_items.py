"""Texts and tool calls: what belongs together, and what is opened, changed and closed when."""

from __future__ import annotations

import pytest

from agentrt.effects import BlockReceived, Retracted, TextEnded, TextReceived, UserContentReceived
from agentrt.events import (
    Diff,
    Image,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    Notice,
    Outcome,
    TerminalRef,
    Text,
    ThoughtDelta,
    ToolCall,
    ToolText,
)

from .talk import Talk, call

IMAGE = Image("aGk=", "image/png")


@pytest.fixture
def talk() -> Talk:
    """In a turn of the user's, with all before it read."""
    talk = Talk()
    talk.begin([Text("hi")])
    talk.step()
    talk.events()
    return talk


def test_what_a_call_says_that_was_denied_is_not_appended_to_it(talk: Talk) -> None:
    talk.tell(call("c1", status="denied"))
    talk.events()
    talk.tell(call("c1", append="late"))
    assert [event for event in talk.events() if isinstance(event, ItemDelta)] == []


# --- what is no part of the answer


def test_a_text_that_breaks_off_is_shown_as_failed_and_no_part_of_the_answer(talk: Talk) -> None:
    talk.tell(
        TextReceived("Before.", message="m1"), TextEnded(), TextReceived("half of", message="m2")
    )
    talk.tell(TextEnded(broken=True), TextReceived("the whole", message="m3"))
    assert "i3 failed" in talk.told()
    assert talk.items.answer()() == "Before.\n\nthe whole"


def test_a_message_that_is_taken_back_is_no_part_of_the_answer(talk: Talk) -> None:
    talk.tell(
        TextReceived("no", message="m1"),
        TextEnded(),
        TextReceived("yes", message="m2"),
        TextEnded(),
    )
    talk.tell(Retracted(frozenset({"m1"})))
    assert talk.items.answer()() == "yes"


def test_a_text_goes_on_behind_a_prompt_though_it_was_taken_back(talk: Talk) -> None:
    talk.tell(TextReceived("no", message="m1"))
    talk.conversation.items.prompted([Text("also")])
    talk.tell(Retracted(frozenset({"m1"})), TextReceived("yes", message="m1"))
    assert talk.items.answer()() == "yes"


# --- speech


def test_pieces_of_one_message_are_one_item(talk: Talk) -> None:
    talk.tell(TextReceived("Hel", message="m1"), TextReceived("lo", message="m1"))
    assert talk.told() == ["i2 text running in t1", "i2 + Hel", "i2 + lo"]


def test_pieces_without_a_message_id_continue_what_grows(talk: Talk) -> None:
    talk.tell(TextReceived("a", message="m1"), TextReceived("b"), TextReceived("c", message="m1"))
    assert talk.told() == ["i2 text running in t1", "i2 + a", "i2 + b", "i2 + c"]


def test_another_message_is_another_item(talk: Talk) -> None:
    talk.tell(TextReceived("a", message="m1"), TextReceived("b", message="m2"))
    assert talk.told() == [
        "i2 text running in t1",
        "i2 + a",
        "i2 completed",
        "i3 text running in t1",
        "i3 + b",
    ]


def test_a_thought_and_an_answer_of_one_message_are_two_items(talk: Talk) -> None:
    talk.tell(TextReceived("hm", thought=True, message="m1"), TextReceived("so", message="m1"))
    assert talk.told() == [
        "i2 thought running in t1",
        "i2 + hm",
        "i2 completed",
        "i3 text running in t1",
        "i3 + so",
    ]


def test_a_piece_of_a_thought_is_reported_as_one(talk: Talk) -> None:
    talk.tell(TextReceived("hm", thought=True))
    assert talk.events()[1:] == [ThoughtDelta("i2", "hm")]


def test_sub_agents_speak_beside_the_main_answer_without_cutting_it(talk: Talk) -> None:
    talk.tell(call("c1", opens=True, status="running"))
    talk.events()
    talk.tell(
        TextReceived("main "),
        TextReceived("sub ", parent="c1"),
        TextReceived("main"),
        TextReceived("sub", parent="c1"),
    )
    assert talk.told() == [
        "i3 text running in t1",
        "i3 + main ",
        "i4 text running in t1 of i2",
        "i4 + sub ",
        "i3 + main",
        "i4 + sub",
    ]
    assert talk.items.answer()() == "main main"


def test_the_answer_is_the_text_without_thoughts_and_sub_agents(talk: Talk) -> None:
    talk.tell(
        TextReceived("hm", thought=True),
        TextReceived("First. "),
        call("c1", opens=True),
        TextReceived("sub", parent="c1"),
        TextReceived("Second."),
    )
    assert talk.items.answer()() == "First. \n\nSecond."


def test_a_prompt_that_the_turn_takes_in_stands_between_the_texts(talk: Talk) -> None:
    talk.tell(TextReceived("a", message="m1"))
    talk.items.prompted([Text("and this")])
    talk.tell(TextReceived("b", message="m1"))
    assert talk.told()[2:] == [
        "i2 completed",
        "i3 user completed in t1",
        "i4 text running in t1",
        "i4 + b",
    ]
    assert talk.items.answer()() == "ab"  # one text of one message all the same
    talk.tell(TextReceived("c", message="m2"))
    assert talk.items.answer()() == "ab\n\nc"


def test_the_next_turn_has_an_answer_of_its_own(talk: Talk) -> None:
    talk.tell(TextReceived("First."))
    talk.conversation.end("completed")
    talk.begin([])
    talk.tell(TextReceived("Second."))
    assert talk.items.answer()() == "Second."


def test_an_empty_piece_is_nothing(talk: Talk) -> None:
    talk.tell(TextReceived(""), TextReceived("", thought=True))
    talk.conversation.end("completed")
    talk.tell(TextReceived(""))
    assert talk.told() == ["turn t1 completed"]
    assert talk.conversation.turn is None


def test_speech_ends_where_the_wire_says_so(talk: Talk) -> None:
    talk.tell(
        TextReceived("a", message="m1"), TextEnded(), TextReceived("b", message="m1"), TextEnded()
    )
    assert talk.told() == [
        "i2 text running in t1",
        "i2 + a",
        "i2 completed",
        "i3 text running in t1",
        "i3 + b",
        "i3 completed",
    ]


def test_an_end_of_speech_without_speech_is_nothing(talk: Talk) -> None:
    talk.tell(TextEnded(), TextEnded(parent="c9"))
    assert talk.told() == []


def test_an_image_in_the_answer_is_an_item_of_its_own(talk: Talk) -> None:
    talk.tell(TextReceived("look: "), BlockReceived(block=IMAGE), TextReceived("nice"))
    assert talk.told() == [
        "i2 text running in t1",
        "i2 + look: ",
        "i2 completed",
        "i3 text completed in t1",
        "i4 text running in t1",
        "i4 + nice",
    ]
    assert talk.state.items["i3"].content == (IMAGE,)


# --- tool calls


def test_text_tool_text_keeps_its_order(talk: Talk) -> None:
    talk.tell(TextReceived("a"), call("c1", opens=True), TextReceived("b"))
    assert talk.told() == [
        "i2 text running in t1",
        "i2 + a",
        "i2 completed",
        "i3 tool pending in t1",
        "i4 text running in t1",
        "i4 + b",
    ]


def test_an_update_of_a_tool_call_does_not_cut_the_text_behind_it(talk: Talk) -> None:
    talk.tell(
        call("c1", opens=True), TextReceived("a"), call("c1", status="running"), TextReceived("b")
    )
    assert talk.told()[-3:] == ["i3 + a", "i2 status=running", "i3 + b"]


def test_an_update_of_an_unknown_tool_call_opens_it(talk: Talk) -> None:
    talk.tell(call("c1", status="running", title="List files"))
    assert talk.told() == ["i2 tool running in t1"]
    assert talk.state.items["i2"].tool == ToolCall(call="c1", title="List files")


def test_a_tool_call_that_is_first_heard_of_at_its_end_is_opened_and_closed(talk: Talk) -> None:
    talk.tell(call("c1", status="failed", append="boom"))
    assert talk.told() == ["i2 tool running in t1", "i2 + boom", "i2 failed"]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_terminal_status_closes_the_call(talk: Talk, status: ItemStatus) -> None:
    talk.tell(call("c1", opens=True), call("c1", status=status, title="done"))
    assert talk.told() == ["i2 tool pending in t1", "i2 title=done", f"i2 {status}"]


def test_an_update_names_only_what_it_carries(talk: Talk) -> None:
    talk.tell(call("c1", opens=True, title="Edit", kind="edit", input={"path": "a"}))
    talk.tell(call("c1", content=[Diff("a", "new", "old")]))
    assert talk.state.items["i2"].tool == ToolCall(
        call="c1",
        title="Edit",
        kind="edit",
        input={"path": "a"},
        content=(Diff("a", "new", "old"),),
    )


def test_an_update_with_nothing_new_is_no_event(talk: Talk) -> None:
    talk.tell(call("c1", opens=True, status="running"), call("c1"), call("c1", status="running"))
    assert talk.told() == ["i2 tool running in t1"]


def test_a_closed_call_takes_content_but_no_status(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), call("c1", status="completed"))
    talk.events()
    talk.tell(
        call("c1", status="running"),
        call("c1", status="failed", output="more"),
        call("c1", append="tail"),
    )
    assert talk.told() == ["i2 output=more", "i2 + tail"]
    assert talk.state.items["i2"].status == "completed"


def test_the_item_of_a_sub_agents_call_hangs_below_its_parent(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), call("c2", opens=True, parent="c1"))
    assert talk.told() == ["i2 tool pending in t1", "i3 tool pending in t1 of i2"]


def test_an_unknown_parent_is_no_parent(talk: Talk) -> None:
    talk.tell(call("c2", opens=True, parent="c1"), TextReceived("a", parent="c1"))
    assert talk.told()[:2] == ["i2 tool pending in t1", "i3 text running in t1"]


def test_a_sub_agents_speech_ends_with_its_call(talk: Talk) -> None:
    talk.tell(
        call("c1", opens=True), TextReceived("sub", parent="c1"), call("c1", status="completed")
    )
    assert talk.told()[-2:] == ["i3 completed", "i2 completed"]


def test_live_output_of_a_terminal_goes_to_the_call_that_shows_it(talk: Talk) -> None:
    talk.tell(
        call("c1", opens=True),
        call("c2", opens=True, content=[ToolText(Text("x")), TerminalRef("term1")]),
    )
    talk.events()
    talk.items.append_output("term1", "out")
    talk.items.append_output("term2", "of nobody")
    assert talk.told() == ["i3 + out"]
    talk.tell(call("c2", status="completed"))
    talk.items.append_output("term1", "too late")
    assert talk.told() == ["i3 completed"]


def test_what_a_terminal_wrote_before_a_call_shows_it_comes_with_that_call(talk: Talk) -> None:
    talk.items.append_output("term1", "early ")
    talk.items.append_output("term1", "bird")
    assert talk.told() == []
    talk.tell(call("c1", opens=True), call("c1", content=[TerminalRef("term1")]))
    talk.items.append_output("term1", "!")
    assert [event.text for event in talk.events() if isinstance(event, ItemDelta)] == [
        *("early bird", "!")
    ]


def test_of_a_terminal_that_nothing_shows_only_the_end_is_kept(talk: Talk) -> None:
    for _ in range(100):
        talk.items.append_output("term1", "x" * 10_000)
    talk.tell(call("c1", opens=True, content=[TerminalRef("term1")]))
    assert talk.state.text("i2") == "x" * 65_536


def test_what_nothing_showed_is_forgotten_with_its_turn(talk: Talk) -> None:
    talk.items.append_output("term1", "old")
    talk.conversation.end("completed")
    talk.tell(call("c1", opens=True, content=[TerminalRef("term1")]))
    assert talk.state.text("i2") == ""


def test_a_terminal_id_that_is_used_again_belongs_to_the_call_that_shows_it_now(talk: Talk) -> None:
    talk.tell(call("c0", opens=True, content=[TerminalRef("term1")], replay=True))
    talk.tell(call("c1", opens=True, content=[TerminalRef("term1")]), call("c1", status="failed"))
    talk.tell(call("c2", opens=True, content=[TerminalRef("term1")]))
    talk.items.append_output("term1", "new")
    assert [talk.state.text(id) for id in ("i2", "i3", "i4")] == ["", "", "new"]


# --- one id, several calls


def test_a_call_that_is_announced_twice_is_one_item(talk: Talk) -> None:
    talk.tell(call("c1", opens=True, title="a"), call("c1", opens=True, title="b"))
    talk.tell(
        call("c1", opens=True, status="completed"), call("c1", opens=True, status="completed")
    )
    assert talk.told() == ["i2 tool pending in t1", "i2 title=b", "i2 completed"]


def test_an_announcement_with_the_id_of_a_finished_call_is_another_item(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), call("c1", status="completed"))
    talk.tell(call("c1", opens=True, status="pending"), call("c1", status="failed"))
    assert talk.told() == [
        "i2 tool pending in t1",
        "i2 completed",
        "i3 tool pending in t1",
        "i3 failed",
    ]


def test_an_announcement_with_the_id_of_an_earlier_turns_call_is_another_item(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.conversation.end("completed")
    talk.begin([])
    talk.events()
    talk.tell(call("c1", opens=True), call("c1", status="completed"))
    assert talk.told() == ["i4 tool pending in t2", "i4 completed"]


# --- late and unwanted


def test_late_updates_of_one_call_are_one_notice(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.conversation.end("completed")
    talk.events()
    for _ in range(3):
        talk.tell(call("c1", status="completed", append="late"))
    assert talk.events() == [
        Notice(
            "info",
            "late",
            "the agent sent an update for a tool call of a turn that is over",
            {"item": "i2", "turn": "t1", "call": "c1"},
        )
    ]
    assert talk.items.dropped == {"late": 3}
    assert talk.conversation.turn is None


def test_a_late_update_inside_the_next_turn_does_not_touch_it(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.conversation.cancel("user", None)
    talk.conversation.end("cancelled")
    talk.begin([])
    talk.events()
    talk.tell(TextReceived("a"), call("c1", status="failed"), TextReceived("b"))
    assert talk.told() == ["i4 text running in t2", "i4 + a", "notice late", "i4 + b"]


def test_a_call_first_announced_during_the_cancel_is_late_in_the_next_turn(talk: Talk) -> None:
    talk.conversation.cancel("user", None)
    talk.tell(call("c1", opens=True))
    talk.conversation.end("cancelled")
    talk.begin([])
    talk.events()
    talk.tell(call("c1", status="completed"))
    [notice] = talk.events()
    assert isinstance(notice, Notice)
    assert notice.data == {"item": None, "turn": "t1", "call": "c1"}


def test_the_users_words_that_the_agent_repeats_are_not_shown_twice(talk: Talk) -> None:
    talk.tell(UserContentReceived(content=[Text("hi")]))
    talk.conversation.cancel("user", None)
    talk.tell(UserContentReceived(content=[Text("hi")]))
    assert talk.told() == []
    assert talk.items.dropped == {"echo": 2}


def test_words_of_the_user_in_a_turn_of_the_agents_are_shown(talk: Talk) -> None:
    talk.conversation.end("completed")
    talk.conversation.begin_own(explicit=True)
    talk.events()
    talk.tell(
        TextReceived("a"), UserContentReceived(content=[Text("task done")]), TextReceived("b")
    )
    assert talk.told() == [
        "i2 text running in t2",
        "i2 + a",
        "i2 completed",
        "i3 user completed in t2",
        "i4 text running in t2",
        "i4 + b",
    ]


def test_words_of_the_user_in_a_turn_of_the_agents_are_dropped_after_its_cancel(talk: Talk) -> None:
    talk.conversation.end("completed")
    talk.conversation.begin_own(explicit=True)
    talk.conversation.cancel("user", None)
    talk.events()
    talk.tell(UserContentReceived(content=[Text("task done")]))
    assert talk.told() == []


def test_words_of_the_user_behind_a_turn_do_not_begin_one(talk: Talk) -> None:
    talk.conversation.end("completed")
    talk.tell(UserContentReceived(content=[Text("from elsewhere")]))
    assert talk.told() == ["turn t1 completed", "i2 user completed in no turn"]
    assert talk.conversation.turn is None


# --- the end of a turn


@pytest.mark.parametrize(
    ("outcome", "tool", "speech"),
    [
        ("completed", "completed", "completed"),
        ("failed", "failed", "completed"),
        ("refused", "cancelled", "cancelled"),
        ("limit", "cancelled", "cancelled"),
        ("timed_out", "cancelled", "cancelled"),
        ("cancelled", "cancelled", "cancelled"),
        ("agent_died", "orphaned", "orphaned"),
    ],
)
def test_what_is_left_open_is_closed_before_the_end(
    talk: Talk, outcome: Outcome, tool: str, speech: str
) -> None:
    talk.tell(call("c1", opens=True), TextReceived("a"), TextReceived("b", parent="c1"))
    talk.events()
    talk.conversation.end(outcome)
    assert talk.told() == [f"i3 {speech}", f"i4 {speech}", f"i2 {tool}", f"turn t1 {outcome}"]


def test_what_is_closed_is_not_closed_again(talk: Talk) -> None:
    talk.tell(
        TextReceived("a"), TextEnded(), call("c1", opens=True), call("c1", status="completed")
    )
    talk.events()
    talk.conversation.end("agent_died")
    assert talk.told() == ["turn t1 agent_died"]


# --- history


def test_history_is_shown_outside_of_turns() -> None:
    talk = Talk(ready=False)
    talk.tell(
        UserContentReceived(content=[Text("hi")], replay=True),
        TextReceived("a", replay=True),
        call("c1", opens=True, status="running", replay=True),
        call("c1", status="completed", replay=True),
        TextReceived("b", replay=True),
        BlockReceived(block=IMAGE, replay=True),
    )
    assert talk.told() == [
        "i1 user completed in no turn",
        "i2 text running in no turn",
        "i2 + a",
        "i2 completed",
        "i3 tool running in no turn",
        "i3 completed",
        "i4 text running in no turn",
        "i4 + b",
        "i4 completed",
        "i5 text completed in no turn",
    ]
    assert all(item.replay for item in talk.state.items.values())
    assert talk.conversation.turn is None


def test_the_end_of_the_history_closes_what_it_left_open() -> None:
    talk = Talk(ready=False)
    talk.tell(
        call("c1", opens=True, replay=True),
        TextReceived("a", replay=True),
        TextReceived("b", parent="c1", replay=True),
    )
    talk.events()
    talk.items.replayed()
    talk.items.replayed()
    assert talk.told() == ["i2 completed", "i3 completed", "i1 completed"]


def test_what_comes_live_does_not_continue_the_history() -> None:
    talk = Talk()
    talk.tell(
        TextReceived("old", replay=True),
        TextReceived("new"),
        TextReceived("old again", replay=True),
    )
    assert [(i.turn, i.text) for i in talk.log.snapshot().items] == [
        (None, "old"),
        ("t1", "new"),
        (None, "old again"),
    ]


def test_a_live_update_of_a_call_of_the_history_is_late() -> None:
    talk = Talk()
    talk.tell(call("c1", opens=True, replay=True))
    talk.items.replayed()
    talk.events()
    talk.tell(call("c1", status="failed"))
    assert talk.told() == ["notice late"]


def test_a_history_that_is_known_already_is_dropped_without_a_word(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.conversation.end("agent_died")
    talk.events()
    talk.conversation.keep_replay = False
    talk.tell(
        UserContentReceived(content=[Text("hi")], replay=True),
        TextReceived("a", replay=True),
        BlockReceived(block=IMAGE, replay=True),
        call("c1", opens=True, replay=True),
        call("c1", status="completed", replay=True),
    )
    talk.items.replayed()
    assert talk.told() == []
    assert talk.items.dropped == {"replay": 5}


def test_the_history_does_not_touch_a_live_call_of_the_same_id(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.events()
    talk.tell(call("c1", status="failed", replay=True))
    assert talk.told() == ["notice late"]
    talk.tell(call("c1", opens=True, replay=True))
    assert talk.told() == ["i3 tool pending in no turn"]


def test_calls_of_the_history_that_share_an_id_are_several_items() -> None:
    talk = Talk(ready=False)
    for _ in range(2):
        talk.tell(
            call("c1", opens=True, status="pending", replay=True),
            call("c1", status="completed", replay=True),
        )
    assert [type(event) for event in talk.events()].count(ItemOpened) == 2
