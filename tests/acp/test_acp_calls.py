"""Requests outside turns: ours to the agent, and the way out."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import EVERYTHING, Peer, opened

from agentrt.effects import CallReturned
from agentrt.errors import LocalProtocolError


def call(peer: Peer, method: str, **params: Any) -> None:
    peer.do(peer.driver.call("c1", method, params))


@pytest.mark.parametrize(
    ("method", "params", "sent", "wire"),
    [
        ("list_sessions", {}, "session/list", {}),
        (
            "list_sessions",
            {"cursor": "n", "cwd": "/p"},
            "session/list",
            {"cursor": "n", "cwd": "/p"},
        ),
        ("delete_session", {"session": "old"}, "session/delete", {"sessionId": "old"}),
        ("logout", {}, "logout", {}),
        ("session/fork", {"sessionId": "s1", "cwd": "/p"}, "session/fork", None),
        ("_vendor/thing", {"a": 1}, "_vendor/thing", {"a": 1}),
    ],
)
def test_a_call_is_sent_and_its_result_returned(
    method: str, params: dict[str, Any], sent: str, wire: dict[str, Any] | None
) -> None:
    peer = opened(capabilities=EVERYTHING)
    call(peer, method, **params)
    line = peer.last(sent)
    assert line["params"] == (params if wire is None else wire)
    peer.answer(line["id"], {"any": ["thing"]})
    assert peer.effects == [CallReturned("c1", {"any": ["thing"]})]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("list_sessions", {}),
        ("delete_session", {"session": "x"}),
        ("session/list", {}),
        ("session/fork", {}),
        ("logout", {}),
        ("set_mode", {"mode": "x"}),
        ("set_model", {"model": "x"}),
        ("set_option", {"option": "x", "value": "y"}),
        ("stop_task", {"task": "x"}),
    ],
)
def test_what_the_agent_did_not_advertise_is_answered_at_once(
    method: str, params: dict[str, Any]
) -> None:
    peer = opened()
    call(peer, method, **params)
    returned = peer.only(CallReturned)
    assert returned.error is not None
    assert returned.error.code == "unsupported"
    assert peer.methods() == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {}),
        ("session/new", {}),
        ("session/set_mode", {"modeId": "x"}),
        ("set_mode", {}),
        ("set_option", {"option": "x", "value": 3}),
    ],
)
def test_a_wrong_call_is_the_caller_s_mistake(method: str, params: dict[str, Any]) -> None:
    peer = opened(capabilities=EVERYTHING)
    with pytest.raises(LocalProtocolError):
        call(peer, method, **params)
    assert peer.methods() == []


def test_an_error_is_returned_with_its_code_and_data() -> None:
    peer = opened(capabilities=EVERYTHING)
    call(peer, "list_sessions")
    peer.fail(3, -32602, "bad cursor", ["x"])
    error = peer.only(CallReturned).error
    assert error is not None
    assert (error.code, error.data) == ("invalid_params", {"code": -32602, "data": ["x"]})


def test_deleting_what_is_gone_succeeds() -> None:
    peer = opened(capabilities=EVERYTHING)
    call(peer, "delete_session", session="old")
    peer.fail(3, -32002, "Resource not found")
    assert peer.only(CallReturned).error is None


def test_a_call_that_nobody_waits_for_is_taken_back_and_its_answer_dropped() -> None:
    peer = opened(capabilities=EVERYTHING)
    call(peer, "list_sessions")
    peer.do(peer.driver.cancel_call("c1"))
    assert peer.last("$/cancel_request")["params"] == {"requestId": 3}
    peer.answer(3, {"sessions": []})
    assert peer.of(CallReturned) == []
    assert peer.notices() == ["late_response"]
    assert peer.driver.cancel_call("c1") == []
    assert peer.driver.cancel_call("never") == []


def test_calls_are_answered_in_any_order() -> None:
    peer = opened(capabilities=EVERYTHING)
    peer.do(peer.driver.call("a", "_x/a", {}))
    peer.do(peer.driver.call("b", "_x/b", {}))
    peer.say({"id": 4, "result": "B"}, {"id": 3, "result": "A"})
    assert peer.effects == [CallReturned("b", "B"), CallReturned("a", "A")]


def test_the_session_is_closed_where_the_agent_offers_it() -> None:
    peer = opened(capabilities=EVERYTHING)
    peer.do(peer.driver.shutdown_message())
    assert peer.last("session/close")["params"] == {"sessionId": "s1"}
    peer.answer(3, None)
    assert peer.effects == []
    assert opened().driver.shutdown_message() == []


def test_the_model_in_force_may_be_set_though_the_agent_does_not_offer_it() -> None:
    models = {"currentModelId": "own", "availableModels": [{"modelId": "a", "name": "A"}]}
    peer = opened(session={"models": models})
    call(peer, "set_model", model="own")
    assert peer.methods() == ["session/set_model"]
    call(peer, "set_model", model="other")
    returned = peer.only(CallReturned)
    assert returned.error is not None
    assert returned.error.code == "unsupported"
