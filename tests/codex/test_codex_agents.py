"""Codex's sub-agents: what they say and do stands below the call that spawned them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    TaskSet,
    TextReceived,
    ToolCalled,
    TurnFinished,
)
from agentrt.events import Task
from agentrt.lowlevel import DecisionAnswer

from .codex_kit import COMMAND, Json, Peer, only, prompted

CHILD = "t-2"
SPAWN: Json = {
    "type": "collabAgentToolCall",
    "id": "call-1",
    "tool": "spawnAgent",
    "status": "completed",
    "senderThreadId": "t-1",
    "receiverThreadIds": [CHILD],
    "prompt": "Look into it.\nThoroughly.",
    "agentsStates": {CHILD: {"status": "pendingInit", "message": None}},
}


def child(peer: Peer, method: str, **params: object) -> list[object]:
    message = {"method": method, "params": {"threadId": CHILD, "turnId": "u-2", **params}}
    return list(peer.says(message))


def turn(status: str, **more: object) -> Json:
    return {"id": "u-2", "rootTurnId": "u-1", "status": status, "items": [], **more}


def task(effects: list[object]) -> Task:
    [found] = [effect for effect in effects if isinstance(effect, TaskSet)]
    assert (found.call, found.detaches) == ("call-1", True)
    return found.task


@pytest.fixture
def peer() -> Peer:
    """A sub-agent works."""
    peer = prompted()
    peer.item("completed", SPAWN)
    child(peer, "turn/started", turn=turn("inProgress"))
    return peer


def test_a_spawned_agent_is_a_task_with_its_prompt_as_title() -> None:
    effects = prompted().item("completed", SPAWN)
    assert task(list(effects)) == Task(id=CHILD, title="Look into it.", kind="subagent")


def test_its_text_stands_below_the_call(peer: Peer) -> None:
    said = child(peer, "item/agentMessage/delta", itemId="m-9", delta="Hm.")
    assert said == [TextReceived("Hm.", False, "m-9", "call-1")]


def test_its_commands_stand_below_the_call(peer: Peer) -> None:
    called = only(child(peer, "item/started", item=COMMAND), ToolCalled)
    assert (called.parent, called.title) == ("call-1", "rm -rf build; ls")


def test_its_questions_belong_to_no_turn_and_outlive_a_cancel(peer: Peer) -> None:
    peer.do(peer.driver.cancel())
    asked = peer.asks(
        7,
        "item/commandExecution/requestApproval",
        threadId=CHILD,
        turnId="u-2",
        itemId="c-1",
        command="/bin/bash -lc ls",
        cwd="/shop",
    )
    request = only(asked, DecisionRequested)
    assert request.background
    peer.do(peer.driver.answer(request.key, DecisionAnswer(option="accept")))
    assert peer.answer_to(7) == {"decision": "accept"}


def test_its_last_message_is_its_report(peer: Peer) -> None:
    message = {"type": "agentMessage", "id": "m-9", "text": "Nothing found."}
    child(peer, "item/completed", item=message)
    ended = task(child(peer, "turn/completed", turn=turn("completed")))
    assert (ended.status, ended.detail) == ("completed", "Nothing found.")


def test_its_failure_is_its_report(peer: Peer) -> None:
    error = {"message": "no more tokens"}
    ended = task(child(peer, "turn/completed", turn=turn("failed", error=error)))
    assert (ended.status, ended.detail) == ("failed", "no more tokens")


def test_it_works_on_after_the_turn_that_spawned_it(peer: Peer) -> None:
    assert only(peer.ends(), TurnFinished).outcome == "completed"
    assert child(peer, "item/agentMessage/delta", itemId="m-9", delta="Still.") == [
        TextReceived("Still.", False, "m-9", "call-1")
    ]


def test_further_work_makes_it_run_again(peer: Peer) -> None:
    child(peer, "turn/completed", turn=turn("completed"))
    assert task(child(peer, "turn/started", turn=turn("inProgress"))).status == "running"


def test_its_tokens_are_shown(peer: Peer) -> None:
    counts = {
        "totalTokens": 30,
        "inputTokens": 20,
        "cachedInputTokens": 0,
        "outputTokens": 10,
        "reasoningOutputTokens": 0,
    }
    told = child(peer, "thread/tokenUsage/updated", tokenUsage={"total": counts, "last": counts})
    usage = task(told).usage
    assert usage is not None
    assert usage.total_tokens == 30


def test_it_is_stopped_by_its_task(peer: Peer) -> None:
    peer.do(peer.driver.call("c", "stop_task", {"task": CHILD}))
    assert peer.last("turn/interrupt")["params"] == {"threadId": CHILD, "turnId": "u-2"}
    assert only(peer.answers("turn/interrupt", {}), CallReturned).error is None
    ended = task(child(peer, "turn/completed", turn=turn("interrupted")))
    assert ended.status == "cancelled"


def test_its_commands_end_when_it_is_stopped(peer: Peer) -> None:
    child(peer, "item/started", item=COMMAND)
    peer.do(peer.driver.call("c", "stop_task", {"task": CHILD}))
    assert peer.last("thread/backgroundTerminals/list")["params"] == {"threadId": CHILD}
    child(peer, "turn/completed", turn=turn("interrupted"))
    listed = [
        {"itemId": item, "processId": process, "command": "rm", "cwd": "/shop", "output": ""}
        for item, process in ((COMMAND["id"], "p-1"), ("another", "p-2"))
    ]
    peer.answers("thread/backgroundTerminals/list", {"data": listed})
    ended = [each for each in peer.sent if each.get("method", "").endswith("/terminate")]
    assert [each["params"] for each in ended] == [{"threadId": CHILD, "processId": "p-1"}]


def test_a_command_that_begins_while_it_is_stopped_ends_too(peer: Peer) -> None:
    peer.do(peer.driver.call("c", "stop_task", {"task": CHILD}))
    child(peer, "item/started", item=COMMAND)
    child(peer, "turn/completed", turn=turn("interrupted"))
    assert peer.last("thread/backgroundTerminals/list")["params"] == {"threadId": CHILD}


def test_one_that_runs_no_command_is_only_interrupted(peer: Peer) -> None:
    peer.do(peer.driver.call("c", "stop_task", {"task": CHILD}))
    assert not [each for each in peer.sent if "backgroundTerminals" in each.get("method", "")]


def test_one_that_does_not_run_cannot_be_stopped(peer: Peer) -> None:
    child(peer, "turn/completed", turn=turn("completed"))
    error = only(peer.do(peer.driver.call("c", "stop_task", {"task": CHILD})), CallReturned).error
    assert error is not None
    assert CHILD in error.message


def test_another_agents_state_is_taken_from_a_call_about_it(peer: Peer) -> None:
    states = {CHILD: {"status": "completed", "message": "All done."}}
    wait = {**SPAWN, "id": "call-2", "tool": "wait", "agentsStates": states}
    effects: list[object] = list(peer.item("completed", wait))
    ended = task(effects)
    assert (ended.status, ended.detail) == ("completed", "All done.")


def test_a_thread_that_nobody_spawned_is_not_shown() -> None:
    peer = prompted()
    assert child(peer, "item/agentMessage/delta", itemId="m-9", delta="Hm.") == []


def test_what_it_says_before_its_call_names_it_is_shown_in_order_then() -> None:
    peer = prompted()
    said = {"type": "agentMessage", "id": "m-8", "text": "First."}
    assert child(peer, "turn/started", turn=turn("inProgress")) == []
    assert child(peer, "item/completed", item=said) == []
    assert child(peer, "item/agentMessage/delta", itemId="m-9", delta="Sen") == []
    assert child(peer, "item/started", item=COMMAND) == []
    told = list(peer.item("completed", SPAWN))
    first = next(each for each in told if isinstance(each, TaskSet))
    shown = [each for each in told[told.index(first) :] if isinstance(each, TextReceived)]
    assert shown == [
        TextReceived("First.", False, "m-8", "call-1"),
        TextReceived("Sen", False, "m-9", "call-1"),
    ]
    assert [each.parent for each in told if isinstance(each, ToolCalled)] == [None, "call-1"]
    assert child(peer, "item/agentMessage/delta", itemId="m-9", delta="tence") == [
        TextReceived("tence", False, "m-9", "call-1")
    ]
    peer.do(peer.driver.call("c", "stop_task", {"task": CHILD}))
    assert peer.last("turn/interrupt")["params"] == {"threadId": CHILD, "turnId": "u-2"}


@given(st.integers(0, 8))
def test_when_its_call_names_it_makes_no_difference(at: int) -> None:
    """The same messages, with the end of the call before any of them."""
    message = {"type": "agentMessage", "id": "m-8", "text": "First."}
    done = {**COMMAND, "status": "completed", "aggregatedOutput": "out", "exitCode": 0}
    says: list[tuple[str, Json]] = [
        ("turn/started", {"turn": turn("inProgress")}),
        ("item/agentMessage/delta", {"itemId": "m-8", "delta": "Fi"}),
        ("item/agentMessage/delta", {"itemId": "m-8", "delta": "rst."}),
        ("item/completed", {"item": message}),
        ("item/started", {"item": COMMAND}),
        ("item/commandExecution/outputDelta", {"itemId": "c-1", "delta": "out"}),
        ("item/completed", {"item": done}),
        ("turn/completed", {"turn": turn("completed")}),
    ]

    def told(named: int) -> list[object]:
        peer = prompted()
        effects: list[object] = []
        for number, (method, params) in enumerate(says):
            if number == named:
                effects += peer.item("completed", SPAWN)
            effects += child(peer, method, **params)
        if named == len(says):
            effects += peer.item("completed", SPAWN)
        return effects

    assert told(at) == told(0)


def test_what_is_held_is_bounded() -> None:
    peer = prompted()
    for number in range(10_005):
        child(peer, "item/agentMessage/delta", itemId="m-9", delta=f"{number} ")
    told = list(peer.item("completed", SPAWN))
    assert len([each for each in told if isinstance(each, TextReceived)]) == 10_000
