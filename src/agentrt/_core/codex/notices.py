"""Notices from messages of codex's that belong to no turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import to_builtins

from ..wire.channel import Channel
from . import messages as wire
from .outcome import turn_error

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
