"""The outcome and the usage of a turn."""

from __future__ import annotations

import re
from typing import Any, Final

from ..model.driver import TurnFinished
from ..model.events import ErrorInfo, Outcome, Usage
from ..wire import jsonrpc
from ..wire.jsonrpc import JsonRpcError
from . import messages as wire
from .turn import CodexTurn

OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "interrupted": "cancelled",
    "failed": "failed",
}
ERRORS: Final[dict[str, Outcome]] = {
    "sessionBudgetExceeded": "limit",
    "cyberPolicy": "refused",
    "misalignmentPolicyViolation": "refused",
}
"""Failures with their own outcome."""
_CODES: Final = {
    jsonrpc.INVALID_REQUEST: "invalid_request",
    jsonrpc.METHOD_NOT_FOUND: "unsupported",
    jsonrpc.INVALID_PARAMS: "invalid_params",
    jsonrpc.INTERNAL_ERROR: "internal",
}


def finished(turn: CodexTurn, end: wire.CodexTurnRecord, usage: Usage | None) -> TurnFinished:
    """Return the effect that ends a turn."""
    error = end.error
    kind = _kind(error.codex_error_info) if error is not None else ""
    outcome = OUTCOMES.get(end.status, "completed")
    if outcome == "failed":
        outcome = ERRORS.get(kind, "failed")
    return TurnFinished(
        turn=turn.prompt,
        outcome=outcome,
        stop_reason=end.status,
        usage=usage,
        error=None if error is None else turn_error(error),
        folded=tuple(turn.steered),
    )


def turn_error(error: wire.TurnError) -> ErrorInfo:
    """Convert the error of a turn; its code is codex's, in snake case."""
    code = _kind(error.codex_error_info)
    words = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", code)
    code = "auth_required" if words == "unauthorized" else words or "failed"
    data = {"info": error.codex_error_info, "details": error.additional_details}
    return ErrorInfo(code, error.message, {k: v for k, v in data.items() if v is not None} or None)


def error_of(error: JsonRpcError) -> ErrorInfo:
    """Convert codex's error for a refused request."""
    return ErrorInfo(_CODES.get(error.code, str(error.code)), error.message, error.data)


def _kind(info: Any) -> str:
    if isinstance(info, dict):
        return str(next(iter(info), ""))
    return info if isinstance(info, str) else ""


class CodexTurnUsage:
    """The usage of a turn, from codex's totals for the whole thread."""

    def __init__(self) -> None:
        self._total: wire.TokenUsageBreakdown | None = None
        self._before: wire.TokenUsageBreakdown | None = None
        self._seen = False

    def begin(self) -> None:
        """Note that a turn begins."""
        self._before, self._seen = self._total, False

    def reported(self, usage: wire.ThreadTokenUsage) -> None:
        """Take the thread's usage."""
        self._total, self._seen = usage.total, True

    def turn(self) -> Usage | None:
        """Return the usage of the turn, or None if none was reported."""
        if self._total is None or not self._seen:
            return None
        return _usage(self._total, self._before)


def session_usage(usage: wire.ThreadTokenUsage) -> Usage:
    """Convert the usage of the thread, with the fill of its context window."""
    found = _usage(usage.total, None)
    found.used, found.size = usage.last.total_tokens, usage.model_context_window
    return found


def _usage(total: wire.TokenUsageBreakdown, before: wire.TokenUsageBreakdown | None) -> Usage:
    def spent(name: str) -> int:
        earlier = getattr(before, name) if before is not None else 0
        return max(0, (getattr(total, name) or 0) - (earlier or 0))

    read, written = spent("cached_input_tokens"), spent("cache_write_input_tokens")
    return Usage(
        input_tokens=max(0, spent("input_tokens") - read - written),
        output_tokens=spent("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        thought_tokens=spent("reasoning_output_tokens"),
        total_tokens=spent("total_tokens"),
    )
