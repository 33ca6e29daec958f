"""Turns in version 2: an `idle` ends a turn only after its prompt was inserted."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from acp_kit import Peer, chunk, opened2, state, update
from hypothesis import given
from hypothesis import strategies as st

from agentrt.effects import (
    DecisionRequested,
    Retracted,
    TextReceived,
    ToolCalled,
    TurnBegan,
    TurnFinished,
    UserContentReceived,
)

TEXT = {"type": "text", "text": "hello"}


def user(message: str = "u1") -> dict[str, Any]:
    return update("user_message", messageId=message, content=[TEXT])


def inserted(id: int, message: str = "u1") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"messageId": message}}


def refused(id: int, code: int = -32800) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}


def ended(peer: Peer) -> list[tuple[str | None, str]]:
    return [(end.turn, end.outcome) for end in peer.of(TurnFinished)]


def run(peer: Peer, *messages: Any) -> list[tuple[str | None, str]]:
    """Let the agent write these messages one by one, and return the ends of turns."""
    for message in messages:
        peer.say(message)
    return ended(peer)


def shown(peer: Peer) -> list[Any]:
    """The effects other than the echo of the prompt, which the session drops."""
    return [each for each in peer.effects if not isinstance(each, UserContentReceived)]


ORDERS = [
    order
    for order in permutations(["user", "answer", "running", "idle"])
    if order.index("running") < order.index("idle") and order[:2] != ("running", "idle")
]
"""All orders in which the agent shows or answers a prompt before it ends its turn. In the others
nothing tells the prompt's turn from the agent's own work before it."""


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("text_at", [0, 1])
def test_every_order_of_the_messages_of_a_turn_has_the_same_effects(
    order: tuple[str, ...], text_at: int
) -> None:
    peer = opened2()
    id = peer.prompt("t1")
    lines = {
        "user": user(),
        "answer": inserted(id),
        "running": state("running"),
        "idle": state("idle", stopReason="end_turn"),
    }
    messages = []
    for name in order:
        if name == "idle" and text_at:
            messages.append(chunk("hi", messageId="m1"))
        messages.append(lines[name])
        if name == "running" and not text_at:
            messages.append(chunk("hi", messageId="m1"))
    assert run(peer, *messages) == [("t1", "completed")]
    assert shown(peer) == [
        TextReceived("hi", False, "m1"),
        TurnFinished(turn="t1", outcome="completed", stop_reason="end_turn"),
    ]


def cancels(peer: Peer) -> int:
    """Cancel, and return how many cancels the agent got."""
    before = len(peer.sent)
    peer.do(peer.driver.cancel())
    return [line.get("method") for line in peer.sent[before:]].count("session/cancel")


@pytest.mark.parametrize("messages", [[state("idle")], [state("idle", stopReason="end_turn")] * 2])
def test_an_agent_that_repeats_its_idle_is_not_busy(messages: list[Any]) -> None:
    peer = opened2()
    run(peer, *messages)
    assert cancels(peer) == 0
    id = peer.prompt("t1")
    assert run(peer, inserted(id), state("running"), state("idle", stopReason="end_turn")) == [
        ("t1", "completed")
    ]


def test_an_agent_that_changes_its_busy_state_stays_busy_until_it_is_idle() -> None:
    peer = opened2()
    run(peer, state("running"), state("requires_action"))
    assert cancels(peer) == 1
    assert run(peer, state("idle", stopReason="end_turn")) == [(None, "completed")]
    assert cancels(peer) == 0


@pytest.mark.parametrize("answer_first", [False, True])
def test_a_prompt_during_the_agent_s_own_work_ends_by_its_own_state(answer_first: bool) -> None:
    peer = opened2()
    run(peer, state("running"), chunk("own", messageId="m1"))
    id = peer.prompt("t1")
    assert cancels(peer) == 1
    own = state("idle", stopReason="end_turn")
    if answer_first:  # the agent has taken the prompt into its running work
        assert run(peer, user(), inserted(id), own) == [("t1", "completed")]
        return
    assert ("t1", "completed") not in run(peer, own)
    assert run(peer, user(), inserted(id), state("running"), own)[-1] == ("t1", "completed")


def test_text_of_an_idle_agent_does_not_make_it_busy() -> None:
    peer = opened2()
    assert run(peer, chunk("by itself", messageId="m1"), state("idle")) == []
    id = peer.prompt("t1")
    before = [("t1", "completed")]
    assert run(peer, state("idle", stopReason="end_turn")) == []
    end = state("idle", stopReason="end_turn")
    assert run(peer, user(), inserted(id), state("running"), end) == before


SNAPSHOTS = [{}, {"stopReason": "end_turn"}, {"stopReason": "cancelled"}, {"background": []}]


@pytest.mark.parametrize("fields", SNAPSHOTS)
@pytest.mark.parametrize("at", range(4))
def test_an_idle_of_an_agent_that_is_not_busy_ends_nothing(at: int, fields: Any) -> None:
    peer = opened2()
    run(peer, state("running"), state("idle", stopReason="end_turn"))
    peer.effects.clear()
    messages: list[Any] = []
    id = peer.prompt("t1")
    for position, message in enumerate([user(), inserted(id), state("running")]):
        if position == at:
            messages.append(state("idle", **fields))
        messages.append(message)
    messages += [chunk("x"), state("idle", stopReason="refusal"), state("idle", **fields)]
    assert run(peer, *messages) == [("t1", "refused")]


def test_idles_before_and_after_the_insertion_end_nothing() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    idle = state("idle", stopReason="cancelled")
    assert run(peer, idle, inserted(id), idle, user(), idle) == []
    assert run(peer, state("running"), state("idle", stopReason="end_turn")) == [
        ("t1", "completed")
    ]


def test_after_a_discarded_prompt_the_agent_is_not_busy() -> None:
    peer = opened2()
    peer.prompt("t1")
    peer.driver.discard_prompt("t1")
    assert cancels(peer) == 0
    id = peer.prompt("t2")
    idle = state("idle", stopReason="end_turn")
    assert run(peer, idle, inserted(id), state("running"), idle) == [("t2", "completed")]


LATE = [
    update("tool_call_update", toolCallId="c1", status="completed", title="late"),
    update(
        "tool_call_content_chunk", toolCallId="c1", content={"type": "content", "content": TEXT}
    ),
    update("terminal_output_chunk", terminalId="T", data="bGF0ZQ=="),
    chunk("late", messageId="m1"),
]
"""Updates of what an earlier turn began."""


@pytest.mark.parametrize("late", LATE)
def test_a_late_update_of_an_earlier_turn_does_not_show_that_the_agent_is_busy(late: Any) -> None:
    peer = opened2()
    id = peer.prompt("t1")
    call = update(
        "tool_call_update",
        toolCallId="c1",
        status="in_progress",
        content=[{"type": "terminal", "terminalId": "T"}],
    )
    run(peer, inserted(id), state("running"), chunk("x", messageId="m1"), call)
    run(peer, state("idle", stopReason="cancelled"))
    id = peer.prompt("t2")
    run(peer, user("u2"), late, late, state("idle"), inserted(id, "u2"))
    assert ended(peer) == [("t1", "cancelled")], "the idle repeats a state"
    assert run(peer, state("running"), state("idle", stopReason="end_turn"))[1:] == [
        ("t2", "completed")
    ]


@given(st.lists(st.sampled_from(["idle", "idle again"]), max_size=4))
def test_repeated_idles_end_a_turn_once(repeats: list[str]) -> None:
    peer = opened2()
    id = peer.prompt("t1")
    run(peer, user(), inserted(id), state("running"), state("idle", stopReason="end_turn"))
    for each in repeats:
        peer.say(state("idle", **({"stopReason": "cancelled"} if "again" in each else {})))
    assert ended(peer) == [("t1", "completed")]
    peer.prompt("t2")
    peer.say(state("idle", stopReason="cancelled"))
    assert ended(peer) == [("t1", "completed")], "the stale state ends no later turn"


def test_an_agent_that_never_reports_running_ends_its_turn_by_idle() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    assert run(peer, inserted(id), chunk("x"), state("idle", stopReason="end_turn")) == [
        ("t1", "completed")
    ]


def test_a_prompt_that_is_refused_before_its_insertion_is_over_with_the_error() -> None:
    peer = opened2()
    assert run(peer, refused(peer.prompt("t1"))) == [("t1", "cancelled")]
    assert run(peer, refused(peer.prompt("t2"), -32603))[1:] == [("t2", "failed")]


def test_an_idle_before_the_error_of_its_prompt_ends_it_only_once() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    peer.do(peer.driver.cancel())
    cancelled = state("idle", stopReason="cancelled")
    assert run(peer, state("running"), cancelled, refused(id)) == [("t1", "cancelled")]
    assert peer.driver.idle


def test_the_end_of_a_turn_carries_its_usage_and_its_error() -> None:
    peer = opened2()
    usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
    id = peer.prompt("t1")
    error = {"code": -32603, "message": "boom", "data": {"details": "400"}}
    run(peer, inserted(id), state("running"))
    peer.say(state("idle", stopReason="error", error=error, usage=usage))
    end = peer.only(TurnFinished)
    assert (end.outcome, end.stop_reason) == ("failed", None)
    assert end.error is not None
    assert end.error.message == "boom: 400"
    assert end.usage is not None
    assert end.usage.total_tokens == 7


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("max_tokens", "limit"),
        ("max_turn_requests", "limit"),
        ("refusal", "refused"),
        ("cancelled", "cancelled"),
        ("_tired", "completed"),
        (None, "completed"),
    ],
)
def test_a_stop_reason_decides_the_outcome_and_an_unknown_one_is_reported(
    reason: str | None, outcome: str
) -> None:
    peer = opened2()
    fields = {} if reason is None else {"stopReason": reason}
    id = peer.prompt("t1")
    assert run(peer, inserted(id), state("running"), state("idle", **fields)) == [("t1", outcome)]
    assert peer.notices() == ([] if outcome != "completed" else ["stop_reason"])


def test_an_unknown_state_counts_as_busy_and_is_reported() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    assert run(peer, inserted(id), state("_dreaming"), state("_dreaming")) == []
    assert run(peer, state("idle", stopReason="end_turn")) == [("t1", "completed")]
    assert set(peer.notices()) == {"unknown_value"}


# --- the agent's own work


def test_work_that_the_agent_begins_by_itself_has_a_beginning_and_an_end() -> None:
    peer = opened2()
    peer.say(state("running"), chunk("by myself", messageId="m1"))
    peer.say(state("requires_action"), state("running"), state("idle", stopReason="end_turn"))
    assert peer.effects == [
        TurnBegan(),
        TextReceived("by myself", False, "m1"),
        TurnFinished(turn=None, outcome="completed", stop_reason="end_turn"),
    ]


def test_own_work_that_began_before_the_agent_read_the_prompt_does_not_end_the_prompt() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    run(peer, state("running"), chunk("own", messageId="m1"))
    assert run(peer, state("idle", stopReason="cancelled")) == []
    peer.say(user(), inserted(id))
    peer.say(state("running"), chunk("answer", messageId="m2"))
    assert ended(peer) == []
    assert run(peer, state("idle", stopReason="end_turn")) == [("t1", "completed")]
    assert peer.only(Retracted).messages == {"m1"}, "its text is not part of the answer"


def test_own_work_that_runs_when_a_prompt_is_discarded_is_shown() -> None:
    peer = opened2()
    peer.prompt("t1")
    peer.say(state("running"))
    peer.driver.discard_prompt("t1")
    assert run(peer, state("idle", stopReason="end_turn")) == [(None, "completed")]
    assert peer.of(TurnBegan)


# --- late output


def test_text_of_a_message_whose_turn_is_over_is_dropped_and_counted() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    run(peer, inserted(id), state("running"), chunk("a", messageId="m1"))
    run(peer, state("idle", stopReason="end_turn"))
    peer.effects.clear()
    peer.say(chunk("late", messageId="m1"), update("agent_message", messageId="m1", content=[TEXT]))
    assert peer.of(TextReceived) == []
    assert peer.driver.statistics().notices["late_message"] == 2
    peer.say(chunk("new", messageId="m2"))
    assert [each.text for each in peer.of(TextReceived)] == ["new"]
    second = peer.prompt("t2")
    peer.say(user("u2"), inserted(second, "u2"), state("running"), chunk("late", messageId="m1"))
    assert [each.text for each in peer.of(TextReceived)] == ["new"]


def test_the_echo_of_an_ended_prompt_is_no_new_message() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    run(peer, inserted(id), state("running"), state("idle", stopReason="end_turn"), user())
    assert peer.of(UserContentReceived) == []


# --- cancelling


def test_a_cancel_follows_its_prompt_and_a_second_one_withdraws_it_only_while_unanswered() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    peer.do(peer.driver.cancel())
    peer.do(peer.driver.cancel())
    assert peer.methods() == [
        "session/prompt",
        "session/cancel",
        "session/cancel",
        "$/cancel_request",
    ]
    peer.say(inserted(id), state("running"))
    peer.do(peer.driver.cancel())
    assert peer.methods() == ["session/cancel"]


def test_the_agents_own_work_can_be_cancelled_and_an_idle_agent_gets_no_cancel() -> None:
    peer = opened2()
    peer.do(peer.driver.cancel())
    assert peer.methods() == []
    peer.say(state("running"))
    peer.do(peer.driver.cancel())
    assert peer.methods() == ["session/cancel"]


def test_a_question_after_a_cancel_is_answered_with_cancelled() -> None:
    peer = opened2()
    id = peer.prompt("t1")
    peer.say(inserted(id), state("running"))
    peer.do(peer.driver.cancel())
    peer.sent.clear()
    call = {"toolCallId": "c1", "title": "Run"}
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    subject = {"type": "tool_call", "toolCall": call}
    peer.ask(
        "session/request_permission",
        {"sessionId": "s1", "title": "Run?", "subject": subject, "options": options},
    )
    assert peer.sent[-1]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert peer.of(DecisionRequested) == []
    assert [each.id for each in peer.of(ToolCalled)] == ["c1"]


# --- all sequences


@given(st.lists(st.sampled_from(["user", "answer", "refuse", "running", "idle", "text", "cancel"])))
def test_a_turn_ends_at_most_once_whatever_the_agent_sends(inputs: list[str]) -> None:
    peer = opened2()
    id = peer.prompt("t1")
    answered = False
    for index, name in enumerate(inputs):
        match name:
            case "user":
                peer.say(user())
            case "answer" | "refuse" if not answered:
                answered = True
                peer.say(inserted(id) if name == "answer" else refused(id))
            case "running":
                peer.say(state("running"))
            case "idle":
                peer.say(state("idle", stopReason="end_turn"))
            case "text":
                peer.say(chunk("x", messageId=f"m{index}"))
            case "cancel":
                peer.do(peer.driver.cancel())
    ends = [end for end in peer.of(TurnFinished) if end.turn == "t1"]
    assert len(ends) == (1 if peer.driver.idle else 0)
    own = len(peer.of(TurnBegan)) - len([end for end in peer.of(TurnFinished) if end.turn is None])
    assert own in (0, 1)
