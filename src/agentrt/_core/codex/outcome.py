"""The outcome and the usage of a turn, and notices from messages that belong to no turn.

Codex reports totals for the whole thread only, so the usage of a turn is the difference between the
totals at its end and at its beginning. Its token counts overlap: `inputTokens` includes the cached
ones and `outputTokens` the reasoning. The neutral `Usage` counts each input token once.

A failed turn can have an outcome that is more exact than `failed`: codex's error names a used-up
budget or a refusal by policy (`ERRORS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from ..model.driver import TaskSet, TurnFinished, UsageSet
from ..model.events import ErrorInfo, ItemStatus, LimitWindow, Outcome, Task, Usage
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
    data = {
        "info": error.codex_error_info,
        "details": error.additional_details,
        "misalignment": error.misalignment,
    }
    return ErrorInfo(code, error.message, {k: v for k, v in data.items() if v is not None} or None)


def error_of(error: JsonRpcError) -> ErrorInfo:
    """Convert codex's error for a refused request."""
    return ErrorInfo(_CODES.get(error.code, str(error.code)), error.message, error.data)


def _kind(info: Any) -> str:
    """Return the name of an error, which codex sends alone or as the only key of an object."""
    if isinstance(info, dict):
        return str(next(iter(info), ""))
    return info if isinstance(info, str) else ""


class CodexTurnUsage:
    """The usage of a turn, from codex's totals for the whole thread."""

    def __init__(self) -> None:
        """Begin without a known total, as in a new thread."""
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
    """Return the tokens since an earlier total (None: all), with each input token counted once."""

    def spent(name: str) -> int:
        """Return the difference of one count; a total that has become smaller counts as zero."""
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


GOAL: Final[dict[str, ItemStatus]] = {
    "active": "running",
    "paused": "pending",
    "blocked": "pending",
    "usageLimited": "pending",
    "budgetLimited": "failed",
    "complete": "completed",
}
HOOK: Final[dict[str, ItemStatus]] = {
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "blocked": "denied",
    "stopped": "cancelled",
}
REVIEWED: Final = {
    "approved": "approved",
    "denied": "denied",
    "timedOut": "did not decide in time about",
    "aborted": "did not decide about",
}
SECONDS_PER_MINUTE: Final = 60


