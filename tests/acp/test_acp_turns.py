"""Prompts, what is said while they run, cancels, and what comes at the wrong time."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import EVERYTHING, Peer, chunk, opened, update
from msgspec import UNSET
from msgspec.structs import replace

from agentrt.effects import (
    BlockReceived,
    CommandsSet,
    ModesSet,
    PlanSet,
    TaskSet,
    TextReceived,
    TitleSet,
    ToolCalled,
    TurnFinished,
    UsageSet,
    UserContentReceived,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import (
    Audio,
    Command,
    ErrorInfo,
    Image,
    Notice,
    PlanEntry,
    Resource,
    ResourceLink,
    Text,
    Usage,
)


def running(**options: Any) -> tuple[Peer, int]:
    """A peer whose prompt `t1` has just been sent, and the id of that prompt's request."""
    peer = opened(**options)
    id = peer.prompt()
    peer.sent.clear()
    return peer, id


def test_a_turn_is_what_was_said_and_its_end() -> None:
    peer, id = running()
    peer.say(chunk("good"), chunk("bye", messageId="m1"), {"id": id, "result": end("end_turn")})
    assert peer.effects == [
        TextReceived("good"),
        TextReceived("bye", message="m1"),
        TurnFinished(turn="t1", outcome="completed", stop_reason="end_turn"),
    ]


def end(reason: str) -> dict[str, Any]:
    return {"stopReason": reason}


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("end_turn", "completed"),
        ("max_tokens", "limit"),
        ("max_turn_requests", "limit"),
        ("refusal", "refused"),
        ("cancelled", "cancelled"),
    ],
)
def test_the_agent_s_reason_says_how_the_turn_ended(reason: str, outcome: str) -> None:
    peer, id = running()
    peer.answer(id, end(reason))
    assert peer.effects == [TurnFinished(turn="t1", outcome=outcome, stop_reason=reason)]  # type: ignore[arg-type]


def test_a_failed_prompt_is_a_failed_turn_with_all_that_the_error_said() -> None:
    peer, id = running()
    peer.fail(id, -32603, "Internal error", {"details": "quota exceeded"})
    finished = peer.only(TurnFinished)
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.message == "Internal error: quota exceeded"
    assert finished.error.data == {"code": -32603, "data": {"details": "quota exceeded"}}


REASON = "modes apply between turns only"


def reported(data: Any, code: int = -32600, message: str = "Invalid request") -> ErrorInfo:
    """What is reported of a prompt that fails with this error."""
    peer, id = running()
    peer.fail(id, code, message, data)
    error = peer.only(TurnFinished).error
    assert error is not None
    return error


@pytest.mark.parametrize(
    "data",
    [
        REASON,
        {"details": REASON},
        {"message": REASON},
        {"reason": REASON},
        {"error": {"message": REASON}},
        {"code": 7, "detail": REASON},
        {"cause": REASON},
        [REASON],
    ],
)
def test_the_text_of_the_data_is_in_the_message_and_the_data_is_kept(data: Any) -> None:
    error = reported(data)
    assert error.message.startswith("Invalid request: ")
    assert REASON in error.message
    assert error.data == {"code": -32600, "data": data}


@pytest.mark.parametrize("data", [None, {}, [], "", {"message": ""}, "Invalid request"])
def test_data_without_a_text_adds_nothing(data: Any) -> None:
    assert reported(data).message in ("Invalid request", 'Invalid request: {"message":""}')


def test_structured_data_is_shortened() -> None:
    assert len(reported({"stack": "x" * 10_000}, 1, "no").message) < 320


def test_an_error_that_means_cancelled_is_a_cancelled_turn() -> None:
    peer, id = running()
    peer.fail(id, -32800, "Request cancelled")
    assert peer.only(TurnFinished).outcome == "cancelled"


def test_the_tokens_of_a_turn_come_with_its_end() -> None:
    peer, id = running()
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "cachedReadTokens": 4}
    peer.answer(id, {"stopReason": "end_turn", "usage": usage})
    assert peer.only(TurnFinished).usage == Usage(
        input_tokens=1, output_tokens=2, total_tokens=3, cache_read_tokens=4
    )


def test_tokens_that_are_reported_with_messages_are_summed_for_the_turn() -> None:
    """As Qwen tells them: with an empty text behind each answer of the model."""
    peer, id = running()
    for count in (1, 10):
        counts = {"inputTokens": count, "outputTokens": 2 * count, "totalTokens": 3 * count}
        more = {"thoughtTokens": 0, "cachedReadTokens": count}
        meta = {"usage": {**counts, **more}, "durationMs": 5}
        peer.update("agent_message_chunk", content={"type": "text", "text": ""}, _meta=meta)
    peer.answer(id, {"stopReason": "end_turn"})
    assert peer.only(TurnFinished).usage == Usage(
        input_tokens=11,
        output_tokens=22,
        total_tokens=33,
        thought_tokens=0,
        cache_read_tokens=11,
    )


