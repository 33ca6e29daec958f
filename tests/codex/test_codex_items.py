"""What codex says and does, in neutral words; and what it mentions by the way."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.effects import (
    ModesSet,
    PlanSet,
    TaskSet,
    TextEnded,
    TextReceived,
    TitleSet,
    ToolCalled,
    UsageSet,
)
from agentrt.events import Diff, Notice, Text, ToolText

from .codex_kit import COMMAND, EDIT, Peer, only, opened, prompted


def delta(text: str, kind: str = "agentMessage/delta", item: str = "m-1") -> dict[str, object]:
    params = {"threadId": "t-1", "turnId": "u-1", "itemId": item, "delta": text}
    return {"method": f"item/{kind}", "params": params}


def test_neighbouring_pieces_of_a_read_are_one() -> None:
    effects = prompted().says(delta("Hel"), delta("lo"))
    assert effects == [TextReceived("Hello", False, "m-1")]


def test_a_piece_with_a_wrong_field_stays_in_its_place() -> None:
    params = {"threadId": "t-1", "turnId": 7, "itemId": "m-1", "delta": "B"}
    wrong = {"method": "item/agentMessage/delta", "params": params}
    first, *others = prompted().says(delta("a"), wrong, delta("c"))
    assert first == TextReceived("a", False, "m-1")
    assert any(not isinstance(each, TextReceived) for each in others)  # the wrong one is reported


@pytest.mark.parametrize(("when", "status"), [("started", "running"), ("completed", "completed")])
def test_a_status_that_codex_did_not_have_is_reported(when: str, status: str) -> None:
    effects = prompted().item(when, COMMAND | {"status": "meditating"})
    assert only(effects, ToolCalled).status == status
    notice = only(effects, Notice)
    assert (notice.code, notice.data["status"]) == ("unknown_value", "meditating")


def test_a_call_of_an_agent_that_was_interrupted_is_cancelled() -> None:
    item = {"type": "collabAgentToolCall", "id": "a-1", "tool": "wait", "status": "interrupted"}
    about = {"senderThreadId": "t-1", "receiverThreadIds": [], "agentsStates": {}}
    effects = prompted().item("completed", item | about)
    assert only(effects, ToolCalled).status == "cancelled"
    assert [each for each in effects if isinstance(each, Notice)] == []


def test_thoughts_and_answers_are_told_apart() -> None:
    thought = delta("hm", "reasoning/summaryTextDelta", "r-1")
    effects = prompted().says(thought, delta("yes"))
    assert effects == [TextReceived("hm", True, "r-1"), TextReceived("yes", False, "m-1")]


def test_a_message_of_which_no_piece_came_is_said_at_its_end() -> None:
    peer = prompted()
    message = {"type": "agentMessage", "id": "m-1", "text": "whole"}
    assert peer.item("completed", message) == [TextReceived("whole", False, "m-1"), TextEnded()]


def test_a_message_whose_pieces_came_is_not_said_twice() -> None:
    peer = prompted()
    peer.says(delta("whole"))
    message = {"type": "agentMessage", "id": "m-1", "text": "whole"}
    assert peer.item("completed", message) == [TextEnded()]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("declined", "denied"),
        ("new", "completed"),
    ],
)
def test_a_command_ends_with_its_output(status: str, shown: str) -> None:
    peer = prompted()
    peer.item("started", COMMAND)
    done = {**COMMAND, "status": status, "aggregatedOutput": "out", "exitCode": 1}
    called = only(peer.item("completed", done), ToolCalled)
    assert called.status == shown
    assert called.content == [ToolText(Text("out"))]
    assert called.output == {"exitCode": 1}


def test_output_that_came_in_pieces_is_not_shown_twice() -> None:
    peer = prompted()
    peer.item("started", COMMAND)
    piece = delta("out", "commandExecution/outputDelta", "c-1")
    assert only(peer.says(piece), ToolCalled).append == "out"
    done = {**COMMAND, "status": "completed", "aggregatedOutput": "out", "exitCode": 0}
    called = only(peer.item("completed", done), ToolCalled)
    assert not isinstance(called.content, list)


def test_a_new_file_is_shown_whole() -> None:
    called = only(prompted().item("started", EDIT), ToolCalled)
    assert (called.kind, called.locations) == ("edit", [{"path": "/project/a.txt"}])
    assert isinstance(called.content, list)
    [diff] = called.content
    assert (diff.path, diff.old_text, diff.new_text) == (  # type: ignore[union-attr]
        "/project/a.txt",
        None,
        "hello\n",
    )


@pytest.mark.parametrize(
    ("item", "name", "kind"),
    [
        (
            {"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": {}, "status": "x"},
            "mcp__s__t",
            None,
        ),
        ({"type": "webSearch", "query": "words"}, "webSearch", "search"),
        ({"type": "imageView", "path": "/project/a.png"}, "imageView", "read"),
        ({"type": "somethingNew", "field": 1}, "somethingNew", None),
    ],
)
def test_every_other_item_is_the_call_of_a_tool(
    item: dict[str, object], name: str, kind: str | None
) -> None:
    peer = prompted()
    called = only(peer.item("started", {"id": "i-1", **item}), ToolCalled)
    assert (called.name, called.status) == (name, "running")
    assert kind is None or called.kind == kind
    done = {"id": "i-1", **item, **({"status": "completed"} if "status" in item else {})}
    assert only(peer.item("completed", done), ToolCalled).status == "completed"


def test_a_compaction_is_a_task() -> None:
    item = {"type": "contextCompaction", "id": "k"}
    peer = prompted()
    assert only(peer.item("started", item), TaskSet).task.status == "running"
    ended = peer.item("completed", item)
    assert only(ended, TaskSet).task.status == "completed"
    assert only(ended, Notice).code == "compacted"


def test_the_plan_is_told() -> None:
    steps = [{"step": "look", "status": "completed"}, {"step": "leap", "status": "inProgress"}]
    entries = only(prompted().tells("turn/plan/updated", turnId="u-1", plan=steps), PlanSet).entries
    assert [(e.content, e.status) for e in entries] == [
        ("look", "completed"),
        ("leap", "in_progress"),
    ]


def test_how_full_the_context_is_is_told() -> None:
    total = {
        "totalTokens": 100,
        "inputTokens": 80,
        "cachedInputTokens": 30,
        "outputTokens": 20,
        "reasoningOutputTokens": 5,
    }
    usage = {"total": total, "last": {**total, "totalTokens": 60}, "modelContextWindow": 1000}
    effects = opened().tells("thread/tokenUsage/updated", turnId="u", tokenUsage=usage)
    told = only(effects, UsageSet).usage
    assert (told.used, told.size) == (60, 1000)
    assert (told.input_tokens, told.cache_read_tokens, told.thought_tokens) == (50, 30, 5)


def test_settings_that_change_are_told() -> None:
    new = {
        "approvalPolicy": "never",
        "sandboxPolicy": {"type": "dangerFullAccess"},
        "model": "m-2",
        "effort": "high",
    }
    modes = only(opened().tells("thread/settings/updated", threadSettings=new), ModesSet).modes
    assert (modes.mode, modes.model) == ("danger-full-access", "m-2")


def test_a_mix_of_policy_and_sandbox_that_has_no_name_is_no_mode() -> None:
    new = {
        "approvalPolicy": {"granular": {}},
        "sandboxPolicy": {"type": "readOnly"},
        "model": "m-1",
        "effort": None,
    }
    modes = only(opened().tells("thread/settings/updated", threadSettings=new), ModesSet).modes
    assert modes.mode is None


def test_the_title_is_told() -> None:
    effects = opened().tells("thread/name/updated", threadName="A name")
    assert only(effects, TitleSet).title == "A name"


def limits(percent: int) -> dict[str, object]:
    window = {"usedPercent": percent, "windowDurationMins": 300, "resetsAt": 9}
    return {"limitId": "codex", "primary": window, "secondary": None}


def test_a_rate_limit_is_told_once_a_step() -> None:
    peer = opened()
    told = [
        sum(
            isinstance(effect, Notice)
            for effect in peer.tells("account/rateLimits/updated", rateLimits=limits(percent))
        )
        for percent in (10, 79, 80, 90, 96, 97, 100, 3, 85)
    ]
    assert told == [0, 0, 1, 0, 1, 0, 1, 0, 1]


def test_an_error_that_it_tries_again_is_a_notice() -> None:
    error = {"message": "Reconnecting... 1/2", "codexErrorInfo": "other"}
    effects = prompted().tells("error", turnId="u-1", error=error, willRetry=True)
    assert only(effects, Notice).code == "api_retry"
    assert prompted().tells("error", turnId="u-1", error=error, willRetry=False) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"npm warn\n", "malformed"),
        (b"[]\n", "malformed"),
        (b'{"method":17}\n', "malformed"),
        (b'{"method":"item/started","params":{"threadId":7}}\n', "unusable_update"),
        (b'{"id":999,"result":{}}\n', "foreign_response"),
        (b'{"method":"turn/started","params":7}\n', "unusable_update"),
    ],
)
def test_a_line_that_is_not_as_it_should_be_costs_a_notice(line: bytes, code: str) -> None:
    peer = prompted()
    assert [each.code for each in peer.driver.receive(line)] == [code]  # type: ignore[union-attr]
    assert peer.says(delta("goes on")) == [TextReceived("goes on", False, "m-1")]


def test_a_notification_that_the_driver_does_not_know_is_reported() -> None:
    notice = only(opened().tells("vendor/thing", x=1), Notice)
    assert notice.code == "unknown_update"
    assert "vendor/thing" in notice.message
    assert notice.data["x"] == 1


def test_a_notification_that_is_declared_to_show_nothing_is_not_reported() -> None:
    assert opened().tells("thread/readState/changed", readState={}) == []


def test_a_wrong_optional_field_costs_no_more_than_itself() -> None:
    peer = prompted()
    effects = peer.item("started", {**COMMAND, "aggregatedOutput": 7})
    assert only(effects, ToolCalled).id == "c-1"
    assert only(effects, Notice).code == "wrong_fields"


LINES = b"".join(
    json.dumps(each).encode() + b"\n"
    for each in (
        delta("a"),
        delta("b", "reasoning/textDelta", "r"),
        {"method": "item/started", "params": {"threadId": "t-1", "turnId": "u-1", "item": COMMAND}},
        {"method": "item/started", "params": {"threadId": "t-1", "turnId": "u-1", "item": EDIT}},
        delta("c"),
        {
            "method": "turn/completed",
            "params": {
                "threadId": "t-1",
                "turn": {"id": "u-1", "status": "completed", "items": []},
            },
        },
    )
)


@given(st.lists(st.integers(0, len(LINES)), max_size=6))
def test_however_the_bytes_are_cut_the_same_is_said(cuts: list[int]) -> None:
    def take(at: list[int]) -> list[str]:
        peer: Peer = prompted()
        ends = [0, *sorted(at), len(LINES)]
        effects = []
        for begin, end in itertools.pairwise(ends):
            effects += peer.driver.receive(LINES[begin:end])
        return [repr(effect) for effect in effects]

    assert take(cuts) == take([])


@given(st.binary(max_size=200))
def test_whatever_comes_nothing_is_raised(noise: bytes) -> None:
    peer = prompted()
    peer.driver.receive(noise + b"\n")
    peer.driver.receive_eof()


def test_a_change_is_shown_part_by_part() -> None:
    patch = (
        "@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9 +9 @@\n-nine\n+9\n\\ No newline at end of file\n"
    )
    change = {"path": "a", "kind": {"type": "update", "move_path": "b"}, "diff": patch}
    called = only(prompted().item("started", EDIT | {"changes": [change]}), ToolCalled)
    assert [(d.path, d.old_text, d.new_text) for d in called.content if isinstance(d, Diff)] == [
        ("b", "one\ntwo\n", "one\n2\n"),
        ("b", "nine\n", "9\n"),
    ]
