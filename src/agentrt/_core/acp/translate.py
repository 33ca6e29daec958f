"""Conversion of ACP's terms to the neutral ones: tool calls, usage, stop reasons, errors."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, to_builtins

from ..model.content import JsonObject
from ..model.driver import CommandsSet, PlanSet, ToolCalled, UsageSet
from ..model.events import Command, ErrorInfo, ItemStatus, Outcome, PlanEntry, Usage
from ..wire import jsonrpc
from .messages import (
    AUTH_REQUIRED_CODE,
    NOT_FOUND_CODE,
    REQUEST_CANCELLED_CODE,
    AcpPlanEntry,
    AcpToolCall,
    AvailableCommand,
    ToolFields,
    TurnUsage,
    UsageUpdate,
)

TOOL_STATUS: Final[dict[str, ItemStatus]] = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",  # not in version 1, but some agents send it
}

OUTCOMES: Final[dict[str, Outcome]] = {
    "end_turn": "completed",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "refused",
    "cancelled": "cancelled",
}

ERRORS: Final[dict[int, str]] = {
    AUTH_REQUIRED_CODE: "auth_required",
    NOT_FOUND_CODE: "not_found",
    REQUEST_CANCELLED_CODE: "request_cancelled",
    jsonrpc.INVALID_REQUEST: "invalid_request",
    jsonrpc.METHOD_NOT_FOUND: "unsupported",
    jsonrpc.INVALID_PARAMS: "invalid_params",
    jsonrpc.INTERNAL_ERROR: "internal",
}


def tool_called(tool: ToolFields, parent: str | None, replay: bool) -> ToolCalled:
    """Convert the announcement or the update of a tool call. An unknown status is ignored."""
    opens = isinstance(tool, AcpToolCall)
    status = TOOL_STATUS.get(tool.status or ("pending" if opens else ""), UNSET)
    return ToolCalled(
        id=tool.tool_call_id,
        opens=opens,
        name=tool_name(tool.name, tool.meta) or UNSET,
        title=tool.title if tool.title is not None else UNSET,
        kind=tool.kind if tool.kind is not None else UNSET,
        status=status,
        input=tool.raw_input if tool.raw_input is not None else UNSET,
        output=tool.raw_output if tool.raw_output is not None else UNSET,
        content=tool.content if tool.content is not None else UNSET,
        locations=UNSET if tool.locations is None else to_builtins(tool.locations),
        parent=parent,
        replay=replay,
    )


def tool_name(name: str | None, meta: JsonObject | None) -> str | None:
    """Return the program's name of a tool. The field is recent; older agents use `_meta`."""
    if name:
        return name
    if not meta:
        return None
    claude = meta.get("claudeCode")
    for holder, key in (
        (claude if isinstance(claude, dict) else {}, "toolName"),
        (meta, "toolName"),
        (meta, "tool_name"),
    ):
        if isinstance(named := holder.get(key), str):
            return named
    return None


def plan_set(entries: list[AcpPlanEntry]) -> PlanSet:
    """Convert a plan."""
    return PlanSet(
        [
            PlanEntry(entry.content, entry.status or "pending", entry.priority or "medium")
            for entry in entries
        ]
    )


def commands_set(commands: list[AvailableCommand]) -> CommandsSet:
    """Convert the slash commands."""
    return CommandsSet(
        [
            Command(each.name, each.description or "", each.input.hint if each.input else None)
            for each in commands
        ]
    )


def usage_set(update: UsageUpdate) -> UsageSet:
    """Convert the state of the context window."""
    usage = Usage(used=update.used, size=update.size)
    if update.cost is not None:
        usage.cost, usage.currency = update.cost.amount, update.cost.currency
    return UsageSet(usage)


def turn_usage(usage: TurnUsage) -> Usage:
    """Convert the usage of a turn, from the draft of ACP."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        thought_tokens=usage.thought_tokens,
        cache_read_tokens=usage.cached_read_tokens,
        cache_write_tokens=usage.cached_write_tokens,
    )


def with_usage(before: Usage | None, reported: Any) -> Usage | None:
    """Add a message's usage (Qwen's `_meta.usage`) to the usage reported before."""
    if not isinstance(reported, dict):
        return before
    return _sum([before or Usage(), _counts(reported, _QWEN)])


def quota(meta: JsonObject | None) -> Usage | None:
    """Return a turn's usage as Gemini reports it (`_meta.quota`), or None."""
    reported = meta.get("quota") if meta is not None else None
    if not isinstance(reported, dict) or not isinstance(reported.get("token_count"), dict):
        return None
    usage = _totalled(_counts(reported["token_count"], _GEMINI))
    rows = reported.get("model_usage")
    for row in rows if isinstance(rows, list) else ():
        match row:
            case {"model": str(model), "token_count": dict(counts)}:
                usage.models[model] = _totalled(_counts(counts, _GEMINI))
    return usage


_QWEN = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "thought_tokens": "thoughtTokens",
    "cache_read_tokens": "cachedReadTokens",
    "total_tokens": "totalTokens",
}
_GEMINI = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}


def _counts(reported: JsonObject, names: dict[str, str]) -> Usage:
    """Return the counts that are integers. Anything else in the agent's data is ignored."""
    usage = Usage()
    for ours, theirs in names.items():
        if type(count := reported.get(theirs)) is int:
            setattr(usage, ours, count)
    return usage


def _totalled(usage: Usage) -> Usage:
    """Set the total of a usage whose agent reports none."""
    usage.total_tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return usage


def _sum(usages: list[Usage]) -> Usage:
    """Return the sum of usages. A count that no usage has stays unknown (None)."""
    total = Usage()
    for name in _QWEN:
        known = [n for usage in usages if (n := getattr(usage, name)) is not None]
        setattr(total, name, sum(known) if known else None)
    return total


_REASONS: Final = ("details", "message", "reason", "error", "detail", "description")
"""Keys of an error's `data` under which agents put its text."""

LONGEST_REASON_CHARS: Final = 300
"""Characters of an error's `data` in a message, where it has no other text."""


def _reason(data: Any) -> str:
    """Return the text of an error's `data`, which each agent puts under a different key."""
    if isinstance(data, dict):
        named = [data[key] for key in _REASONS if data.get(key)]
        if named:
            return _reason(named[0])
    if isinstance(data, str):
        return data
    if data in (None, {}, []):
        return ""
    text = msgspec.json.encode(data).decode()
    return text if len(text) <= LONGEST_REASON_CHARS else f"{text[:LONGEST_REASON_CHARS]}…"


def error_of(error: jsonrpc.JsonRpcError) -> ErrorInfo:
    """Translate a JSON-RPC error.

    The cause is often in the error's `data` alone, so that is kept (`data = {"code", "data"}`) and
    its text is appended to the message.
    """
    data: JsonObject = {"code": error.code}
    message = error.message
    if error.data is not None:
        data["data"] = error.data
        words = _reason(error.data)
        if words and words not in message:
            message = f"{message}: {words}"
    return ErrorInfo(ERRORS.get(error.code, "agent_error"), message, data)
