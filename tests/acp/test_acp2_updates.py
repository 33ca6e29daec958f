"""The updates and questions of version 2 have the effects of version 1."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import pytest
from acp_kit import Peer, chunk, opened2, state
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    PlanSet,
    Retracted,
    TaskSet,
    TextEnded,
    TextReceived,
    ToolCalled,
    TurnFinished,
)
from agentrt.events import Diff, TerminalRef, Text, ToolText
from agentrt.lowlevel import DecisionAnswer


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def running() -> Peer:
    """A peer in the running turn `t1`."""
    peer = opened2()
    id = peer.prompt("t1")
    peer.say({"id": id, "result": {"messageId": "u1"}}, state("running"))
    peer.sent.clear()
    return peer


def answer(peer: Peer) -> str:
    """The text that a reader would see as the answer."""
    parts: dict[str | None, str] = {}
    for each in peer.effects:
        if isinstance(each, Retracted):
            for message in each.messages:
                parts.pop(message, None)
        elif isinstance(each, TextReceived):
            parts[each.message] = parts.get(each.message, "") + each.text
    return "|".join(parts.values())


# --- messages


def test_a_whole_message_after_its_pieces_adds_only_what_is_new() -> None:
    peer = running()
    peer.say(chunk("Hel", messageId="m"), chunk("lo", messageId="m"))
    peer.update("agent_message", messageId="m", content=[text("Hello")])
    peer.update("agent_message", messageId="m", content=[text("Hello there")])
    assert answer(peer) == "Hello there"
    assert peer.of(Retracted) == []


def test_a_whole_message_that_differs_replaces_the_pieces() -> None:
    peer = running()
    peer.say(chunk("Hel", messageId="m"))
    peer.update("agent_message", messageId="m", content=[text("Goodbye")])
    assert answer(peer) == "Goodbye"
    assert peer.of(TextEnded)


@pytest.mark.parametrize("content", [None, []])
def test_a_cleared_message_is_retracted_and_an_absent_content_changes_nothing(
    content: Any,
) -> None:
    peer = running()
    peer.say(chunk("Hello", messageId="m"))
    peer.update("agent_message", messageId="m")
    assert answer(peer) == "Hello"
    peer.update("agent_message", messageId="m", content=content)
    assert answer(peer) == ""


def test_a_whole_thought_is_a_thought() -> None:
    peer = running()
    peer.update("agent_thought", messageId="m", content=[text("hm")])
    assert peer.only(TextReceived).thought


# --- tool calls


def test_the_first_update_of_a_call_opens_it_and_null_clears_a_field() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", title="Run", kind="execute", rawInput={"a": 1})
    peer.update("tool_call_update", toolCallId="c", status="in_progress")
    peer.update(
        "tool_call_update", toolCallId="c", kind=None, content=None, locations=None, rawInput=None
    )
    first, second, third = peer.of(ToolCalled)
    assert (first.opens, first.status, first.title, first.content) == (
        True,
        "pending",
        "Run",
        UNSET,
    )
    assert (second.opens, second.status, second.title) == (False, "running", UNSET)
    assert (third.kind, third.content, third.locations, third.input) == ("other", [], [], None)
    assert third.status is UNSET


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        ("pending", "pending"),
        ("in_progress", "running"),
        ("paused", "running"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        ("_meditating", "running"),
        (None, "pending"),
    ],
)
def test_an_unknown_status_counts_as_running_and_is_reported(wire: Any, status: str) -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", status=wire)
    assert peer.only(ToolCalled).status == status
    assert peer.notices() == (["unknown_value"] if wire == "_meditating" else [])


def test_an_item_of_content_is_appended() -> None:
    peer = running()
    content = [{"type": "content", "content": text("a")}]
    peer.update("tool_call_update", toolCallId="c", content=content)
    peer.update(
        "tool_call_content_chunk", toolCallId="c", content={"type": "content", "content": text("b")}
    )
    assert peer.of(ToolCalled)[-1].content == [ToolText(Text("a")), ToolText(Text("b"))]


def test_a_late_update_of_an_ended_turns_call_does_not_open_it_again() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", status="in_progress")
    peer.say(state("idle", stopReason="cancelled"))
    peer.update("tool_call_update", toolCallId="c", status="in_progress")
    assert [each.opens for each in peer.of(ToolCalled)] == [True, False]


def test_a_call_that_had_ended_is_opened_again_where_a_later_turn_uses_its_id() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", status="completed")
    peer.say(state("idle", stopReason="end_turn"))
    peer.prompt("t2")
    peer.update("tool_call_update", toolCallId="c", title="Again", status="pending")
    assert [each.opens for each in peer.of(ToolCalled)] == [True, True]


PATCH = """diff --git a/p/new.txt b/p/new.txt
new file mode 100644
--- /dev/null
+++ b/p/new.txt
@@ -0,0 +1,2 @@
+alpha
+beta
diff --git a/p/old.txt b/p/moved.txt
rename from p/old.txt
rename to p/moved.txt
--- a/p/old.txt
+++ b/p/moved.txt
@@ -1,2 +1,2 @@
 same
