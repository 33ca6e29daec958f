"""The outcome and the usage of a turn, and notices from messages that belong to no turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import to_builtins

from ..model.driver import TurnFinished
from ..model.events import ErrorInfo, Outcome, Usage
from ..wire import jsonrpc
from ..wire.channel import Channel
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


RATE_LIMIT_STEPS_PERCENT: Final = (100, 95, 80)
"""Percentages of a rate limit that are reported, once each."""


class CodexNotices:
    """Converts messages for people to notices."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reported: dict[str, int] = {}
        """The highest of `RATE_LIMIT_STEPS_PERCENT` that was reported for each rate limit."""
        self.table: dict[str, tuple[type[Any], Callable[[Any], None]]] = {
            "error": (wire.ErrorNotification, self._error),
            "warning": (wire.WarningNotification, self._warning),
            "configWarning": (wire.ConfigWarningNotification, self._config),
            "deprecationNotice": (wire.DeprecationNoticeNotification, self._deprecated),
            "model/rerouted": (wire.ModelReroutedNotification, self._rerouted),
            "mcpServer/startupStatus/updated": (
                wire.McpServerStatusUpdatedNotification,
                self._mcp_server,
            ),
            "account/rateLimits/updated": (
                wire.AccountRateLimitsUpdatedNotification,
                self._rate_limits,
            ),
        }

    def _error(self, message: wire.ErrorNotification) -> None:
        if message.will_retry:  # otherwise the end of the turn reports it
            error = turn_error(message.error)
            data = {"code": error.code, "details": message.error.additional_details}
            self._report_notice("warning", "api_retry", error.message, data)

    def _warning(self, message: wire.WarningNotification) -> None:
        self._report_notice("warning", "agent_warning", message.message)

    def _config(self, message: wire.ConfigWarningNotification) -> None:
        self._report_notice("info", "config_warning", message.summary, message.details)

    def _deprecated(self, message: wire.DeprecationNoticeNotification) -> None:
        self._report_notice("info", "deprecated", message.summary, message.details)

    def _rerouted(self, message: wire.ModelReroutedNotification) -> None:
        text = f"{message.to_model} answers in the place of {message.from_model}"
        self._report_notice("warning", "model_fallback", text)

    def _mcp_server(self, message: wire.McpServerStatusUpdatedNotification) -> None:
        if message.status == "failed":
            text = f"the MCP server {message.name!r} did not start: {message.error or 'no reason'}"
            self._report_notice("warning", "mcp_failed", text)

    def _rate_limits(self, message: wire.AccountRateLimitsUpdatedNotification) -> None:
        limits = message.rate_limits
        for name, window in (("primary", limits.primary), ("secondary", limits.secondary)):
            if window is None:
                continue
            key = f"{limits.limit_id} {name}"
            step = next(
                (step for step in RATE_LIMIT_STEPS_PERCENT if window.used_percent >= step), 0
            )
            if step > self._reported.get(key, 0):
                text = f"{name} rate limit: {window.used_percent}% used"
                level = "error" if step == RATE_LIMIT_STEPS_PERCENT[0] else "warning"
                self._report_notice(level, "rate_limit", text, to_builtins(limits))
            self._reported[key] = step

    def _report_notice(self, level: Any, code: str, text: str, data: Any = None) -> None:
        self._channel.notice(level, code, text, data, about=text)
