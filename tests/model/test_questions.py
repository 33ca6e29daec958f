"""Permission requests and elicitations: with, before and without a tool call; how they close."""

from __future__ import annotations

import pytest

from agentrt.effects import TextReceived
from agentrt.events import PermissionOpened, StateChanged, Text, ToolCall

from .talk import OPTIONS, Talk, ask, call


@pytest.fixture
def talk() -> Talk:
    """In a turn of the user's, with all before it read."""
    talk = Talk()
    talk.begin([Text("hi")])
    talk.step()
    talk.events()
    return talk


def test_a_question_shows_its_call_as_waiting_until_it_is_answered(talk: Talk) -> None:
    talk.tell(call("c1", opens=True, status="running"), ask("r1", "c1"))
    assert talk.conversation.resolve("r1", "selected", by="user", option="yes")
    assert talk.told() == [
        "i2 tool running in t1",
        "i2 status=waiting",
        "r1 asks about i2",
        "r1 selected by user",
        "i2 status=running",
    ]


def test_a_question_of_background_work_belongs_to_no_turn(talk: Talk) -> None:
    talk.tell(ask("r1", "c1", background=True))
    assert talk.conversation.turn is not None
    assert talk.conversation.turn.state.value == "running"
    talk.conversation.end("completed")
    assert talk.told() == ["r1 asks about None", "turn t1 completed"]
    assert talk.conversation.resolve("r1", "selected", by="user", option="yes")
    assert talk.told() == ["r1 selected by user"]


def test_a_question_of_background_work_begins_no_turn_and_ends_with_the_process() -> None:
    talk = Talk()
    talk.step()
    talk.events()
    talk.tell(ask("r1", background=True))
    assert talk.told() == ["r1 asks about None"]
    assert talk.conversation.turn is None
    talk.live("end")
    talk.conversation.sync()
    assert talk.told()[0] == "r1 cancelled by agent"


def test_a_question_carries_all_that_a_viewer_needs(talk: Talk) -> None:
    question = ask(
        "r1", kind="elicitation", detail={"a": 1}, form={"type": "object"}, url="http://x"
    )
    assert talk.conversation.ask(question, 1060.0)
    [event] = talk.events()
    assert event == PermissionOpened(
        request="r1",
        title="May I?",
        detail={"a": 1},
        options=OPTIONS,
        expires=1060.0,
        form={"type": "object"},
        url="http://x",
    )
    assert talk.items.open_request("r1") == event
    assert talk.items.open_requests() == ["r1"]


def test_a_question_before_any_word_of_its_call_opens_the_call(talk: Talk) -> None:
    talk.tell(ask("r1", "c1", name="Bash", tool_kind="execute", input={"command": "ls"}))
    assert talk.told() == ["i2 tool pending in t1", "i2 status=waiting", "r1 asks about i2"]
    assert talk.state.items["i2"].tool == ToolCall(
        call="c1", name="Bash", kind="execute", title="May I?", input={"command": "ls"}
    )


def test_the_call_that_is_announced_behind_its_question_is_the_same_item(talk: Talk) -> None:
    talk.tell(ask("r1", "c1"), call("c1", opens=True, status="pending", title="ls"))
    assert talk.told()[3:] == ["i2 title=ls"]


def test_a_status_reported_under_an_open_question_is_shown_after_it(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), ask("r1", "c1"))
    talk.events()
    talk.tell(call("c1", status="running"))
    talk.conversation.resolve("r1", "selected", by="policy", option="yes")
    assert talk.told() == ["r1 selected by policy", "i2 status=running"]


def test_a_denied_call_is_over_whether_or_not_the_agent_says_so(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), ask("r1", "c1"))
    talk.events()
    talk.conversation.resolve("r1", "selected", by="user", option="no", denied=True)
    talk.tell(call("c1", status="failed"), call("c1", opens=True, status="pending"))
    talk.conversation.end("completed")
    assert talk.told() == ["r1 selected by user", "i2 denied", "turn t1 completed"]


def test_a_second_answer_comes_too_late(talk: Talk) -> None:
    talk.tell(ask("r1", "c1"))
    assert talk.conversation.resolve("r1", "selected", by="user", option="yes")
    talk.events()
    assert not talk.conversation.resolve("r1", "selected", by="user", option="no", denied=True)
    assert not talk.conversation.resolve("r9", "cancelled", by="user")
    assert talk.told() == []


def test_a_terminal_update_closes_the_question_about_its_call(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), ask("r1", "c1"), ask("r2"))
    talk.events()
    talk.tell(call("c1", status="completed"))
    assert talk.told() == ["r1 cancelled by agent", "i2 completed"]
    assert talk.items.released == ["r1"]
    assert talk.items.open_requests() == ["r2"]


