"""Control requests, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    RequestWithdrawn,
    ServiceRequested,
    TaskSet,
    ToolCalled,
)
from agentrt.events import ErrorInfo, Text
from agentrt.lowlevel import DecisionAnswer

from .rig import (
    Json,
    Rig,
    ask,
    assistant,
    only,
    success,
    system,
    tool_result,
    tool_use,
)

SUGGESTION = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}],
    "behavior": "allow",
    "destination": "session",
}


def request(id: str, subtype: str, **fields: Any) -> Json:
    body = {"subtype": subtype, **fields}
    return {"type": "control_request", "request_id": id, "request": body}


def mcp(id: str, message: Json) -> Json:
    return request(id, "mcp_message", server_name="app", message={"jsonrpc": "2.0", **message})


# --- permissions


def test_a_permission_request_says_what_it_is_about(rig: Rig) -> None:
    asked = only(rig.feed(ask(description="list files", blocked_path="/etc")), DecisionRequested)
    assert (asked.kind, asked.name, asked.tool_call) == ("permission", "Bash", "c1")
    assert (asked.title, asked.tool_kind, asked.input) == ("ls", "execute", {"command": "ls"})
    assert asked.detail == {"description": "list files", "blocked_path": "/etc"}
    assert [o.kind for o in asked.options] == ["allow_once", "reject_once"]


def test_suggestions_make_a_lasting_permission_possible(rig: Rig) -> None:
    asked = only(rig.feed(ask(permission_suggestions=[SUGGESTION])), DecisionRequested)
    assert asked.options[1].name == "Always allow Bash(ls:*) in this session"
    rig.answer(asked.key, "allow_always")
    assert rig.last()["response"]["updatedPermissions"] == [SUGGESTION]


def test_a_suggestion_that_an_option_describes_is_not_shown_twice(rig: Rig) -> None:
    asked = only(rig.feed(ask(permission_suggestions=[SUGGESTION])), DecisionRequested)
    assert asked.detail is None


@pytest.mark.parametrize(
    "suggestion",
    [
        {"type": "setMode", "mode": "bypassPermissions", "destination": "session"},
        {**SUGGESTION, "behavior": "deny"},
        {**SUGGESTION, "until": "tomorrow"},
        {**SUGGESTION, "destination": "somewhere"},
        {**SUGGESTION, "rules": [{"toolName": "Bash", "when": "always"}]},
        {"type": "addDirectories", "directories": [1]},
    ],
)
def test_a_suggestion_that_no_option_describes_completely_is_shown(
    rig: Rig, suggestion: Json
) -> None:
    asked = only(rig.feed(ask(permission_suggestions=[suggestion])), DecisionRequested)
    assert asked.detail == {"permission_suggestions": [suggestion]}


def test_a_lasting_permission_is_not_offered_where_the_cli_forbids_it(rig: Rig) -> None:
    fields = {"permission_suggestions": [SUGGESTION], "suppress_always_allow_rule": True}
    asked = only(rig.feed(ask(**fields)), DecisionRequested)
    assert [o.id for o in asked.options] == ["allow_once", "reject_once"]


def test_allowing_repeats_the_input_or_changes_it(rig: Rig) -> None:
    rig.feed(ask("r1"), ask("r2"))
    rig.answer("k1", "allow_once")
    assert rig.last() == {
        "subtype": "success",
        "request_id": "r1",
        "response": {"behavior": "allow", "updatedInput": {"command": "ls"}},
    }
    rig.answer("k2", "allow_once", updated_input={"command": "pwd"})
    assert rig.last()["response"]["updatedInput"] == {"command": "pwd"}


def test_a_denial_always_carries_a_message(rig: Rig) -> None:
    rig.feed(ask("r1"), ask("r2"))
    rig.answer("k1", "reject_once")
    assert rig.last()["response"]["behavior"] == "deny"
    assert rig.last()["response"]["message"]
    rig.answer("k2", "reject_once", message="not today", interrupt=True)
    assert rig.last()["response"] == {
        "behavior": "deny",
        "message": "not today",
        "interrupt": True,
    }


@pytest.mark.parametrize("option", [None, "nonsense", "accept"])
def test_what_is_no_permission_is_a_denial(rig: Rig, option: str | None) -> None:
    rig.feed(ask())
    rig.answer("k1", option)
    assert rig.last()["response"]["behavior"] == "deny"


def test_a_denied_call_ends_denied_without_the_clis_own_word(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="ls")), ask())
    rig.answer("k1", "reject_once")
    assert only(rig.feed(tool_result("c1", "no", error=True)), ToolCalled).status == "denied"


def test_requests_are_answered_in_any_order_and_once(rig: Rig) -> None:
    rig.feed(ask("r1"), ask("r2"), ask("r1"))
    assert len(rig.of(DecisionRequested)) == 2
    rig.answer("k2", "allow_once")
    rig.answer("k1", "allow_once")
    rig.answer("k1", "reject_once")
    rig.feed(ask("r1"))  # delivered again, after the answer
    rig.answer("unknown", "allow_once")
    answers = [m["response"]["request_id"] for m in rig.written if "response" in m]
    assert answers == ["r2", "r1"]


def test_a_withdrawn_request_is_not_answered(rig: Rig) -> None:
    rig.feed(ask("r1"))
    told = rig.feed({"type": "control_cancel_request", "request_id": "r1"})
    assert told == [RequestWithdrawn("k1")]
    before = len(rig.written)
    rig.answer("k1", "allow_once")
    assert len(rig.written) == before


def test_leaving_plan_mode_offers_how_to_go_on(rig: Rig) -> None:
    plan = {"plan": "# do it"}
    asked = only(rig.feed(ask(name="ExitPlanMode", input=plan)), DecisionRequested)
    assert [o.kind for o in asked.options] == ["allow_always", "allow_once", "reject_once"]
    rig.answer(asked.key, "allow_always")
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    assert rig.last()["response"]["updatedPermissions"] == [mode]


def test_what_a_background_agent_asks_belongs_to_no_turn(rig: Rig) -> None:
    task = {"task_id": "a1", "task_type": "local_agent", "tool_use_id": "c1"}
    rig.feed(assistant(tool_use("c1", "Agent")))
    rig.feed(system("task_started", is_backgrounded=True, **task))
    rig.feed(assistant(tool_use("c2", "mcp__app__look"), parent="c1"))
    meta = {"_meta": {"claudecode/toolUseId": "c2"}}
    call = {"id": 7, "method": "tools/call", "params": {"name": "look", "arguments": {}, **meta}}
    told = rig.feed(
        ask("r1", call="c2", agent_id="a1"),
        mcp("r2", call),
        request("r3", "hook_callback", callback_id="h", input={"agent_id": "a1"}),
    )
    assert [(type(effect), effect.background) for effect in told] == [  # type: ignore[union-attr]
        (DecisionRequested, True),
        (ServiceRequested, True),
        (ServiceRequested, True),
    ]


def test_what_a_sub_agent_in_the_foreground_asks_belongs_to_its_turn(rig: Rig) -> None:
    task = {"task_id": "a1", "task_type": "local_agent", "tool_use_id": "c1"}
    rig.feed(assistant(tool_use("c1", "Agent")))
    rig.feed(system("task_started", is_backgrounded=False, **task))
    assert not only(rig.feed(ask("r1", call="c2", agent_id="a1")), DecisionRequested).background


def test_a_background_agents_request_is_about_its_call_and_no_turn(rig: Rig) -> None:
    task = {"task_id": "a1", "task_type": "local_agent", "tool_use_id": "c9"}
    rig.feed(system("task_started", is_backgrounded=True, **task))
    asked = only(rig.feed(ask(agent_id="a1")), DecisionRequested)
    assert (asked.tool_call, asked.background) == ("c1", True)
    other = only(rig.feed(ask("r2", agent_id="other")), DecisionRequested)
    assert (other.tool_call, other.background) == ("c1", False)


# --- questions


QUESTIONS = {
    "questions": [
        {
            "question": "Which?",
            "header": "Pick",
            "multiSelect": False,
            "options": [{"label": "A", "description": "first"}, {"label": "B"}],
        },
        {"question": "What else?", "multiSelect": True, "options": [{"label": "C"}]},
    ]
}


def test_questions_are_a_form(rig: Rig) -> None:
    asked = only(rig.feed(ask(name="AskUserQuestion", input=QUESTIONS)), DecisionRequested)
    assert (asked.kind, asked.options) == ("elicitation", [])
    assert asked.form == {
        "type": "object",
        "properties": {
            "Which?": {
                "title": "Pick",
                "description": "Which?",
                "type": "string",
                "oneOf": [
                    {"const": "A", "title": "A", "description": "first"},
                    {"const": "B", "title": "B"},
                ],
            },
            "What else?": {
                "title": "",
                "description": "What else?",
                "type": "array",
                "items": {"type": "string", "anyOf": [{"const": "C", "title": "C"}]},
            },
        },
        "required": ["Which?", "What else?"],
    }


def test_answers_go_back_by_question(rig: Rig) -> None:
    rig.feed(ask(name="AskUserQuestion", input=QUESTIONS))
    rig.answer("k1", "accept", content={"Which?": "B", "What else?": ["C", "D"]})
    answers = {"Which?": "B", "What else?": "C, D"}
    assert rig.last()["response"] == {
        "behavior": "allow",
        "updatedInput": {**QUESTIONS, "answers": answers},
    }


def test_questions_without_answers_are_denied(rig: Rig) -> None:
    rig.feed(ask(name="AskUserQuestion", input=QUESTIONS))
    rig.answer("k1")
    assert rig.last()["response"]["behavior"] == "deny"


@pytest.mark.parametrize("broken", [None, 7, {"questions": 7}, {"questions": [7, {}]}])
def test_broken_questions_still_make_a_form(rig: Rig, broken: Any) -> None:
    asked = only(rig.feed(ask(name="AskUserQuestion", input=broken)), DecisionRequested)
    assert asked.form is not None
    assert asked.form["type"] == "object"


@pytest.mark.parametrize(
    ("answer", "response"),
    [
        (
            DecisionAnswer(option="accept", content={"a": 1}),
            {"action": "accept", "content": {"a": 1}},
        ),
        (DecisionAnswer(option="accept"), {"action": "accept", "content": {}}),
        (DecisionAnswer(option="decline"), {"action": "decline"}),
        (DecisionAnswer(), {"action": "cancel"}),
    ],
)
def test_an_mcp_servers_form_is_an_elicitation(
    rig: Rig, answer: DecisionAnswer, response: Json
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    fields = {"mcp_server_name": "db", "message": "How many?", "requested_schema": schema}
    asked = only(rig.feed(request("r1", "elicitation", **fields)), DecisionRequested)
    assert (asked.kind, asked.title, asked.form, asked.name) == (
        "elicitation",
        "How many?",
        schema,
        "db",
    )
    rig.do(rig.driver.answer(asked.key, answer))
    assert rig.last()["response"] == response


def test_an_mcp_servers_page_is_an_elicitation_with_an_address(rig: Rig) -> None:
    fields = {"message": "Sign in", "mode": "url", "url": "https://example.org"}
    assert (
        only(rig.feed(request("r1", "elicitation", **fields)), DecisionRequested).url
        == fields["url"]
    )


# --- services


def test_a_hook_is_a_request(rig: Rig) -> None:
    body = {"callback_id": "h1", "input": {"hook_event_name": "Stop"}, "tool_use_id": None}
    asked = only(rig.feed(request("r1", "hook_callback", **body)), ServiceRequested)
    assert (asked.method, asked.params) == ("hook", body)
    rig.do(rig.driver.reply(asked.key, {"decision": "block"}))
    assert rig.last()["response"] == {"decision": "block"}


def test_a_failed_hook_is_an_error(rig: Rig) -> None:
    rig.feed(request("r1", "hook_callback", callback_id="h1", input={}))
    rig.do(rig.driver.refuse("k1", -32603, "ValueError: no"))
    assert rig.last() == {"subtype": "error", "request_id": "r1", "error": "ValueError: no"}


def test_a_hook_without_an_opinion_is_an_empty_object(rig: Rig) -> None:
    rig.feed(request("r1", "hook_callback", callback_id="h1", input={}))
    rig.do(rig.driver.reply("k1", None))
    assert rig.last()["response"] == {}


def test_a_result_that_is_no_json_is_an_error(rig: Rig) -> None:
    rig.feed(request("r1", "hook_callback", callback_id="h1", input={}))
    rig.do(rig.driver.reply("k1", {"when": object()}))
    assert rig.last()["subtype"] == "error"


def test_an_in_process_tool_is_called_over_mcp(rig: Rig) -> None:
    call = {"id": 2, "method": "tools/call", "params": {"name": "record"}}
    asked = only(rig.feed(mcp("r1", call)), ServiceRequested)
    assert asked.method == "mcp"
    assert asked.params == {"server": "app", "message": {"jsonrpc": "2.0", **call}}
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"content": []}}
    rig.do(rig.driver.reply(asked.key, answer))
    assert rig.last()["response"] == {"mcp_response": answer}


@pytest.mark.parametrize("refused", [True, False])
def test_a_failed_tool_does_not_fail_its_server(rig: Rig, refused: bool) -> None:
    rig.feed(mcp("r1", {"id": 2, "method": "tools/call"}))
    if refused:
        rig.do(rig.driver.refuse("k1", -32000, "broken", {"why": 1}))
    else:
        rig.do(rig.driver.reply("k1", None))
    assert rig.last()["subtype"] == "success"
    assert rig.last()["response"]["mcp_response"]["error"]["code"] in (-32000, -32603)


def test_an_mcp_notification_is_acknowledged_at_once_and_handed_on(rig: Rig) -> None:
    told = rig.feed(mcp("r1", {"method": "notifications/initialized"}))
    assert rig.last()["response"] == {"mcp_response": {"jsonrpc": "2.0", "result": {}}}
    asked = only(told, ServiceRequested)
    before = len(rig.written)
    rig.do(rig.driver.reply(asked.key, None))
    assert len(rig.written) == before


def test_a_cancelled_mcp_call_is_withdrawn(rig: Rig) -> None:
    rig.feed(mcp("r1", {"id": 2, "method": "tools/call"}))
    rig.feed(mcp("r2", {"id": 3, "method": "tools/call"}))
    gone = {"method": "notifications/cancelled", "params": {"requestId": 2, "reason": "x"}}
    assert rig.feed(mcp("r3", gone)) == [RequestWithdrawn("k1")]
    assert rig.last()["request_id"] == "r3"
    before = len(rig.written)
    rig.do(rig.driver.reply("k1", {"jsonrpc": "2.0", "id": 2, "result": {}}))
    assert len(rig.written) == before


@pytest.mark.parametrize("subtype", ["request_user_dialog", "oauth_token_refresh", "brand_new"])
def test_what_nobody_here_does_is_refused_at_once(rig: Rig, subtype: str) -> None:
    assert rig.feed(request("r1", subtype)) == []
    assert rig.last()["error"] == f"unsupported_request: {subtype}"


# --- our requests


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("set_mode", {"mode": "plan"}, {"subtype": "set_permission_mode", "mode": "plan"}),
        ("set_model", {"model": "haiku"}, {"subtype": "set_model", "model": "haiku"}),
        ("stop_task", {"task": "a1"}, {"subtype": "stop_task", "task_id": "a1"}),
        (
            "mcp_notify",
            {"server": "app", "message": {"method": "notifications/tools/list_changed"}},
            {
                "subtype": "mcp_message",
                "server_name": "app",
                "message": {"method": "notifications/tools/list_changed"},
            },
        ),
        (
            "set_max_thinking_tokens",
            {"max_thinking_tokens": 5},
            {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 5},
        ),
        ("get_context_usage", {}, {"subtype": "get_context_usage"}),
        (
            "rewind_files",
            {"user_message_id": "u1", "dry_run": True},
            {"subtype": "rewind_files", "user_message_id": "u1", "dry_run": True},
        ),
        (
            "mcp_toggle",
            {"serverName": "x", "enabled": False},
            {"subtype": "mcp_toggle", "serverName": "x", "enabled": False},
        ),
    ],
)
def test_calls_in_neutral_and_in_claudes_words(
    rig: Rig, method: str, params: Json, sent: Json
) -> None:
    rig.do(rig.driver.call("x1", method, params))
    assert rig.written[-1]["request"] == sent
    told = rig.feed(success(rig.written[-1]["request_id"], {"ok": 1}))
    assert only(told, CallReturned) == CallReturned("x1", {"ok": 1})


@pytest.mark.parametrize("method", ["set_option", "list_sessions", "logout", "initialize"])
def test_what_a_session_cannot_be_asked_is_unsupported(rig: Rig, method: str) -> None:
    error = only(rig.do(rig.driver.call("x1", method, {})), CallReturned).error
    assert error is not None
    assert error.code == "unsupported"


def test_a_refused_call_returns_its_error(rig: Rig) -> None:
    rig.do(rig.driver.call("x1", "nonsense", {}))
    body = {
        "subtype": "error",
        "request_id": rig.written[-1]["request_id"],
        "error": "Unsupported control request subtype: nonsense",
        "error_code": "unsupported_request",
    }
    told = rig.feed({"type": "control_response", "response": body})
    assert only(told, CallReturned).error == ErrorInfo("unsupported", body["error"])


def test_a_call_that_nobody_waits_for_is_withdrawn_and_its_answer_dropped(rig: Rig) -> None:
    rig.do(rig.driver.call("x1", "mcp_status", {}))
    id = rig.written[-1]["request_id"]
    rig.do(rig.driver.cancel_call("x1"))
    assert rig.written[-1] == {"type": "control_cancel_request", "request_id": id}
    assert rig.feed(success(id, {})) == []
    assert rig.driver.dropped["late"] == 1


def test_echoes_of_our_own_answers_are_no_answers(rig: Rig) -> None:
    rig.feed(ask("r1"))
    rig.answer("k1", "allow_once")
    assert rig.feed(success("r1", {"behavior": "allow"})) == []


def test_calls_end_with_the_process(rig: Rig) -> None:
    rig.do(rig.driver.call("x1", "mcp_status", {}))
    error = only(rig.do(rig.driver.receive_eof()), CallReturned).error
    assert error is not None
    assert error.code == "closed"


def test_a_steered_prompt_can_be_taken_back(rig: Rig) -> None:
    rig.do(rig.driver.steer("t2", [Text("also")]))
    rig.do(rig.driver.call("x1", "cancel_async_message", {"turn": "t2"}))
    assert rig.written[-1]["request"]["message_uuid"] == rig.written[-2]["uuid"]


def test_files_are_rewound_to_a_turn(rig: Rig) -> None:
    rig.do(rig.driver.call("x1", "rewind_files", {"turn": "t1", "dry_run": True}))
    assert rig.written[-1]["request"] == {
        "subtype": "rewind_files",
        "user_message_id": "u1",
        "dry_run": True,
    }
    error = only(rig.do(rig.driver.call("x2", "rewind_files", {"turn": "t9"})), CallReturned).error
    assert error is not None
    assert error.code == "unknown_turn"


def test_stopping_a_task_is_seen_by_its_status(rig: Rig) -> None:
    task = {"task_id": "b1", "task_type": "local_bash", "description": "serve"}
    rig.feed(system("task_started", is_backgrounded=True, **task))
    rig.do(rig.driver.call("x1", "stop_task", {"task": "b1"}))
    rig.feed(system("task_updated", task_id="b1", patch={"status": "killed"}))
    assert rig.of(TaskSet)[-1].task.status == "cancelled"