def test_tokens_that_are_reported_as_a_quota_are_those_of_the_turn() -> None:
    """As Gemini tells them."""
    peer, id = running()
    counts = {"input_tokens": 20, "output_tokens": 5}
    quota = {"token_count": counts, "model_usage": [{"model": "flash", "token_count": counts}, 7]}
    peer.answer(id, {"stopReason": "end_turn", "_meta": {"quota": quota}})
    each = Usage(input_tokens=20, output_tokens=5, total_tokens=25)
    assert peer.only(TurnFinished).usage == replace(each, models={"flash": each})


@pytest.mark.parametrize("meta", [{}, {"quota": 7}, {"quota": {"token_count": []}}, {"usage": "x"}])
def test_a_turn_whose_tokens_nobody_reports_has_no_usage(meta: Any) -> None:
    peer, id = running()
    peer.update("agent_message_chunk", content={"type": "text", "text": ""}, _meta=meta)
    peer.answer(id, {"stopReason": "end_turn", "_meta": meta})
    assert peer.only(TurnFinished).usage is None


def test_a_prompt_may_carry_what_the_agent_takes() -> None:
    blocks = [
        Text("look"),
        Image("aGk=", "image/png"),
        Audio("aGk=", "audio/wav"),
        ResourceLink("file:///a", "a"),
        Resource({"uri": "file:///b", "text": "b"}),
    ]
    peer = opened(capabilities=EVERYTHING)
    peer.prompt("t1", blocks)
    assert [block["type"] for block in peer.last("session/prompt")["params"]["prompt"]] == [
        "text",
        "image",
        "audio",
        "resource_link",
        "resource",
    ]


@pytest.mark.parametrize(
    "block", [Image("", "image/png"), Audio("", "audio/wav"), Resource({"uri": "x", "text": ""})]
)
def test_a_prompt_with_what_the_agent_does_not_take_is_refused(block: Any) -> None:
    peer = opened()
    with pytest.raises(LocalProtocolError):
        peer.driver.prompt("t1", [block])
    peer.prompt()  # and nothing has changed


def test_one_prompt_at_a_time() -> None:
    peer, _ = running()
    with pytest.raises(LocalProtocolError):
        peer.driver.prompt("t2", [Text("again")])
    assert not peer.driver.idle


def test_prompts_are_the_only_lines_that_let_others_pass() -> None:
    peer = opened()
    writes = peer.driver.prompt("t1", [Text("x")]) + peer.driver.cancel()
    assert [write.urgent for write in writes] == [False, False]  # type: ignore[union-attr]


# --- what is said


def test_thoughts_images_and_echoes_are_distinguished() -> None:
    peer, _ = running()
    text = {"type": "text", "text": "x"}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    peer.update("agent_thought_chunk", content=text)
    peer.update("agent_message_chunk", content=image, messageId="m")
    peer.update("user_message_chunk", content=text)
    assert peer.effects == [
        TextReceived("x", thought=True),
        BlockReceived(block=Image("aGk=", "image/png"), message="m"),
        UserContentReceived(content=[Text("x")]),
    ]


def test_neighbouring_pieces_of_one_message_are_told_as_one() -> None:
    peer = opened()
    peer.prompt()
    thought = {"type": "text", "text": "hm"}
    peer.say(
        *[chunk("a", messageId="m"), chunk("b", messageId="m")],
        *[chunk("c"), chunk("d", "elsewhere"), chunk("e")],
        update("agent_thought_chunk", content=thought),
        update("agent_thought_chunk", content=thought),
        chunk("f"),
    )
    assert peer.of(TextReceived) == [
        TextReceived("ab", message="m"),
        TextReceived("c"),
        TextReceived("e"),
        TextReceived("hmhm", thought=True),
        TextReceived("f"),
    ]