def test_two_questions_about_one_call_keep_it_waiting_until_both_are_answered(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), ask("r1", "c1"))
    talk.events()
    talk.tell(ask("r2", "c1"))
    talk.conversation.resolve("r2", "selected", by="user", option="yes")
    assert talk.told() == ["r2 asks about i2", "r2 selected by user"]
    talk.conversation.resolve("r1", "selected", by="user", option="yes")
    assert talk.told() == ["r1 selected by user", "i2 status=pending"]


def test_questions_about_different_calls_are_answered_in_any_order(talk: Talk) -> None:
    talk.tell(ask("r1", "c1"), ask("r2", "c2"), ask("r3"))
    talk.conversation.resolve("r2", "selected", by="user", option="yes")
    talk.conversation.resolve("r1", "selected", by="user", option="no", denied=True)
    assert talk.items.open_requests() == ["r3"]
    assert [item.status for item in talk.state.items.values()] == ["completed", "denied", "pending"]


def test_the_question_about_a_call_that_is_over_changes_nothing_on_it(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), call("c1", status="completed"), ask("r1", "c1"))
    talk.conversation.resolve("r1", "selected", by="user", option="no", denied=True)
    assert talk.told()[1:] == ["i2 completed", "r1 asks about i2", "r1 selected by user"]


def test_a_question_with_the_call_id_of_an_earlier_turn_opens_another_item(talk: Talk) -> None:
    talk.tell(call("c1", opens=True))
    talk.conversation.end("completed")
    talk.begin([])
    talk.events()
    talk.tell(ask("r1", "c1"))
    assert talk.told() == ["i4 tool pending in t2", "i4 status=waiting", "r1 asks about i4"]


@pytest.mark.parametrize("how", ["cancel", "end"])
def test_the_end_closes_every_question_before_its_call(talk: Talk, how: str) -> None:
    talk.tell(TextReceived("a"), call("c1", opens=True), ask("r1", "c1"), ask("r2"))
    talk.events()
    if how == "cancel":
        talk.conversation.cancel("user", None)
    else:
        talk.conversation.end("cancelled")
    assert talk.told()[:3] == ["r1 cancelled by turn", "r2 cancelled by turn", "i3 cancelled"]
    assert talk.items.released == ["r1", "r2"]
    assert talk.items.open_requests() == []


def test_a_question_during_a_cancel_is_not_shown(talk: Talk) -> None:
    talk.conversation.cancel("user", None)
    talk.events()
    assert not talk.conversation.ask(ask("r1", "c1"), None)
    assert talk.told() == []
    assert talk.items.open_request("r1") is None
    assert talk.items.dropped == {"cancelling": 1}


def test_the_call_of_a_question_that_was_not_shown_is_late_in_the_next_turn(talk: Talk) -> None:
    talk.conversation.cancel("user", None)
    talk.tell(ask("r1", "c1"))
    talk.conversation.end("cancelled")
    talk.begin([])
    talk.events()
    talk.tell(call("c1", status="failed"))
    assert talk.told() == ["notice late"]


def test_a_question_outside_a_turn_begins_one_of_the_agents() -> None:
    talk = Talk()
    talk.events()
    talk.tell(ask("r1", "c1"))
    assert talk.told() == [
        "turn t1 by agent",
        "i1 tool pending in t1",
        "i1 status=waiting",
        "r1 asks about i1",
    ]


# --- the phase


def test_the_session_waits_while_any_question_is_open(talk: Talk) -> None:
    talk.tell(ask("r1"), ask("r2"))
    talk.step()
    talk.conversation.resolve("r1", "selected", by="user", option="yes")
    talk.step()
    talk.conversation.resolve("r2", "selected", by="user", option="yes")
    talk.step()
    assert talk.phases() == ["waiting", "running"]


def test_the_turn_runs_again_with_its_last_answer(talk: Talk) -> None:
    talk.tell(ask("r1"), ask("r2"))
    turn = talk.conversation.turn
    assert turn is not None
    talk.conversation.resolve("r1", "selected", by="user", option="yes")
    talk.step()
    assert turn.state.value == "waiting"
    talk.conversation.resolve("r2", "selected", by="user", option="yes")
    talk.step()
    assert turn.state.value == "running"


def test_the_session_runs_again_when_the_agent_goes_on_without_the_answer(talk: Talk) -> None:
    talk.tell(call("c1", opens=True), ask("r1", "c1"))
    talk.step()
    talk.tell(call("c1", status="completed"))
    talk.step()
    assert talk.phases() == ["waiting", "running"]


def test_a_question_that_a_policy_answers_at_once_does_not_show_as_waiting(talk: Talk) -> None:
    talk.tell(ask("r1", "c1"))
    talk.conversation.resolve("r1", "selected", by="policy", option="yes")
    talk.step()
    assert not [event for event in talk.events() if isinstance(event, StateChanged)]
