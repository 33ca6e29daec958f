"""The outcome of a turn, from its `result`.

`subtype` alone is not enough: an API error is a `success`, an interrupt is an error. The outcome
follows from `terminal_reason` together with `is_error`, and from the presence of a structured
answer.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..model.events import ErrorInfo, Outcome, Usage
from .messages import Result, number, text, texts, whole_number
from .speech import ApiError

ABORTED = frozenset({"aborted_streaming", "aborted_tools"})
LIMITS = frozenset({"max_turns", "budget_exhausted"})
LIMIT_SUBTYPES = frozenset({"error_max_turns", "error_max_budget_usd"})
STOPS: dict[str | None, Outcome] = {"refusal": "refused", "max_tokens": "limit"}
"""Outcomes of results without an error, by the model's stop reason."""
DIAGNOSTIC = "[ede_diagnostic]"
"""Prefix of texts that the CLI writes for its own developers."""


class ResultVerdict(Struct):
    """The end of a turn, with neutral names."""

    outcome: Outcome
    stop_reason: str | None = None
    error: ErrorInfo | None = None
    structured_output: Any = None


def judge(
    result: Result,
    *,
    interrupted: bool = False,
    structured: bool = False,
    api_error: ApiError | None = None,
    blocked: str | None = None,
) -> ResultVerdict:
    """Return the outcome of a result's turn.

    `interrupted`: an interrupt was sent. `structured`: a structured answer was requested.
    `blocked`: the message of a hook that stopped the prompt.
    """
    reason, stop = text(result.terminal_reason), text(result.stop_reason)
    subtype = text(result.subtype)
    said = stop if reason in (None, "completed") else reason
    if reason in ABORTED or (reason is None and interrupted and result.is_error):
        return ResultVerdict("cancelled", said)
    if reason in LIMITS or subtype in LIMIT_SUBTYPES:
        return ResultVerdict("limit", said or subtype)
    if result.is_error:
        return ResultVerdict("failed", said, _error(result, reason, api_error))
    if stop in STOPS:
        return ResultVerdict(STOPS[stop], stop)
    if blocked is not None and result.num_turns == 0:
        return ResultVerdict("refused", "hook_blocked", ErrorInfo("hook_blocked", blocked))
    if structured and _lacks_structured_output(result):
        missing = "the agent ended its turn without the requested structured output"
        return ResultVerdict("failed", said, ErrorInfo("structured_output_missing", missing))
    return ResultVerdict("completed", said, structured_output=result.structured_output)


def _lacks_structured_output(result: Result) -> bool:
    """Return True if a requested structured answer is missing; a turn without steps owes none."""
    return result.structured_output is None and result.num_turns != 0


def _error(result: Result, reason: str | None, api_error: ApiError | None) -> ErrorInfo:
    """Return the error that the CLI reported, without its internal diagnostics."""
    said = [e for e in texts(result.errors) if not e.startswith(DIAGNOSTIC)]
    if not said:
        said = texts([result.result])
    if not said and api_error is not None:
        said = [api_error.message]
    code = reason or (text(result.subtype) if result.subtype != "success" else None) or "failed"
    data: dict[str, Any] = {"reason": reason} if reason is not None else {}
    status = result.api_error_status
    if api_error is not None:
        code = api_error.code
        status = status if status is not None else api_error.status
    if status is not None:
        data["status"] = status
    return ErrorInfo(code, "\n".join(said) or f"the turn ended with {code}", data or None)


def turn_usage(result: Result, total_cost: float | None, cost_before: float | None) -> Usage | None:
    """Return the usage of a turn with all its sub-agents.

    Older CLIs report only the main conversation's tokens, and the cost of the whole session.
    `cost_before` is the session's cost at the previous result, None if unknown.
    """
    usage = _turn_tokens(result, total_cost, cost_before)
    if usage is not None:
        usage.steps = whole_number(result.num_turns)
        usage.api_s = _seconds(result.duration_api_ms)
        usage.first_token_s = _seconds(result.ttft_ms)
    return usage


def _seconds(milliseconds: Any) -> float | None:
    """Convert milliseconds to seconds; None if there is no number."""
    found = number(milliseconds)
    return None if found is None else found / 1000


def _turn_tokens(result: Result, total: float | None, cost_before: float | None) -> Usage | None:
    """Return the tokens and the cost of a turn.

    Newer CLIs report the usage since the last result by model. Older ones report the main
    conversation's tokens, and the cost only as a difference of session totals, which is unknown
    after a resume.
    """
    since = result.model_usage_since_last_result
    if isinstance(since, dict):
        return _total(since) if since else None
    usage = result.usage
    cost: float | None = None
    if total is not None and cost_before is not None and total >= cost_before:
        cost = total - cost_before
    if not isinstance(usage, dict):
        return Usage(cost=cost, currency="USD") if cost is not None else None
    return _usage(
        whole_number(usage.get("input_tokens")),
        whole_number(usage.get("output_tokens")),
        whole_number(usage.get("cache_read_input_tokens")),
        whole_number(usage.get("cache_creation_input_tokens")),
        cost,
    )


def session_usage(
    result: Result, total_cost: float | None, context: dict[str, int], model: str | None
) -> Usage:
    """Return the session's usage so far with all its sub-agents, and the fill of the context
    window.

    `context`: the API's counts of the main agent's last message.
    """
    usage = _total(result.modelUsage)
    usage.cost = total_cost
    usage.currency = "USD" if total_cost is not None else None
    if usage.models:
        sizes = {name: m.size for name, m in usage.models.items() if m.size}
        usage.size = sizes.get(model or "") or max(sizes.values(), default=None)
    usage.used = sum(context.values()) or None
    return usage


def _total(usage: Any) -> Usage:
    """Return the usage of all models: the sum, and each by its name."""
    if not isinstance(usage, dict) or not usage:
        return Usage()
    models = {str(name): _of_model(row) for name, row in usage.items() if isinstance(row, dict)}
    if not models:
        return Usage()

    def total(name: str) -> int:
        """Return the sum of one count over all models."""
        return sum(getattr(m, name) or 0 for m in models.values())

    costs = [m.cost for m in models.values() if m.cost is not None]
    summed = _usage(
        total("input_tokens"),
        total("output_tokens"),
        total("cache_read_tokens"),
        total("cache_write_tokens"),
        sum(costs) if costs else None,
    )
    summed.models = models
    return summed


def _of_model(row: dict[str, Any]) -> Usage:
    """Convert the usage of one model, with the size of its context window."""
    usage = _usage(
        whole_number(row.get("inputTokens")),
        whole_number(row.get("outputTokens")),
        whole_number(row.get("cacheReadInputTokens")),
        whole_number(row.get("cacheCreationInputTokens")),
        number(row.get("costUSD")),
    )
    usage.size = whole_number(row.get("contextWindow"))
    return usage


def _usage(
    fresh: int | None, output: int | None, read: int | None, write: int | None, cost: float | None
) -> Usage:
    """Make a usage; its total includes cached tokens, and is unknown if every count is."""
    known = not (fresh is output is read is write is None)
    return Usage(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        total_tokens=(fresh or 0) + (output or 0) + (read or 0) + (write or 0) if known else None,
        cost=cost,
        currency="USD" if cost is not None else None,
    )


def total_cost(result: Result) -> float | None:
    """Return the session's cost so far, in USD."""
    return number(result.total_cost_usd)
