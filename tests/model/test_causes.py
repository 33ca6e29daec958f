"""One cause for one failure, whichever agent reports it and however it says so."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.events import Cause, ErrorInfo


def cause_of(code: str, message: str, data: Any = None) -> Cause | None:
    return ErrorInfo(code, message, data).cause


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
    assert cause_of(code, message, data) == cause


SAYINGS: dict[Cause, list[str]] = {
    "overloaded": [
        "UNAVAILABLE: The service is currently unavailable.",
        "Gateway timeout",
        "The selected model is at capacity",
    ],
    "network": [
        "Could not resolve host: api.example.com",
        "error sending request for url (https://api.example.com/v1/responses)",
        "certificate has expired",
        "self-signed certificate in certificate chain",
        "unable to get local issuer certificate",
        "Request timed out.",
        "connect EHOSTUNREACH 192.0.2.1:443",
        "dns error: failed to lookup address information",
        "tls handshake eof",
    ],
    "auth": [
        "Your refresh token has expired. Please log out and sign in again.",
        "API key expired. Please renew the API key.",
        "Missing API key",
        "No API key found for provider example",
        "You must be logged in",
        "token expired or incorrect",
    ],
    "quota": [
        "You've reached your monthly limit",
        "Insufficient balance",
        "Insufficient credits. Add more on the website",
        "You have run out of credits",
        "spending limit reached",
    ],
    "context_too_large": [
        "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000",
        "Request too large for m-5: Limit 30000, Requested 50000",
        "Input is too long for requested model",
        "prompt token count of 130000 exceeds the limit of 128000",
        "This model's maximum context length is 128000 tokens",
    ],
    "model_unknown": [
        "The model `m-9` does not exist or you do not have access to it.",
        "models/m-9 is not found for API version v1beta",
        "The requested model is not supported.",
    ],
    "refused": [
        "Output blocked by content filtering policy",
        "filtered due to the prompt triggering the content management policy",
        "Candidate was blocked due to SAFETY",
        "flagged as potentially violating our usage policy",
    ],
}
"""What providers say, as agents pass it on."""


@pytest.mark.parametrize("cause", SAYINGS)
@pytest.mark.parametrize("data", [None, {"code": -32603}, {"error": {"code": 400}}])
def test_what_providers_say_has_a_cause(cause: Cause, data: Any) -> None:
    found = {words: cause_of("agent_error", words, data) for words in SAYINGS[cause]}
    assert found == dict.fromkeys(found, cause)


@pytest.mark.parametrize(
    "data",
    [
        {"statusCode": 429},
        {"statusCode": "429"},
        {"error": {"code": "429"}},
        {"code": 10**5000, "error": {"code": 429}},
        {"details": '{"error": {"code": 429}}'},
        {"details": ['{"error": "{\\"status\\": 429}"}']},
    ],
)
def test_a_status_is_found_as_a_number_a_text_and_in_json_that_is_a_text(data: Any) -> None:
    assert cause_of("agent_error", "it failed", data) == "rate_limit"


@pytest.mark.parametrize("nested", ['{"a":' * 600, '{"\ud800', "{bad", "{" + "x" * 10_000])
def test_a_text_that_is_no_json_has_no_status(nested: str) -> None:
    assert cause_of("agent_error", "it failed", {"details": nested}) is None


@pytest.mark.parametrize(
    "message",
    [
        "429 status code (no body)",
        "HTTP/1.1 429",
        "last status: 429",
        "Request failed with status code 429",
        "the server responded with a status of 429",
        '{"error":{"code":429}}',
        "API Error (429 x)",
    ],
)
def test_a_status_in_a_message_is_found(message: str) -> None:
    assert cause_of("agent_error", message) == "rate_limit"
    assert cause_of("agent_error", message.replace("429", "522")) == "overloaded"


@pytest.mark.parametrize(
    "message",
    [
        *("line 401 of the file", "took 429 ms", "1500 errors", "4010"),
        *("error in line 429", "Tool failed: exit code 1, error at a.py:500"),
    ],
)
def test_a_number_in_a_message_is_no_status(message: str) -> None:
    assert cause_of("agent_error", message) is None


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
    assert error.cause is None or error.cause in get_args(Cause)
    read = msgspec.json.decode(msgspec.json.encode(error), type=ErrorInfo)
    assert read.cause == error.cause


def test_data_that_refers_to_itself_ends() -> None:
    data: dict[str, Any] = {}
    data["more"] = [data]
    assert cause_of("agent_error", "x", data) is None
