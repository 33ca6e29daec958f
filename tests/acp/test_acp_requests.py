"""What the agent asks of us, and that it gets exactly one answer to it."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import Peer, opened

from agentrt.effects import DecisionRequested, RequestWithdrawn, ServiceRequested, ToolCalled
from agentrt.errors import LocalProtocolError
from agentrt.lowlevel import DecisionAnswer, client_capabilities

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def permission(peer: Peer, id: Any = 0, options: Any = OPTIONS, **tool: Any) -> DecisionRequested:
    """The agent asks for permission."""
    tool.setdefault("toolCallId", "c")
    params = {"sessionId": "s1", "toolCall": tool, "options": options}
    peer.ask("session/request_permission", params, id)
    return peer.of(DecisionRequested)[-1]


def answered(peer: Peer) -> Any:
    """The one answer sent since the last look."""
    (line,) = peer.sent
    peer.sent.clear()
    return line


# --- permission


@pytest.mark.parametrize("id", [0, -3, 7, "", "a-b", None])
def test_an_answer_carries_the_id_of_its_request_as_it_came(id: Any) -> None:
    peer = opened()
    asked = permission(peer, id)
    peer.do(peer.driver.answer(asked.key, DecisionAnswer(option="yes")))
    assert answered(peer) == {
        "jsonrpc": "2.0",
        "id": id,
        "result": {"outcome": {"outcome": "selected", "optionId": "yes"}},
    }


def test_no_option_means_cancelled() -> None:
    peer = opened()
    peer.do(peer.driver.answer(permission(peer, options=[]).key, DecisionAnswer()))
    assert answered(peer)["result"] == {"outcome": {"outcome": "cancelled"}}


def test_a_second_answer_is_not_sent() -> None:
    peer = opened()
    key = permission(peer).key
    peer.do(peer.driver.answer(key, DecisionAnswer(option="no")))
    peer.sent.clear()
    assert peer.driver.answer(key, DecisionAnswer(option="yes")) == []
    assert peer.driver.answer("never", DecisionAnswer(option="yes")) == []
    assert peer.driver.reply(key, {}) == []
    assert peer.driver.refuse(key, -1, "x") == []


def test_an_option_that_was_not_offered_is_refused_and_the_question_stays() -> None:
    peer = opened()
    key = permission(peer).key
    with pytest.raises(LocalProtocolError):
        peer.driver.answer(key, DecisionAnswer(option="maybe"))
    peer.do(peer.driver.answer(key, DecisionAnswer(option="yes")))
    assert answered(peer)["result"]["outcome"]["optionId"] == "yes"


def test_our_id_and_the_agent_s_may_be_the_same() -> None:
    peer = opened()
    id = peer.prompt()
    key = permission(peer, id).key
    peer.sent.clear()
    peer.answer(id, {"stopReason": "end_turn"})
    peer.do(peer.driver.answer(key, DecisionAnswer(option="yes")))
    assert answered(peer)["id"] == id


def test_parallel_questions_are_answered_each_for_itself() -> None:
    peer = opened()
    first, second = permission(peer, 0), permission(peer, 1, toolCallId="d")
    peer.do(peer.driver.answer(second.key, DecisionAnswer(option="no")))
    assert answered(peer)["id"] == 1
    peer.do(peer.driver.answer(first.key, DecisionAnswer(option="yes")))
    assert answered(peer)["id"] == 0


def test_a_question_says_what_it_is_about() -> None:
    peer = opened()
    content = [{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}]
    asked = permission(
        peer, title="Edit a", kind="edit", rawInput={"path": "/a"}, content=content, name="edit"
    )
    assert (asked.title, asked.tool_kind, asked.name) == ("Edit a", "edit", "edit")
    assert (asked.input, asked.detail) == ({"path": "/a"}, content)
    assert [(option.id, option.kind) for option in asked.options] == [
        ("yes", "allow_once"),
        ("no", "reject_once"),
    ]
    assert asked.raw["toolCall"]["title"] == "Edit a"


def test_a_question_may_be_the_first_word_about_its_tool_call() -> None:
    peer = opened()
    permission(peer, title="Run", kind="execute")
    called = peer.only(ToolCalled)
    assert (called.id, called.opens, called.title) == ("c", True, "Run")
    assert [type(effect) for effect in peer.effects] == [ToolCalled, DecisionRequested]


def test_a_question_that_names_only_the_call_is_shown_by_what_was_said_before() -> None:
    peer = opened()
    peer.prompt()
    peer.update("tool_call", toolCallId="c", title="bash: ls", kind="execute", rawInput={"c": "ls"})
    asked = permission(peer)
    assert (asked.title, asked.tool_kind, asked.input) == ("bash: ls", "execute", {"c": "ls"})


def test_a_question_leaves_the_call_s_own_status_alone() -> None:
    peer = opened()
    peer.update("tool_call", toolCallId="c", title="x", status="in_progress")
    peer.effects.clear()
    permission(peer, status="pending")
    assert not peer.only(ToolCalled).status


def test_a_question_of_an_unannounced_child_session_is_asked_all_the_same() -> None:
    peer = opened()
    params = {"sessionId": "child", "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
    peer.ask("session/request_permission", params)
    assert peer.only(DecisionRequested).options


def test_options_that_are_none_are_left_out() -> None:
    peer = opened()
    asked = permission(peer, options=[OPTIONS[0], "<2 more>", {"name": "no id"}])
    assert [option.id for option in asked.options] == ["yes"]
    assert peer.notices() == ["wrong_fields"]


def test_questions_after_a_cancel_are_answered_cancelled_without_asking() -> None:
    peer = opened()
    peer.prompt()
    peer.do(peer.driver.cancel())
    peer.sent.clear()
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
    peer.ask("session/request_permission", params)
    assert answered(peer)["result"] == {"outcome": {"outcome": "cancelled"}}
    peer.ask("elicitation/create", {"sessionId": "s1", "mode": "url", "message": "m", "url": "u"})
    assert answered(peer)["result"] == {"action": "cancel"}
    assert peer.of(DecisionRequested) == []


# --- elicitation

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def elicit(peer: Peer, **params: Any) -> None:
    peer.ask("elicitation/create", {"sessionId": "s1", "message": "Who?", **params})


def test_a_form_is_shown_and_its_content_sent() -> None:
    peer = opened()
    elicit(peer, mode="form", requestedSchema=FORM)
    asked = peer.only(DecisionRequested)
    assert (asked.kind, asked.title, asked.form) == ("elicitation", "Who?", FORM)
    peer.do(peer.driver.answer(asked.key, DecisionAnswer(option="accept", content={"name": "me"})))
    assert answered(peer)["result"] == {"action": "accept", "content": {"name": "me"}}


@pytest.mark.parametrize(
    ("option", "action"), [("accept", "accept"), ("decline", "decline"), (None, "cancel")]
)
def test_a_page_is_visited_declined_or_left(option: str | None, action: str) -> None:
    peer = opened()
    elicit(peer, mode="url", url="https://example.org/login", elicitationId="e")
    asked = peer.only(DecisionRequested)
    assert asked.url == "https://example.org/login"
    peer.do(peer.driver.answer(asked.key, DecisionAnswer(option=option)))
    assert answered(peer)["result"] == {"action": action}


def test_an_elicitation_has_no_other_answers() -> None:
    peer = opened()
    elicit(peer, mode="form", requestedSchema=FORM)
    with pytest.raises(LocalProtocolError):
        peer.driver.answer(peer.only(DecisionRequested).key, DecisionAnswer(option="yes"))


@pytest.mark.parametrize("params", [{"mode": "voice"}, {"mode": "form"}, {"mode": "url"}, {}])
def test_an_elicitation_of_another_kind_is_refused(params: dict[str, Any]) -> None:
    peer = opened()
    elicit(peer, **params)
    assert answered(peer)["error"]["code"] == -32602
    assert peer.of(DecisionRequested) == []


def test_the_end_of_an_elicitation_elsewhere_is_reported() -> None:
    peer = opened()
    peer.say({"method": "elicitation/complete", "params": {"elicitationId": "e"}})
    assert peer.notices() == ["elicitation_complete"]


# --- services

SERVICES: list[tuple[str, dict[str, Any], Any]] = [
    ("fs/read_text_file", {"path": "/p/a", "line": 2, "limit": 3}, {"content": "x"}),
    ("fs/write_text_file", {"path": "/p/a", "content": "x"}, None),
    ("terminal/create", {"command": "ls", "args": ["-l"]}, {"terminalId": "t"}),
    ("terminal/output", {"terminalId": "t"}, {"output": "", "truncated": False}),
    ("terminal/wait_for_exit", {"terminalId": "t"}, {"exitCode": 0}),
    ("terminal/kill", {"terminalId": "t"}, {}),
    ("terminal/release", {"terminalId": "t"}, {}),
]


@pytest.mark.parametrize(("method", "params", "result"), SERVICES)
def test_a_service_is_passed_on_and_its_result_sent(
    method: str, params: dict[str, Any], result: Any
) -> None:
    peer = opened()
    params = {"sessionId": "s1", **params}
    peer.ask(method, params)
    request = peer.only(ServiceRequested)
    assert (request.method, request.params) == (method, params)
    peer.do(peer.driver.reply(request.key, result))
    assert answered(peer)["result"] == (result or {})


@pytest.mark.parametrize(("method", "params", "result"), SERVICES)
def test_a_service_that_was_not_offered_is_refused_at_once(
    method: str, params: dict[str, Any], result: Any
) -> None:
    peer = Peer(capabilities=client_capabilities())
    peer.ask(method, {"sessionId": "s1", **params})
    assert answered(peer)["error"]["code"] == -32601
    assert peer.of(ServiceRequested) == []


def test_a_refusal_is_sent_as_an_error_with_its_data() -> None:
    peer = opened()
    peer.ask("fs/read_text_file", {"sessionId": "s1", "path": "/etc/shadow"}, "r1")
    peer.do(peer.driver.refuse(peer.only(ServiceRequested).key, -32002, "outside", {"path": "x"}))
    assert answered(peer) == {
        "jsonrpc": "2.0",
        "id": "r1",
        "error": {"code": -32002, "message": "outside", "data": {"path": "x"}},
    }


def test_a_service_wants_a_reply_and_a_question_a_decision() -> None:
    peer = opened()
    peer.ask("terminal/create", {"sessionId": "s1", "command": "ls"})
    with pytest.raises(LocalProtocolError):
        peer.driver.answer(peer.only(ServiceRequested).key, DecisionAnswer())


@pytest.mark.parametrize(
    "params", [None, [], {}, {"sessionId": "s1"}, {"sessionId": 1, "path": "x"}]
)
def test_a_request_without_what_it_needs_is_refused_at_once(params: Any) -> None:
    peer = opened()
    peer.ask("fs/read_text_file", params)
    assert answered(peer)["error"]["code"] == -32602
    assert peer.notices() == ["invalid_request"]


def test_a_wrong_optional_parameter_is_left_out() -> None:
    peer = opened()
    peer.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a", "line": "two", "limit": 3})
    assert peer.only(ServiceRequested).params == {"sessionId": "s1", "path": "/a", "limit": 3}


@pytest.mark.parametrize("method", ["craft/drainMidTurnQueue", "_vendor/ask", "terminal/zoom", ""])
def test_an_unknown_request_is_answered_at_once(method: str) -> None:
    peer = opened()
    peer.ask(method, {"a": 1}, "x")
    line = answered(peer)
    assert (line["id"], line["error"]["code"]) == ("x", -32601)
    assert peer.notices() == ["unknown_request"]


def test_an_unknown_notification_is_reported_and_a_dollar_or_a_vendor_s_own_one_ignored() -> None:
    peer = opened()
    peer.say({"method": "session/retrying", "params": {"n": 1}}, {"method": "$/progress"})
    peer.say({"method": "_auth/status_update", "params": {}})
    assert peer.notices() == ["unknown_notification"]
    assert peer.sent == []


# --- withdrawn requests


@pytest.mark.parametrize("id", [0, "a", None])
def test_a_withdrawn_question_is_answered_once_and_reported(id: Any) -> None:
    peer = opened()
    key = permission(peer, id).key
    peer.say({"method": "$/cancel_request", "params": {"requestId": id}})
    assert peer.only(RequestWithdrawn).key == key
    assert answered(peer)["result"] == {"outcome": {"outcome": "cancelled"}}
    assert peer.driver.answer(key, DecisionAnswer(option="yes")) == []


def test_a_withdrawn_service_ends_in_an_error() -> None:
    peer = opened()
    peer.ask("terminal/wait_for_exit", {"sessionId": "s1", "terminalId": "t"}, 5)
    peer.say({"method": "$/cancel_request", "params": {"requestId": 5}})
    assert answered(peer)["error"]["code"] == -32800
    assert peer.driver.reply(peer.only(ServiceRequested).key, {"exitCode": 0}) == []


@pytest.mark.parametrize("params", [{"requestId": "0"}, {"requestId": 1}, {}, None, []])
def test_a_withdrawal_of_something_else_changes_nothing(params: Any) -> None:
    peer = opened()
    key = permission(peer, 0).key
    peer.say({"method": "$/cancel_request", "params": params})
    assert peer.of(RequestWithdrawn) == []
    peer.do(peer.driver.answer(key, DecisionAnswer(option="yes")))
    assert answered(peer)["id"] == 0


def test_a_request_whose_reply_cannot_be_encoded_stays_open() -> None:
    peer = opened()
    peer.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a"})
    key = peer.only(ServiceRequested).key
    with pytest.raises(TypeError):
        peer.driver.reply(key, {"content": object()})
    peer.do(peer.driver.refuse(key, -32603, "broken"))
    assert answered(peer)["error"]["message"] == "broken"


# --- many at once


def files(peer: Peer, count: int, **params: Any) -> None:
    for id in range(count):
        peer.ask("fs/read_text_file", {"sessionId": "s1", "path": f"/{id}", **params}, id)


def passed_on(peer: Peer) -> list[ServiceRequested]:
    found = peer.of(ServiceRequested)
    peer.effects.clear()
    return found


def test_requests_for_files_are_passed_on_a_few_at_a_time_in_order() -> None:
    peer = opened()
    files(peer, 100)
    paths, at_once = [], set()
    while requests := passed_on(peer):
        at_once.add(len(requests))
        for requested in requests:
            paths.append(requested.params["path"])
            peer.do(peer.driver.reply(requested.key, {"content": ""}))
    assert paths == [f"/{number}" for number in range(100)]
    assert [line["id"] for line in peer.sent] == list(range(100))
    assert max(at_once) == 8


def test_what_waits_to_be_passed_on_may_be_withdrawn() -> None:
    peer = opened()
    files(peer, 20)
    running = passed_on(peer)
    for id in range(10, 20):
        peer.say({"method": "$/cancel_request", "params": {"requestId": id}})
    assert [line["error"]["code"] for line in peer.sent] == [-32800] * 10
    peer.sent.clear()
    passed_on(peer)
    for requested in running:
        peer.do(peer.driver.reply(requested.key, {"content": ""}))
    rest = [requested.params["path"] for requested in passed_on(peer)]
    assert rest == ["/8", "/9"]
    assert [line["id"] for line in peer.sent] == list(range(8))


def test_a_request_for_a_terminal_waits_for_no_file() -> None:
    peer = opened()
    files(peer, 100)
    passed_on(peer)
    peer.ask("terminal/kill", {"sessionId": "s1", "terminalId": "t"}, 100)
    assert [requested.method for requested in passed_on(peer)] == ["terminal/kill"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/write_text_file", {"path": "/x", "content": "x" * 100_000}),
        ("fs/read_text_file", {"path": "/" + "x" * 100_000}),
        ("terminal/create", {"command": "x", "args": ["x" * 1000] * 100}),
        ("terminal/output", {"terminalId": "x" * 100_000}),
    ],
)
def test_what_is_open_is_bounded_by_its_size(method: str, params: dict[str, Any]) -> None:
    peer = opened(line_limit=1_000_000)
    for id in range(20):
        peer.ask(method, {"sessionId": "s1", **params}, id)
    assert [line["id"] for line in peer.sent] == list(range(9, 20)), "refused"
    assert {line["error"]["message"] for line in peer.sent} == {
        "too many requests are open: wait for some answers"
    }
    peer.sent.clear()
    for _ in range(9):
        for requested in passed_on(peer):
            peer.do(peer.driver.refuse(requested.key, -1, "no"))
    peer.ask(method, {"sessionId": "s1", **params}, 20)
    assert len(passed_on(peer)) == 1, "there is room again"


def test_one_request_of_any_size_is_served() -> None:
    peer = opened(line_limit=10_000)
    peer.ask("fs/write_text_file", {"sessionId": "s1", "path": "/x", "content": "x" * 9_000})
    assert len(passed_on(peer)) == 1


def test_a_withdrawal_is_found_among_thousands_by_its_id_alone() -> None:
    peer = opened()
    for id in (1, "1", 1.5, None):
        peer.ask("terminal/output", {"sessionId": "s1", "terminalId": "t"}, id)
    keys = [requested.key for requested in passed_on(peer)]
    for id in ("1", [], {}, True, 1.5, 2, "x"):
        peer.say({"method": "$/cancel_request", "params": {"requestId": id}})
    assert [withdrawn.key for withdrawn in peer.of(RequestWithdrawn)] == [keys[1], keys[2]]