def test_a_tool_call_opens_changes_and_ends() -> None:
    peer, _ = running()
    peer.update("tool_call", toolCallId="c", title="Run", kind="execute", rawInput={"cmd": "ls"})
    peer.update("tool_call_update", toolCallId="c", status="in_progress")
    peer.update("tool_call_update", toolCallId="c", locations=[{"path": "/a", "line": 2}])
    peer.update("tool_call_update", toolCallId="c", status="completed", rawOutput="done")
    assert peer.effects == [
        ToolCalled(
            id="c", opens=True, title="Run", kind="execute", status="pending", input={"cmd": "ls"}
        ),
        ToolCalled(id="c", status="running"),
        ToolCalled(id="c", locations=[{"path": "/a", "line": 2}]),
        ToolCalled(id="c", status="completed", output="done"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "shell"},
        {"_meta": {"claudeCode": {"toolName": "shell"}}},
        {"_meta": {"toolName": "shell"}},
        {"_meta": {"tool_name": "shell"}},
    ],
)
def test_a_tool_s_name_is_found_where_agents_put_it(fields: dict[str, Any]) -> None:
    peer, _ = running()
    peer.update("tool_call", toolCallId="c", title="x", **fields)
    assert peer.only(ToolCalled).name == "shell"


def test_what_is_about_the_session_is_reported_in_neutral_words() -> None:
    peer = opened()
    peer.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending"}])
    peer.update(
        "available_commands_update",
        availableCommands=[
            {"name": "n", "description": "d", "input": {"hint": "h"}},
            {"name": "m"},
        ],
    )
    peer.update("session_info_update", title="T")
    peer.update("session_info_update", updatedAt="2026-01-01")
    peer.update("session_info_update", title=None)
    peer.update("usage_update", used=1, size=2, cost={"amount": 0.1, "currency": "EUR"})
    peer.update("notice", severity="warning", title="Low", description="on disk")
    assert peer.effects == [
        PlanSet([PlanEntry("a", "pending", "high")]),
        CommandsSet([Command("n", "d", "h"), Command("m")]),
        TitleSet("T"),
        TitleSet(None),
        UsageSet(Usage(used=1, size=2, cost=0.1, currency="EUR")),
        Notice("warning", "agent_notice", "Low: on disk"),
    ]
    assert not peer.driver.cancel()  # none of it is work that could be cancelled


def test_a_compaction_is_a_task_with_its_summary() -> None:
    peer = opened()
    peer.update("compaction_update", compactionId="k", status="in_progress")
    for word in ("short", "er"):
        text = {"type": "text", "text": word}
        peer.update("compaction_summary_chunk", compactionId="k", content=text)
    peer.update("compaction_update", compactionId="k", status="completed")
    tasks = [effect.task for effect in peer.of(TaskSet)]
    assert [(task.kind, task.status, task.detail) for task in tasks] == [
        ("compaction", "running", None),
        ("compaction", "completed", "shorter"),
    ]
    assert [each.code for each in peer.of(Notice)] == ["compacted"]


def test_a_failed_compaction_is_reported() -> None:
    peer = opened()
    update = {"compactionId": "k", "status": "failed", "error": "too long"}
    peer.update("compaction_update", **update)
    [notice] = peer.of(Notice)
    assert (notice.level, notice.code, notice.message) == ("warning", "compact_failed", "too long")


# --- modes, models, options


def test_a_config_option_counts_more_than_a_mode() -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
    option = {
        "id": "o",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "x",
        "options": [{"group": "g", "name": "G", "options": [{"value": "x"}, {"value": "y"}]}],
    }
    peer = opened(session={"modes": modes, "configOptions": [option]})
    peer.do(peer.driver.call("c1", "set_mode", {"mode": "y"}))
    assert peer.last("session/set_config_option")["params"]["configId"] == "o"
    peer.answer(3, {"configOptions": [{**option, "currentValue": "y"}]})
    view = peer.only(ModesSet).modes
    assert (view.mode, [mode.id for mode in view.modes], view.options) == ("y", ["x", "y"], [])


def test_older_agents_models_can_still_be_set() -> None:
    models = {
        "currentModelId": "a",
        "availableModels": [{"modelId": "a"}, {"modelId": "b", "name": "B"}],
    }
    peer = opened(session={"models": models})
    peer.do(peer.driver.call("c1", "set_model", {"model": "B"}))
    assert peer.last("session/set_model")["params"] == {"sessionId": "s1", "modelId": "b"}
    peer.answer(3, {})
    assert peer.only(ModesSet).modes.model == "b"


def test_a_mode_that_the_agent_changes_is_reported() -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]}
    peer = opened(session={"modes": modes})
    peer.update("current_mode_update", currentModeId="b")
    peer.update("current_mode_update", modeId="a")
    assert [effect.modes.mode for effect in peer.of(ModesSet)] == ["b", "a"]


def test_options_that_the_agent_changes_are_reported() -> None:
    peer = opened()
    option = {"id": "web", "name": "Web", "type": "boolean", "currentValue": True}
    strange = {"id": "x", "name": "X", "type": "slider", "currentValue": "7"}
    peer.update("config_option_update", configOptions=[option, strange])
    assert [(each.id, each.value) for each in peer.only(ModesSet).modes.options] == [("web", True)]