class CodexNotices:
    """Converts messages about the session, its hooks, its goal and the account."""

    def __init__(self, channel: Channel) -> None:
        """Create the converter."""
        self._channel = channel
        self._reported: dict[str, int] = {}
        """The highest of `RATE_LIMIT_STEPS_PERCENT` that was reported for each rate limit."""
        self._limits: dict[str, LimitWindow] = {}
        self._goal: Task | None = None

    def _error(self, message: wire.ErrorNotification) -> None:
        """Report an error after which codex tries again; the end of the turn reports the others."""
        if message.will_retry:  # otherwise the end of the turn reports it
            error = turn_error(message.error)
            data = {"code": error.code, **(error.data or {})}
            self._report_notice("warning", "api_retry", error.message, data)

    def _warning(
        self, message: wire.WarningNotification | wire.GuardianWarningNotification
    ) -> None:
        """Report a warning of codex, or of its reviewer."""
        self._report_notice("warning", "agent_warning", message.message)

    def _config(self, message: wire.ConfigWarningNotification) -> None:
        """Report a defect in the user's configuration file, with its place."""
        data = {"details": message.details, "path": message.path, "range": message.range}
        found = to_builtins({name: each for name, each in data.items() if each is not None})
        self._report_notice("info", "config_warning", message.summary, found or None)

    def _deprecated(self, message: wire.DeprecationNoticeNotification) -> None:
        """Report a setting that codex will not support much longer."""
        self._report_notice("info", "deprecated", message.summary, message.details)

    def _rerouted(self, message: wire.ModelReroutedNotification) -> None:
        """Report that another model answers than the one that was chosen."""
        text = f"{message.to_model} answers instead of {message.from_model}: {message.reason}"
        self._report_notice("warning", "model_fallback", text)

    def _verified(self, message: wire.ModelVerificationNotification) -> None:
        """Report that the account must be verified before the model can be used."""
        text = f"the model requires a verification: {', '.join(message.verifications)}"
        self._report_notice("warning", "model_verification", text)

    def _buffered(self, message: wire.ModelSafetyBufferingUpdatedNotification) -> None:
        """Report that the answer waits for a safety check."""
        if message.show_buffering_ui:
            why = ", ".join([*message.reasons, *message.use_cases]) or "no reason given"
            text = f"{message.model} withholds its answer during a safety check: {why}"
            if message.faster_model:
                text += f"; {message.faster_model} would answer sooner"
            self._report_notice("info", "safety_check", text)

    def _recovering(self, message: wire.AuthRecoveryNotification) -> None:
        """Report that codex renews the login of a model provider."""
        self._report_notice("info", "auth", f"{message.provider}: {message.message}")

    def _mcp_server(self, message: wire.McpServerStatusUpdatedNotification) -> None:
        """Report an MCP server that did not start; other states are of no interest."""
        if message.status == "failed":
            text = f"the MCP server {message.name!r} did not start: {message.error or 'no reason'}"
            if message.failure_reason is not None:
                text += f" ({message.failure_reason})"
            self._report_notice("warning", "mcp_failed", text)

    def _mcp_login(self, message: wire.McpServerOauthLoginCompletedNotification) -> None:
        """Report the end of a login to an MCP server."""
        if message.success:
            self._report_notice("info", "auth", f"logged in to the MCP server {message.name!r}")
        else:
            why = message.error or "no reason"
            text = f"the login to the MCP server {message.name!r} failed: {why}"
            self._report_notice("warning", "mcp_failed", text)

    def _login(self, message: wire.AccountLoginCompletedNotification) -> None:
        """Report the end of a login to codex itself."""
        if message.success:
            self._report_notice("info", "auth", "logged in")
        else:
            self._report_notice(
                "error", "auth", f"the login failed: {message.error or 'no reason'}"
            )

    def _gateway(self, message: wire.GatewayOAuthChangedNotification) -> None:
        """Report a change of the login at a gateway, with the address where a user can log in."""
        level = "error" if message.error else "info"
        text = f"login at {message.provider_id}: {message.status}"
        if message.error:
            text += f", {message.error}"
        self._report_notice(level, "auth", text, message.auth_url)

    def _rate_limits(self, message: wire.AccountRateLimitsUpdatedNotification) -> None:
        """Show the rate limits, the spending limit and the credits, and warn as one is used up.

        Codex reports one limit at a time, so they are collected by the limit's id and window. A
        notice is given when a limit passes one of `RATE_LIMIT_STEPS_PERCENT`, and again after it
        was reset; at 100 % it is an error, from which the wait for rate limits takes the time of
        the reset.
        """
        limits = message.rate_limits
        known = dict(self._limits)
        for name, window in (("primary", limits.primary), ("secondary", limits.secondary)):
            if window is None:
                continue
            key = f"{limits.limit_id} {name}"
            self._limits[key] = _limit(name, window, limits)
            step = next(
                (step for step in RATE_LIMIT_STEPS_PERCENT if window.used_percent >= step), 0
            )
            if step > self._reported.get(key, 0):
                text = f"{name} rate limit: {window.used_percent}% used"
                level = "error" if step == RATE_LIMIT_STEPS_PERCENT[0] else "warning"
                self._report_notice(level, "rate_limit", text, to_builtins(limits))
            self._reported[key] = step
        spent = limits.individual_limit
        if spent is not None:
            self._limits["spending"] = LimitWindow(
                name=f"spending: {spent.used} of {spent.limit}",
                used_percent=100 - spent.remaining_percent,
                resets_at=spent.resets_at,
                reached=limits.spend_control_reached is True,
            )
        credits = limits.credits
        if credits is not None and credits.balance is not None and not credits.unlimited:
            self._limits["credits"] = LimitWindow(
                name=f"credits: {credits.balance} left", reached=not credits.has_credits
            )
        if self._limits != known:
            self._channel.out.append(UsageSet(Usage(limits=list(self._limits.values()))))

    def _goal_updated(self, message: wire.ThreadGoalUpdatedNotification) -> None:
        """Show the goal of the thread as a task, with its use of tokens and time as the report."""
        goal = message.goal
        budget = "" if goal.token_budget is None else f" of {goal.token_budget}"
        spent = f"{goal.tokens_used}{budget} tokens, {goal.time_used_seconds} s"
        status = GOAL.get(goal.status, "running")
        self._goal = Task(
            id=f"goal {message.thread_id}",
            title=goal.objective,
            kind="goal",
            status=status,
            detail=f"{goal.status}: {spent}",
        )
        self._channel.out.append(TaskSet(self._goal))

    def _goal_cleared(self, message: wire.ThreadGoalClearedNotification) -> None:
        """End the task of the goal, as cancelled unless the goal was reached."""
        if self._goal is not None and self._goal.status != "completed":
            self._channel.out.append(TaskSet(replace(self._goal, status="cancelled")))
        self._goal = None

    def _hook(self, message: wire.HookCompletedNotification) -> None:
        """Report a hook: as a task while it runs, and as a notice if it stopped something."""
        run = message.run
        said = "\n".join(entry.text for entry in run.entries)
        detail = "\n".join(filter(None, (run.status_message, said))) or None
        task = Task(
            id=run.id,
            title=f"{run.event_name} hook of {run.source_path}",
            kind="hook",
            status=HOOK.get(run.status, "running"),
            detail=detail,
        )
        self._channel.out.append(TaskSet(task))
        if run.status in ("failed", "blocked", "stopped"):
            text = f"the {run.event_name} hook {run.status}: {detail or 'no reason'}"
            self._report_notice("warning", "hook_failed", text, to_builtins(run))

    def _reviewed(self, message: wire.ItemGuardianApprovalReviewCompletedNotification) -> None:
        """Report a decision of the model that codex asks in the place of a person."""
        review = message.review
        verb = REVIEWED.get(review.status, review.status)
        text = f"codex's own reviewer {verb} {_action(message.action)}"
        if review.rationale:
            text += f": {review.rationale}"
        data = {
            "action": message.action,
            "review": to_builtins(review),
            "item": message.target_item_id,
            "source": message.decision_source,
        }
        level = "info" if review.status == "approved" else "warning"
        self._report_notice(level, "auto_review", text, data)

    def _strict(self, message: wire.StrictReviewRequiredNotification) -> None:
        """Report that codex's reviewer now judges every call."""
        text = "codex's own reviewer looks at each further call of this turn"
        self._report_notice("info", "auto_review", text)

    def _report_notice(self, level: Any, code: str, text: str, data: Any = None) -> None:
        """Report a notice; the same text again counts as a repetition."""
        self._channel.notice(level, code, text, data, about=text)

    HANDLERS: Final[Mapping[str, tuple[type[Any], Callable[..., None]]]] = {
        "error": (wire.ErrorNotification, _error),
        "warning": (wire.WarningNotification, _warning),
        "guardianWarning": (wire.GuardianWarningNotification, _warning),
        "configWarning": (wire.ConfigWarningNotification, _config),
        "deprecationNotice": (wire.DeprecationNoticeNotification, _deprecated),
        "model/rerouted": (wire.ModelReroutedNotification, _rerouted),
        "model/verification": (wire.ModelVerificationNotification, _verified),
        "model/safetyBuffering/updated": (
            wire.ModelSafetyBufferingUpdatedNotification,
            _buffered,
        ),
        "modelProvider/authRecoveryStarted": (wire.AuthRecoveryNotification, _recovering),
        "modelProvider/authRecoveryCompleted": (
            wire.AuthRecoveryNotification,
            _recovering,
        ),
        "mcpServer/startupStatus/updated": (
            wire.McpServerStatusUpdatedNotification,
            _mcp_server,
        ),
        "mcpServer/oauthLogin/completed": (
            wire.McpServerOauthLoginCompletedNotification,
            _mcp_login,
        ),
        "account/login/completed": (wire.AccountLoginCompletedNotification, _login),
        "account/gatewayOAuth/changed": (wire.GatewayOAuthChangedNotification, _gateway),
        "account/rateLimits/updated": (
            wire.AccountRateLimitsUpdatedNotification,
            _rate_limits,
        ),
        "thread/goal/updated": (wire.ThreadGoalUpdatedNotification, _goal_updated),
        "thread/goal/cleared": (wire.ThreadGoalClearedNotification, _goal_cleared),
        "hook/started": (wire.HookCompletedNotification, _hook),
        "hook/completed": (wire.HookCompletedNotification, _hook),
        "item/autoApprovalReview/completed": (
            wire.ItemGuardianApprovalReviewCompletedNotification,
            _reviewed,
        ),
        "autoApprovalReview/strictReviewRequired": (
            wire.StrictReviewRequiredNotification,
            _strict,
        ),
    }
    """The type and the method for each notification, shared by all sessions."""


def _limit(name: str, window: wire.RateLimitWindow, limits: wire.RateLimitSnapshot) -> LimitWindow:
    """Convert a window of a rate limit."""
    minutes = window.window_duration_mins
    label = limits.limit_name
    return LimitWindow(
        name=name if label is None else f"{label} {name}",
        used_percent=window.used_percent,
        resets_at=window.resets_at,
        window_s=None if minutes is None else minutes * SECONDS_PER_MINUTE,
        reached=window.used_percent >= RATE_LIMIT_STEPS_PERCENT[0],
    )


def _action(action: Any) -> str:
    """Return what a review was about, in a few words."""
    match action:
        case {"type": "command", "command": str(command)}:
            return f"`{command}`"
        case {"type": "execve", "program": str(program), "argv": list(argv)}:
            return f"`{' '.join(map(str, argv)) or program}`"
        case {"type": "applyPatch", "files": list(files)}:
            return f"the change of {', '.join(map(str, files))}"
        case {"type": "networkAccess", "target": str(target)}:
            return f"the connection to {target}"
        case {"type": "mcpToolCall", "server": str(server), "toolName": str(tool)}:
            return f"the call of {server}: {tool}"
        case {"type": str(kind)}:
            return kind
        case _:
            return "a call"
