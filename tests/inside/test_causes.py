"""One cause for one failure, whichever agent reports it and however it says so.

The function gets the error texts of all agents and clouds, most of which cannot be provoked.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.model.causes import CODES, CONNECTIONS, OURS, cause_of
from agentrt.events import Cause, ErrorInfo

RECORDED: list[tuple[Cause | None, str, str, Any]] = [
    # Claude Code
    (None, "unknown", "API Error: 400 scripted 400", {"status": 400}),
    ("auth", "authentication_failed", "Failed to authenticate. API Error: 401", {"status": 401}),
    ("model_unknown", "model_not_found", "There's an issue with the model", {"status": 404}),
    ("context_too_large", "invalid_request", "Request too large (max 32MB)", {"status": 413}),
    ("rate_limit", "rate_limit", "API Error: Request rejected (429)", {"status": 429}),
    ("overloaded", "server_error", "API Error: 500 scripted 500.", {"status": 500}),
    ("network", "server_error", "API Error: Connection dropped (ECONNRESET).", None),
    ("quota", "invalid_request", "Your credit balance is too low", {"status": 400}),
    ("context_too_large", "invalid_request", "Prompt is too long", {"status": 400}),
    # Codex
    (None, "other", '{"error": {"message": "scripted 400", "code": 400}}', {"info": "other"}),
    ("auth", "http_connection_failed", "unexpected status 401 Unauthorized", None),
    (
        "model_unknown",
        "http_connection_failed",
        "unexpected status 404 Not Found",
        {"info": {"httpConnectionFailed": {"httpStatusCode": 404}}},
    ),
    (
        "rate_limit",
        "response_too_many_failed_attempts",
        "exceeded retry limit",
        {"info": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}},
    ),
    ("network", "http_connection_failed", "error sending request", None),
    ("network", "other", "stream disconnected before completion: network error", None),
    ("overloaded", "internal_server_error", "We're experiencing high demand", None),
    # ACP agents: a JSON-RPC error, and the rest in its data
    ("auth", "auth_required", "Authentication required", {"code": -32000}),
    ("rate_limit", "agent_error", "Too many", {"code": 429, "data": {"status": "X"}}),
    ("quota", "agent_error", "You exceeded your current quota (429)", {"code": -32603}),
    ("auth", "agent_error", "API key not valid", {"code": 400}),
    ("network", "agent_error", "Internal error: fetch failed", {"code": -32603}),
    ("network", "agent_error", "terminated", {"code": 500}),
    (None, "agent_error", "Internal error", {"code": -32603}),
    # agentrt itself
    (None, "agent_died", "the agent exited: HTTP status 401 rate limit", None),
    (None, "timed_out", "the turn reached its hard limit of 500 s", {"limit": "hard"}),
    ("agent_bug", "no_result", "the agent went idle without a result", None),
]


@pytest.mark.parametrize(("cause", "code", "message", "data"), RECORDED)
def test_what_agents_report_has_a_cause(
    cause: Cause | None, code: str, message: str, data: Any
) -> None:
    assert ErrorInfo(code, message, data).cause == cause


@pytest.mark.parametrize("message", ["line 401 of the file", "took 429 ms", "1500 errors", "4010"])
def test_a_number_in_a_message_is_no_status(message: str) -> None:
    assert cause_of("agent_error", message) is None


def test_no_code_has_two_meanings() -> None:
    assert not OURS & set(CODES)
    assert not CONNECTIONS & set(CODES)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)


@given(st.text(), st.text(), json_values)
def test_an_error_of_any_shape_has_one_cause_that_json_keeps(
    code: str, message: str, data: Any
) -> None:
    error = ErrorInfo(code, message, data)
    assert error.cause == cause_of(code, message, data)
    read = msgspec.json.decode(msgspec.json.encode(error), type=ErrorInfo)
    assert read.cause == error.cause


def test_data_that_refers_to_itself_ends() -> None:
    data: dict[str, Any] = {}
    data["more"] = [data]
    assert cause_of("agent_error", "x", data) is None