# --- cancel


def test_a_cancel_is_sent_once_a_call_and_louder_the_second_time() -> None:
    peer, id = running()
    peer.do(peer.driver.cancel())
    assert peer.methods() == ["session/cancel"]
    peer.do(peer.driver.cancel())
    assert peer.last("$/cancel_request")["params"] == {"requestId": id}
    assert peer.methods() == ["session/cancel", "$/cancel_request"]


def test_nothing_is_cancelled_when_nothing_runs() -> None:
    peer, id = running()
    peer.answer(id, end("end_turn"))
    assert peer.driver.cancel() == []


def test_the_driver_reports_the_agent_s_word_even_after_a_cancel() -> None:
    peer, id = running()
    peer.do(peer.driver.cancel())
    peer.answer(id, end("end_turn"))
    assert peer.only(TurnFinished).outcome == "completed"


def test_what_is_said_after_a_cancel_is_still_passed_on() -> None:
    peer, id = running()
    peer.do(peer.driver.cancel())
    peer.say(chunk("last words"), {"id": id, "result": end("cancelled")})
    assert [type(effect) for effect in peer.effects] == [TextReceived, TurnFinished]


def test_a_late_answer_never_meets_the_next_prompt() -> None:
    peer, first = running()
    peer.answer(first, end("end_turn"))
    second = peer.prompt("t2")
    peer.effects.clear()
    peer.answer(first, end("refusal"))
    assert peer.notices() == ["duplicate_response"]
    assert not peer.driver.idle
    peer.answer(second, end("max_tokens"))
    assert peer.only(TurnFinished) == TurnFinished(
        turn="t2", outcome="limit", stop_reason="max_tokens"
    )


# --- outside turns


def test_work_that_no_prompt_asked_for_is_passed_on_and_can_be_cancelled() -> None:
    peer = opened()
    assert peer.driver.cancel() == []
    peer.say(chunk("by the way"))
    assert peer.effects == [TextReceived("by the way")]
    peer.do(peer.driver.cancel())
    assert peer.methods() == ["session/cancel"]
    peer.answer(peer.prompt(), end("end_turn"))
    assert peer.driver.cancel() == []


def test_a_late_tool_update_of_the_last_turn_is_no_new_call() -> None:
    peer, id = running()
    peer.say(
        update("tool_call", toolCallId="c", title="Sleep"),
        {"id": id, "result": end("cancelled")},
    )
    peer.prompt("t2")
    peer.effects.clear()
    peer.update("tool_call_update", toolCallId="c", status="failed")
    assert peer.effects == [ToolCalled(id="c", status="failed")]  # the log knows whose it was


# --- other sessions


def test_updates_of_other_sessions_are_dropped_and_reported() -> None:
    peer, _ = running()
    peer.say(chunk("not for you", "s2"))
    assert peer.notices() == ["foreign_session"]
    assert peer.of(TextReceived) == []


def test_sub_agents_are_tasks_and_what_they_say_has_a_parent() -> None:
    peer, _ = running()
    peer.update(
        "subagent_update",
        sessionId="child",
        title="Explore",
        capabilities={"cancel": {}},
        state={"sessionUpdate": "state_update", "state": "running"},
    )
    peer.say(
        chunk("found it", "child"),
        update("tool_call", "child", toolCallId="c", title="Read"),
        update("usage_update", "child", used=1, size=2),
        update("subagent_update", "child", sessionId="grandchild"),
        chunk("deeper", "grandchild"),
    )
    peer.update("subagent_update", sessionId="child", state={"state": "idle"})
    assert [
        (effect.task.id, effect.task.title, effect.task.status) for effect in peer.of(TaskSet)
    ] == [
        ("child", "Explore", "running"),
        ("grandchild", "Sub-agent", "running"),
        ("child", "Explore", "completed"),
    ]
    assert [effect.parent for effect in peer.of(TextReceived)] == ["child", "grandchild"]
    calls = [(effect.id, effect.status, effect.parent) for effect in peer.of(ToolCalled)]
    assert calls == [
        ("child", "running", None),  # no tool call of the agent stands for it
        ("c", "pending", "child"),
        ("grandchild", "running", "child"),
        ("child", "completed", None),
    ]
    assert peer.of(UsageSet) == []


