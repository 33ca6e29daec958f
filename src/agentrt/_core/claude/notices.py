"""Notices from messages of Claude's that belong to no turn. Messages without interest for a person
give none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model.content import JsonObject
from ..model.events import LimitWindow, Notice, compacted
from . import messages as wire


def of_system(m: JsonObject) -> Notice | None:
    """Return the notice of a `system` message, or None if there is nothing to say."""
    subtype = str(m.get("subtype"))
    make = _SYSTEM.get(subtype)
    return unknown(f"system message {subtype}", m) if make is None else make(m)


def of_message(m: wire.Message) -> Notice | None:
    """Return the notice of any other message, or None."""
    match m:
        case wire.RateLimit(rate_limit_info={"status": status, **info}) if status != "allowed":
            kind = info.get("rateLimitType") or "rate"
            level = "error" if status == "rejected" else "warning"
            text = f"{str(kind).replace('_', ' ')} limit: {str(status).replace('_', ' ')}"
            if (used := wire.number(info.get("utilization"))) is not None:
                text += f", {used:.0%} used"
            return Notice(level, "rate_limit", text, m.rate_limit_info)  # type: ignore[arg-type]
        case wire.AuthStatus():
            output = m.output if isinstance(m.output, list) else []
            if m.error:
                return Notice("error", "auth", str(m.error))
            text = "\n".join(map(str, output))
            return Notice("info", "auth", text) if text else None
        case wire.PromptSuggestion(suggestion=str(text)):
            return Notice("info", "prompt_suggestion", text)
        case wire.ConversationReset(trigger=trigger):
            return Notice("info", "conversation_reset", "the conversation was cleared", trigger)
        case _:
            return None


def limit_of(m: wire.RateLimit) -> LimitWindow | None:
    """Return the limit that a message is about, or None if it has no figures."""
    match m.rate_limit_info:
        case {"status": str(status), **info}:
            used, resets_at = (
                wire.number(info.get("utilization")),
                wire.number(info.get("resetsAt")),
            )
            if used is None and resets_at is None:
                return None
            return LimitWindow(
                name=str(info.get("rateLimitType") or "rate"),
                used_percent=None if used is None else round(used * 100, 1),
                resets_at=resets_at,
                reached=status == "rejected",
            )
        case _:
            return None


def unknown(kind: str, raw: object) -> Notice:
    """Return the notice of a message of an unknown type."""
    return Notice("info", "unknown_update", f"the agent sent a {kind}", raw)


def bad_line(m: wire.BadClaudeLine) -> Notice:
    """Return the notice of a line that is not a message."""
    shown = m.line.decode("utf-8", "replace")
    return Notice("warning", "bad_line", f"the agent wrote an invalid line: {m.error}", shown)


def too_long(size: int, limit: int) -> Notice:
    """Return the notice of a line that exceeds the limit. `size` and `limit` are in bytes."""
    text = f"a line of {size} bytes was skipped; the limit is {limit}"
    return Notice("error", "line_too_long", text, {"size": size})


def _api_retry(m: JsonObject) -> Notice:
    """Report a failed request to the API, which Claude repeats after a delay."""
    status, cause = m.get("error_status"), m.get("error") or "unknown"
    failure = f"{cause} ({status})" if status is not None else str(cause)
    wait = m.get("retry_delay_ms")
    later = f" in {wait / 1000:.1f} s" if isinstance(wait, int | float) else ""
    text = f"the API failed: {failure}; retry {m.get('attempt')} of {m.get('max_retries')}{later}"
    return Notice("warning", "api_retry", text, _without(m, "uuid", "session_id"))


def _status(m: JsonObject) -> Notice | None:
    """Report that the conversation is being compacted, or that this has failed."""
    if m.get("status") == "compacting":
        return Notice("info", "compacting", "the conversation is being summarised")
    if m.get("compact_result") == "failed":
        return Notice("warning", "compact_failed", str(m.get("compact_error") or "unknown cause"))
    return None


def _compacted(m: JsonObject) -> Notice:
    """Report that the conversation was compacted."""
    return compacted(m.get("compact_metadata"))


def _informational(m: JsonObject) -> Notice | None:
    """Report a message of the CLI to its user, under the CLI's tag as the code."""
    text = str(m.get("content") or "")
    level = "warning" if m.get("level") == "warning" else "info"
    code = str(m.get("tag") or "informational")
    return Notice(level, code, text) if text else None  # type: ignore[arg-type]


def _denied(m: JsonObject) -> Notice:
    """Report a call that was refused without a question, by a rule or a mode."""
    reason = m.get("message") or m.get("decision_reason") or "by a rule"
    data = _without(m, "uuid", "session_id")
    return Notice("info", "permission_denied", f"{m.get('tool_name')} was denied: {reason}", data)


def _hook_response(m: JsonObject) -> Notice | None:
    """Report a hook that failed; successful ones are of no interest."""
    if m.get("outcome") != "error":
        return None
    said = m.get("stderr") or m.get("output") or f"exit code {m.get('exit_code')}"
    return Notice("warning", "hook_failed", f"the hook {m.get('hook_name')} failed: {said}")


def _plugin(m: JsonObject) -> Notice | None:
    """Report a plugin that could not be installed."""
    if m.get("status") != "failed":
        return None
    return Notice("warning", "plugin_failed", f"{m.get('name')}: {m.get('error')}")


def _plain(level: str, code: str, field: str) -> Callable[[JsonObject], Notice | None]:
    """Return a maker of notices with one field's text."""

    def make(m: JsonObject) -> Notice | None:
        """Return the notice, or None if the field is empty."""
        text = m.get(field)
        return Notice(level, code, text) if isinstance(text, str) and text else None  # type: ignore[arg-type]

    return make


def _without(m: JsonObject, *names: str) -> JsonObject:
    """Return the fields of a message for a notice, without the type and these names."""
    return {k: v for k, v in m.items() if k not in ("type", "subtype", *names)}


_SYSTEM: dict[str, Callable[[Any], Notice | None]] = {
    "api_retry": _api_retry,
    "status": _status,
    "compact_boundary": _compacted,
    "informational": _informational,
    "notification": _plain("info", "notification", "text"),
    "permission_denied": _denied,
    "hook_response": _hook_response,
    "plugin_install": _plugin,
    "model_refusal_fallback": _plain("warning", "model_fallback", "content"),
    "model_refusal_no_fallback": _plain("warning", "refusal", "content"),
    "worker_shutting_down": _plain("warning", "shutting_down", "reason"),
    "mirror_error": _plain("warning", "mirror_error", "error"),
    "session_writes_lost": lambda m: Notice(
        "error", "session_writes_lost", "the agent could not store the conversation", _without(m)
    ),
}