-before
+after
@@ -9 +9 @@
-x
+y
"""


def diff(*changes: dict[str, Any], patch: str | None = PATCH) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "diff", "changes": list(changes)}
    if patch is not None:
        found["patch"] = {"format": "git_patch", "text": patch}
    return found


ADD = {"operation": "add", "path": "/p/new.txt", "fileType": "text"}
MOVE = {"operation": "move", "oldPath": "/p/old.txt", "path": "/p/moved.txt"}


def test_a_patch_of_several_files_becomes_one_diff_for_each_part() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", content=[diff(MOVE, ADD)])
    assert peer.only(ToolCalled).content == [
        Diff(path="/p/moved.txt", new_text="same\nafter\n", old_text="same\nbefore\n"),
        Diff(path="/p/moved.txt", new_text="y\n", old_text="x\n"),
        Diff(path="/p/new.txt", new_text="alpha\nbeta\n", old_text=None),
    ]


def test_a_change_without_a_patch_is_named() -> None:
    peer = running()
    delete = {"operation": "delete", "path": "/p/gone"}
    odd = {"operation": "_seal", "path": "/p/s"}
    peer.update("tool_call_update", toolCallId="c", content=[diff(MOVE, delete, odd, patch=None)])
    assert peer.only(ToolCalled).content == [
        ToolText(Text("move /p/old.txt to /p/moved.txt")),
        ToolText(Text("delete /p/gone")),
        ToolText(Text("_seal /p/s")),
    ]


# --- terminals


def output(peer: Peer, call: str = "c") -> str:
    """The live output of a call."""
    return "".join(
        each.append
        for each in peer.of(ToolCalled)
        if each.id == call and isinstance(each.append, str)
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def with_terminal() -> Peer:
    peer = running()
    peer.update("terminal_update", terminalId="T", command="make")
    peer.update(
        "tool_call_update", toolCallId="c", content=[{"type": "terminal", "terminalId": "T"}]
    )
    return peer


@pytest.mark.slow
@given(st.text(max_size=30), st.lists(st.integers(0, 60), max_size=4))
def test_output_may_be_cut_at_any_byte(value: str, cuts: list[int]) -> None:
    data = f"\x1b[31m{value}\x1b[0m é😀".encode("utf-8", "replace")
    peer = with_terminal()
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in pairwise(edges):
        peer.update("terminal_output_chunk", terminalId="T", data=encoded(data[start:end]))
    assert output(peer) == data.decode()


def test_output_before_the_call_that_shows_the_terminal_is_shown_there() -> None:
    peer = running()
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"early "))
    peer.update(
        "tool_call_update", toolCallId="c", content=[{"type": "terminal", "terminalId": "T"}]
    )
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"late"))
    assert output(peer) == "early late"
    assert peer.of(ToolCalled)[0].content == [TerminalRef("T")]


def test_output_that_no_call_shows_gets_its_own_card_at_the_end_of_the_turn() -> None:
    peer = running()
    peer.update("terminal_update", terminalId="T", command="make")
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"built"))
    peer.say(state("idle", stopReason="end_turn"))
    assert output(peer, "T") == "built"
    assert peer.of(ToolCalled)[0].title == "make"
    assert isinstance(peer.effects[-1], TurnFinished)


def test_a_snapshot_adds_only_what_is_new_or_replaces_the_output() -> None:
    peer = with_terminal()
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"one "))
    peer.update("terminal_update", terminalId="T", output={"data": encoded(b"one two")})
    assert output(peer) == "one two"
    peer.update("terminal_update", terminalId="T", output={"data": encoded(b"other")})
    assert output(peer) == "one two"
    assert peer.of(ToolCalled)[-1].content == [TerminalRef("T"), ToolText(Text("other"))]


def test_output_that_is_not_base64_costs_one_notice() -> None:
    peer = with_terminal()
    peer.update("terminal_output_chunk", terminalId="T", data="%%%")
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"fine"))
    assert output(peer) == "fine"
    assert peer.notices() == ["unusable_update"]


def test_the_exit_status_is_the_output_of_a_call_that_has_none() -> None:
    peer = with_terminal()
    peer.update("terminal_update", terminalId="T", exitStatus={"exitCode": 3})
    assert peer.of(ToolCalled)[-1].output == {"exitCode": 3}


# --- questions

OPTIONS = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]


def asked(peer: Peer, **params: Any) -> DecisionRequested:
    peer.ask(
        "session/request_permission",
        {"sessionId": "s1", "title": "May I?", "options": OPTIONS, **params},
    )
    return peer.of(DecisionRequested)[-1]


def test_a_question_about_a_tool_call_has_its_fields() -> None:
    peer = running()
    call = {
        "toolCallId": "c",
        "title": "Edit",
        "kind": "edit",
        "content": [diff(MOVE, ADD)],
        "rawInput": {"file": "/p/new.txt"},
    }
    question = asked(peer, subject={"type": "tool_call", "toolCall": call})
    assert (question.title, question.tool_call, question.tool_kind) == ("May I?", "c", "edit")
    assert question.changes == ["/p/old.txt", "/p/moved.txt", "/p/new.txt"]
    assert question.created == ["/p/new.txt"]
    assert question.input == {"file": "/p/new.txt"}
    peer.do(peer.driver.answer(question.key, DecisionAnswer(option="y")))
    assert peer.sent[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}


def test_a_question_about_a_command_has_the_command() -> None:
    peer = running()
    subject = {"type": "command", "command": "rm -r /", "cwd": "/p", "terminalId": "T"}
    question = asked(peer, subject=subject, description="why")
    assert question.tool_kind == "execute"
    assert question.input == {"command": "rm -r /", "cwd": "/p"}
    assert question.detail == [
        {"type": "content", "content": text("why")},
        {"type": "content", "content": text("rm -r /\n(in /p)")},
    ]


def test_a_question_about_an_unknown_subject_shows_it() -> None:
    subject = {"type": "_ritual", "candles": 3}
    assert asked(running(), subject=subject).detail == [subject]


@pytest.mark.parametrize("text_", ["not a patch", "diff --git a/x b/x\nBinary files differ\n"])
def test_a_patch_that_cannot_be_read_is_shown_as_text(text_: str) -> None:
    patch = {"format": "git_patch", "text": text_}
    diff = {"type": "diff", "changes": [{"operation": "modify", "path": "/p/x"}], "patch": patch}
    update = {"toolCallId": "c", "title": "t", "content": [diff]}
    peer = running()
    peer.update("tool_call_update", **update)
    content = peer.of(ToolCalled)[-1].content
    assert ToolText(Text(text_)) in content


@pytest.mark.parametrize("subject", [None, {"type": "_ritual", "candles": 3}])
def test_a_question_without_a_known_subject_is_still_asked(subject: Any) -> None:
    peer = running()
    question = asked(peer, subject=subject)
    assert (question.tool_call, question.tool_kind, question.input) == (None, None, None)
    assert peer.notices() == ([] if subject is None else ["unknown_value"])


# --- background work


def test_a_background_terminal_is_a_task_that_is_cancelled_once() -> None:
    peer = with_terminal()
    peer.update("terminal_update", terminalId="T", capabilities={"cancel": {}})
    work = [{"type": "terminal", "terminalId": "T"}]
    peer.say(state("idle", stopReason="end_turn", background=work))
    (began,) = peer.of(TaskSet)
    assert (began.task.id, began.task.title, began.call) == ("T", "make", "c")
    for call in ("one", "two"):
        peer.do(peer.driver.call(call, "stop_task", {"task": "T"}))
    assert peer.methods() == ["terminal/cancel"]
    returned = {each.call: each.error and each.error.code for each in peer.of(CallReturned)}
    assert returned == {"two": "unsupported"}
    peer.answer(4, {})
    peer.update("terminal_output_chunk", terminalId="T", data=encoded(b"killed"))
    peer.update("terminal_update", terminalId="T", exitStatus={"signal": "SIGTERM"})
    peer.say(state("idle", background=[]))
    ends = [each.task for each in peer.of(TaskSet)]
    assert (ends[-1].status, ends[-1].detail) == ("failed", "killed")
    assert peer.of(CallReturned)[-1].error is None


def test_work_that_leaves_the_list_is_over() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", title="Index")
    work = [{"type": "tool_call", "toolCallId": "c"}, {"type": "_dream"}]
    peer.say(state("idle", stopReason="end_turn", background=work), state("idle", background=[]))
    assert [each.task.status for each in peer.of(TaskSet)] == ["running", "completed"]
    assert peer.notices() == ["unknown_value"]


def test_a_refused_cancel_of_work_may_be_tried_again() -> None:
    peer = running()
    peer.update("tool_call_update", toolCallId="c", capabilities={"cancel": {}})
    peer.do(peer.driver.call("one", "stop_task", {"task": "c"}))
    peer.fail(4, -32602, "not now")
    assert peer.only(CallReturned).error is not None
    peer.do(peer.driver.call("two", "stop_task", {"task": "c"}))
    assert peer.methods() == ["tool_call/cancel", "tool_call/cancel"]


def test_a_child_sessions_own_state_is_the_state_of_its_task() -> None:
    peer = running()
    peer.update("subagent_update", sessionId="K", title="look", state={"state": "running"})
    peer.say(chunk("from the child", "K", messageId="k1"))
    peer.say(state("idle", "K", stopReason="end_turn"))
    assert [each.task.status for each in peer.of(TaskSet)] == ["running", "completed"]
    assert peer.only(TextReceived).parent == "K"
    assert peer.of(TurnFinished) == []


def test_a_cancelled_child_session_does_not_end_the_turn_of_its_parent() -> None:
    peer = running()
    peer.update("subagent_update", sessionId="K", title="look", state={"state": "running"})
    peer.say(state("idle", "K", stopReason="cancelled"))
    assert [each.task.status for each in peer.of(TaskSet)] == ["running", "cancelled"]
    assert peer.of(TurnFinished) == []
    peer.say(state("idle", stopReason="end_turn"))
    assert [each.outcome for each in peer.of(TurnFinished)] == ["completed"]


# --- the session


def test_several_plans_are_shown_as_one() -> None:
    peer = running()
    for plan, entry in (("a", "first"), ("b", "second")):
        entries = [{"content": entry, "status": "pending", "priority": "low"}]
        peer.update("plan_update", plan={"type": "items", "planId": plan, "entries": entries})
    assert [each.content for each in peer.of(PlanSet)[-1].entries] == ["first", "second"]
    peer.update("plan_removed", planId="a")
    assert [each.content for each in peer.of(PlanSet)[-1].entries] == ["second"]


def test_anything_unknown_costs_a_notice_and_nothing_else() -> None:
    peer = running()
    peer.update("telepathy", x=1)
    peer.update("agent_message_chunk", messageId="m", content={"type": "smell"})
    peer.update("plan_update", plan={"type": "_dance", "planId": "p"})
    odd = {"configId": "o", "type": "_dial", "currentValue": "3", "name": "O"}
    peer.update("config_option_update", configOptions=[odd])
    assert set(peer.notices()) == {"unknown_update", "unusable_update"}
    peer.say(state("idle", stopReason="end_turn"))
    assert peer.only(TurnFinished).outcome == "completed"
