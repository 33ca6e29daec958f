"""JSON-RPC envelopes: what counts as which message, and which answer belongs to which request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import errors as _errors
from agentrt.jsonrpc import (
    INTERNAL_ERROR,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    OutstandingCalls,
    error_line,
    notification_line,
    parse,
    request_line,
    result_line,
)


@pytest.mark.parametrize("id", [0, -1, 7, 2**70, "", "a", "7", None, 1.5])
def test_a_request_keeps_its_id_as_it_came(id: Any) -> None:
    assert parse({"id": id, "method": "m", "params": {"a": 1}}) == JsonRpcRequest(id, "m", {"a": 1})


def test_an_id_that_is_too_long_to_keep_is_none() -> None:
    with pytest.raises(_errors.RemoteProtocolError, match="its id has 1001 characters"):
        parse({"id": "x" * 1001, "method": "m"})


def test_a_method_without_an_id_is_a_notification() -> None:
    assert parse({"method": "m"}) == JsonRpcNotification("m", None)


def test_a_result_is_a_response_even_if_it_is_null() -> None:
    assert parse({"id": 3, "result": None}) == JsonRpcResponse(3, None)
    assert parse({"id": 3, "result": {}, "error": None}) == JsonRpcResponse(3, {})


def test_an_error_counts_more_than_a_result_beside_it() -> None:
    error = {"code": 1, "message": "no"}
    assert parse({"id": 3, "result": {}, "error": error}) == JsonRpcResponse(
        3, error=JsonRpcError(1, "no")
    )


def test_an_error_without_an_id_is_a_response_to_nobody() -> None:
    error = {"code": -32700, "message": "what?"}
    assert parse({"error": error}) == JsonRpcResponse(None, error=JsonRpcError(-32700, "what?"))


@pytest.mark.parametrize(
    ("error", "read"),
    [
        ({"code": 5, "message": "m", "data": [1]}, JsonRpcError(5, "m", [1])),
        ("plain words", JsonRpcError(INTERNAL_ERROR, "plain words")),
        (12, JsonRpcError(INTERNAL_ERROR, "failed", 12)),
        ({"message": "m"}, JsonRpcError(INTERNAL_ERROR, "m", {"message": "m"})),
        ({"code": True}, JsonRpcError(INTERNAL_ERROR, "failed", {"code": True})),
        ({"code": 4, "detail": 1}, JsonRpcError(4, "failed", {"code": 4, "detail": 1})),
    ],
)
def test_an_error_of_any_shape_is_read_and_nothing_of_it_lost(
    error: Any, read: JsonRpcError
) -> None:
    assert parse({"id": 1, "error": error}) == JsonRpcResponse(1, error=read)


def test_an_error_that_is_null_is_still_an_answer() -> None:
    response = parse({"id": 1, "error": None})
    assert isinstance(response, JsonRpcResponse)
    assert response.error == JsonRpcError(INTERNAL_ERROR, "failed without a reason")


@pytest.mark.parametrize(
    "message",
    [
        None,
        42,
        "x",
        [],
        [{"id": 1, "result": {}}],
        {},
        {"id": 3},
        {"id": 3, "level": "info", "msg": "a log object with a matching id"},
        {"id": True, "method": "m"},
        {"id": [1], "result": {}},
        {"id": 3, "method": 4, "result": {}},
        {"result": {}},
    ],
)
def test_anything_else_is_no_message(message: Any) -> None:
    with pytest.raises(_errors.RemoteProtocolError):
        parse(message)


def test_answers_find_their_request_in_any_order() -> None:
    calls = OutstandingCalls[str]()
    first, second = calls.open("a"), calls.open("b")
    assert calls.take(second) == ("b", "")
    assert calls.take(first) == ("a", "")
    assert len(calls) == 0


@pytest.mark.parametrize("echo", ["1", 1.0])
def test_an_id_echoed_in_another_type_still_matches_and_is_reported(echo: Any) -> None:
    calls = OutstandingCalls[str]()
    calls.open("a")
    assert calls.take(echo) == ("a", "id_type")


@pytest.mark.parametrize("id", [0, -1, 2, "01x", "9" * 5000, "²", None, 1.5, float("inf")])
def test_an_id_that_was_never_given_out_is_foreign(id: Any) -> None:
    calls = OutstandingCalls[str]()
    calls.open("a")
    assert calls.take(id) == (None, "foreign")
    assert calls.take(1) == ("a", "")


def test_a_second_answer_is_a_duplicate() -> None:
    calls = OutstandingCalls[str]()
    calls.take(calls.open("a"))
    assert calls.take(1) == (None, "duplicate")


def test_an_answer_can_be_given_another_purpose_while_it_is_awaited() -> None:
    calls = OutstandingCalls[str]()
    id = calls.open("turn")
    calls.replace(id, "nobody")
    assert calls.take(id) == ("nobody", "")
    calls.replace(id, "turn")
    assert calls.take(id) == (None, "duplicate")


ids = st.none() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)


@given(ids, st.text(), st.dictionaries(st.text(), st.integers()))
def test_what_we_write_reads_back(id: Any, method: str, params: dict[str, int]) -> None:
    assert parse(json.loads(request_line(id, method, params))) == JsonRpcRequest(id, method, params)
    assert parse(json.loads(notification_line(method, params))) == JsonRpcNotification(
        method, params
    )
    assert parse(json.loads(result_line(id, params))) == JsonRpcResponse(id, params)
    error = JsonRpcError(-1, method, params)
    assert parse(json.loads(error_line(id, error))) == JsonRpcResponse(id, error=error)
