"""The cause of an error, independent of the agent that reports it.

Agents report a missing login, a rate limit or an unknown model by their own codes, by an HTTP
status or only by a sentence. `cause_of` evaluates them in this order: exact codes, phrases that are
more reliable than a status, the status, and other phrases.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import msgspec

from ..errors import Cause

OURS: Final = frozenset(
    {
        "timed_out",
        "agent_died",
        "agent_failed",
        "interrupted",
        "unsupported",
        "unknown_turn",
        "closed",
        "store_unavailable",
        "session_not_found",
        "version",
        "wrong_dialect",
        "structured_output_missing",
        "budget_exceeded",
    }
)
"""Codes of agentrt that describe the error completely: their messages are not evaluated."""

CODES: Final[dict[str, Cause]] = {
    # agentrt's
    "auth_required": "auth",
    "protocol": "agent_bug",
    "no_result": "agent_bug",
    "hook_blocked": "refused",
    # Claude Code's
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "quota",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "model_not_found": "model_unknown",
    "prompt_too_long": "context_too_large",
    "blocking_limit": "context_too_large",
    # Codex's
    "unauthorized": "auth",
    "usage_limit_exceeded": "quota",
    "session_budget_exceeded": "quota",
    "context_window_exceeded": "context_too_large",
    "server_overloaded": "overloaded",
    "cyber_policy": "refused",
    "misalignment_policy_violation": "refused",
}
"""The causes of exact codes."""

CONNECTIONS: Final = frozenset(
    {
        "http_connection_failed",
        "response_stream_connection_failed",
        "response_stream_disconnected",
        "response_too_many_failed_attempts",
    }
)
"""Codes that mean the network, unless a status shows that the provider answered."""

SERVERS: Final = frozenset({"server_error", "internal_server_error"})
"""Codes that mean the provider, unless the status or the message is more specific."""

SURE: Final[tuple[tuple[str, Cause], ...]] = (
    ("prompt is too long", "context_too_large"),
    ("context_length_exceeded", "context_too_large"),
    ("context window", "context_too_large"),
    ("context length", "context_too_large"),
    ("context limit", "context_too_large"),
    ("input token count", "context_too_large"),
    ("prompt token count", "context_too_large"),
    ("input is too long", "context_too_large"),
    ("request too large", "context_too_large"),
    ("credit balance", "quota"),
    ("insufficient balance", "quota"),
    ("insufficient credits", "quota"),
    ("out of credits", "quota"),
    ("monthly limit", "quota"),
    ("spending limit", "quota"),
    ("insufficient_quota", "quota"),
    ("exceeded your current quota", "quota"),
    ("usage limit", "quota"),
    ("billing", "quota"),
    ("payment required", "quota"),
    ("invalid api key", "auth"),
    ("invalid x-api-key", "auth"),
    ("api key not valid", "auth"),
    ("incorrect api key", "auth"),
    ("model_not_found", "model_unknown"),
    ("model not found", "model_unknown"),
    ("unknown model", "model_unknown"),
    ("invalid model", "model_unknown"),
    ("not a valid model", "model_unknown"),
    ("no such model", "model_unknown"),
    ("overloaded", "overloaded"),
    ("content policy", "refused"),
    ("content filter", "refused"),
    ("content_filter", "refused"),
    ("content management policy", "refused"),
    ("blocked due to safety", "refused"),
    ("usage policy", "refused"),
    ("usage policies", "refused"),
)
"""Phrases in messages that determine the cause more exactly than the accompanying status."""

STATUSES: Final[dict[int, Cause]] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "model_unknown",
    407: "network",
    408: "network",
    413: "context_too_large",
    429: "rate_limit",
    500: "overloaded",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    **dict.fromkeys(range(520, 528), "overloaded"),  # Cloudflare's, about the server behind it
    529: "overloaded",
}
"""The causes of HTTP statuses."""

WORDS: Final[tuple[tuple[str, Cause], ...]] = (
    ("rate limit", "rate_limit"),
    ("rate_limit", "rate_limit"),
    ("ratelimit", "rate_limit"),
    ("too many requests", "rate_limit"),
    ("resource_exhausted", "rate_limit"),
    ("quota", "quota"),
    ("unauthorized", "auth"),
    ("unauthenticated", "auth"),
    ("authentication", "auth"),
    ("not logged in", "auth"),
    ("must be logged in", "auth"),
    ("log in again", "auth"),
    ("sign in again", "auth"),
    ("please run /login", "auth"),
    ("token has expired", "auth"),
    ("token expired", "auth"),
    ("api key expired", "auth"),
    ("missing api key", "auth"),
    ("no api key", "auth"),
    ("permission_denied", "auth"),
    ("does not exist or you do not have access", "model_unknown"),
    ("is not found for api version", "model_unknown"),
    ("model is not supported", "model_unknown"),
    ("service unavailable", "overloaded"),
    ("currently unavailable", "overloaded"),
    ("gateway timeout", "overloaded"),
    ("at capacity", "overloaded"),
    ("internal server error", "overloaded"),
    ("bad gateway", "overloaded"),
    ("payload too large", "context_too_large"),
    ("econnrefused", "network"),
    ("econnreset", "network"),
    ("enotfound", "network"),
    ("etimedout", "network"),
    ("eai_again", "network"),
    ("ehostunreach", "network"),
    ("enetunreach", "network"),
    ("could not resolve host", "network"),
    ("dns error", "network"),
    ("name resolution", "network"),
    ("error sending request", "network"),
    ("request timed out", "network"),
    ("connection timed out", "network"),
    ("tls handshake", "network"),
    ("certificate has expired", "network"),
    ("self-signed certificate", "network"),
    ("self signed certificate", "network"),
    ("issuer certificate", "network"),
    ("broken pipe", "network"),
    ("socket hang up", "network"),
    ("socket connection", "network"),
    ("connection error", "network"),
    ("connection closed", "network"),
    ("connection refused", "network"),
    ("connection reset", "network"),
    ("disconnected", "network"),
    ("fetch failed", "network"),
    ("network error", "network"),
    ("unable to connect", "network"),
    ("stream closed", "network"),
    ("stream ended", "network"),
    ("premature close", "network"),
)
"""Phrases in messages that determine the cause if nothing else does."""

EXAMINED_CHARS: Final = 4000
"""The number of characters of a message that are evaluated."""
_NUMBER: Final = re.compile(r"(?<![0-9])[45][0-9][0-9](?![0-9])")
_BEFORE: Final = ("status", "error", "code", "http")
"""Endings of the word that precedes a number that is a status."""
_WORD: Final = re.compile("[a-z]+")
_FILLERS: Final = frozenset({"of", "is", "was"})
"""Words that may stand between that word and the number."""
_NEAR_CHARS: Final = 24
_KEYS: Final = frozenset({"status", "statuscode", "status_code", "httpstatuscode", "code"})
_MAX_DATA_DEPTH: Final = 6


def cause_of(code: str, message: str, data: Any = None) -> Cause | None:
    """Return the cause of an error from its `code`, its `message` and the status in its `data`.

    Returns None if the cause is unknown.
    """
    if code in OURS:
        return None
    if (cause := CODES.get(code)) is not None:
        return cause
    words = message[:EXAMINED_CHARS].casefold().strip()
    if words == "terminated":  # a broken stream, as reported by Node's fetch
        return "network"
    if (cause := _phrase_cause(words, SURE)) is not None:
        return cause
    status = _status_in(data, _MAX_DATA_DEPTH) or _status_in_message(words)
    if status is not None and (cause := STATUSES.get(status)) is not None:
        return cause
    if status is None and code in CONNECTIONS:
        return "network"
    return _phrase_cause(words, WORDS) or ("overloaded" if code in SERVERS else None)


def _phrase_cause(words: str, table: tuple[tuple[str, Cause], ...]) -> Cause | None:
    """Return the cause of the first phrase of a table that occurs in the message, or None."""
    return next((cause for part, cause in table if part in words), None)


def _status_in(data: Any, depth: int) -> int | None:
    """Find the HTTP status in an error's data, at any place, also in JSON that is a text there."""
    if not depth:
        return None
    data = _decoded(data)
    if isinstance(data, list):
        data = dict(enumerate(data[:_MAX_DATA_DEPTH]))
    if not isinstance(data, dict):
        return None
    named = (value for key, value in data.items() if str(key).casefold() in _KEYS)
    if (status := next(filter(None, map(_status_of, named)), None)) is not None:
        return status
    found = (_status_in(value, depth - 1) for value in list(data.values())[:64])
    return next((status for status in found if status is not None), None)


def _status_of(value: Any) -> int | None:
    """Return a value as an HTTP status if it is one, as a number or a text; else None."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value if type(value) is int and 400 <= value < 600 else None


def _decoded(data: Any) -> Any:
    """Return the value of a text that is an object in JSON; anything else unchanged."""
    if isinstance(data, str) and data.startswith("{") and len(data) <= EXAMINED_CHARS:
        with suppress(ValueError, RecursionError):
            return msgspec.json.decode(data)
    return data


def _status_in_message(words: str) -> int | None:
    """Find the HTTP status in a message."""
    for number in _NUMBER.finditer(words):
        before = words[max(0, number.start() - _NEAR_CHARS) : number.start()]
        parts = [word for word in _WORD.findall(before) if word not in _FILLERS]
        if not before.strip() or (parts and parts[-1].endswith(_BEFORE)):
            return int(number[0])
    return None