def test_what_a_sub_agent_was_asked_and_its_answer_are_reported() -> None:
    peer, _ = running()
    peer.update("subagent_update", sessionId="child", description="general-purpose")
    said = [{"type": "text", "text": "look around"}]
    peer.update("session_message", senderSessionId="s1", recipientSessionId="child", content=said)
    peer.update("subagent_update", sessionId="child", state={"state": "idle"})
    said = [{"type": "text", "text": "nothing there"}]
    peer.update("session_message", senderSessionId="child", recipientSessionId="s1", content=said)
    peer.update("subagent_update", sessionId="child", description="general-purpose")
    inputs = [call.input for call in peer.of(ToolCalled) if call.input is not UNSET]
    assert inputs == [{"prompt": "look around"}]
    tasks = [(each.task.status, each.task.detail) for each in peer.of(TaskSet)]
    assert tasks == [
        ("running", "general-purpose"),
        ("completed", "general-purpose"),
        ("completed", "nothing there"),
        ("completed", "nothing there"),
    ]
    assert peer.notices() == []


def test_a_message_between_unknown_sessions_is_a_notice() -> None:
    peer, _ = running()
    peer.update("session_message", senderSessionId="a", recipientSessionId="b", content=[])
    assert peer.notices() == ["unknown_update"]


def test_a_sub_agent_is_stopped_by_its_own_session_if_it_can_be() -> None:
    peer = opened()
    peer.update("subagent_update", sessionId="child", capabilities={"cancel": {}})
    peer.update("subagent_update", sessionId="other")
    peer.do(peer.driver.call("c1", "stop_task", {"task": "child"}))
    peer.do(peer.driver.call("c2", "stop_task", {"task": "other"}))
    assert peer.last("session/cancel")["params"] == {"sessionId": "child"}
    assert peer.methods() == ["session/cancel"]


STEERS = {"meta": {"steering": {"supported": True}}}


def steered() -> tuple[Peer, int, int]:
    """A running prompt, and words that were sent into it: the ids of both requests."""
    peer, id = running(**STEERS)
    peer.do(peer.driver.steer("s1", [Text("faster")]))
    said = peer.last("_session/steering")
    assert said["params"] == {
        "sessionId": "s1",
        "prompt": [{"type": "text", "text": "faster"}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},
    }
    return peer, id, said["id"]


def test_words_are_taken_into_the_running_turn_and_end_with_it() -> None:
    peer, id, steer = steered()
    peer.answer(steer, {"outcome": "injected"})
    peer.say({"id": id, "result": end("end_turn")})
    assert peer.only(TurnFinished).folded == ("s1",)


@pytest.mark.parametrize(
    "answer",
    [{"result": {"outcome": "promptRequired"}}, {"error": {"code": -32603, "message": "No."}}],
)
def test_words_that_the_agent_does_not_take_are_told(answer: dict[str, Any]) -> None:
    peer, _, steer = steered()
    peer.say({"id": steer, **answer})
    assert peer.only(TurnFinished) == TurnFinished(turn="s1", outcome="cancelled")
    assert peer.notices() == ["not_steered"]


def test_no_words_are_sent_to_an_agent_that_takes_none_or_without_a_turn() -> None:
    peer, _ = running()
    with pytest.raises(LocalProtocolError, match="does not accept a prompt during a turn"):
        peer.driver.steer("s1", [Text("faster")])
    peer = opened(**STEERS)
    with pytest.raises(LocalProtocolError, match="no turn is running"):
        peer.driver.steer("s1", [Text("faster")])
    peer, _ = running(**STEERS)
    peer.do(peer.driver.cancel())
    with pytest.raises(LocalProtocolError, match="no turn is running"):
        peer.driver.steer("s1", [Text("faster")])
    assert "_session/steering" not in peer.methods()


OF_C1 = {"claudeCode": {"parentToolUseId": "c1"}}


@pytest.mark.parametrize("announced", [True, False])
def test_steps_of_a_sub_agent_are_below_its_call_also_if_its_card_comes_later(
    announced: bool,
) -> None:
    peer, _ = running()
    card = update("tool_call", toolCallId="c1", title="dig")
    steps = [
        update("tool_call", toolCallId="c2", title="ls", _meta=OF_C1),
        update("agent_message_chunk", content={"type": "text", "text": "deep"}, _meta=OF_C1),
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}, _meta=OF_C1),
        update("agent_message_chunk", content={"type": "text", "text": "mine"}),
    ]
    peer.say(*([card, *steps] if announced else [*steps, card]))
    calls = [(e.id, e.parent) for e in peer.of(ToolCalled)]
    assert calls == [("c1", None), ("c2", "c1"), *([] if announced else [("c1", None)])]
    spoken = [(e.text, e.parent) for e in peer.of(TextReceived)]
    assert spoken == [("deep", "c1"), ("hm", "c1"), ("mine", None)]
