"""Checks of tool calls by agentrt's own hooks, which Claude Code calls in every mode.

A permission request comes only if Claude Code's mode and rules require one. `PreToolUse` comes
before each call, so a refusal in it also holds in `bypassPermissions`. `PostToolUse` reports the
input that a tool has run with: another hook may have changed it in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model.content import JsonObject
from ..model.driver import ASK, DENY, DecisionAnswer, DecisionRequested, ToolCheckRequested
from .messages import text
from .options import HookMatcher
from .toolkit import kind_of, title_of

BEFORE: Final = "agentrt-before"
AFTER: Final = "agentrt-after"
"""The callback ids of the two hooks."""


def with_checks(
    hooks: Mapping[str, tuple[HookMatcher, ...]],
) -> dict[str, tuple[HookMatcher, ...]]:
    """Return a session's hooks: those of the program, then agentrt's own."""
    before = HookMatcher(callbacks=(BEFORE,), on_failure="block")
    after = HookMatcher(callbacks=(AFTER,))
    return {
        **hooks,
        "PreToolUse": (*hooks.get("PreToolUse", ()), before),
        "PostToolUse": (*hooks.get("PostToolUse", ()), after),
    }


def checking(key: str, request: JsonObject, *, background: bool) -> ToolCheckRequested:
    """Return the effect of a call of one of these hooks."""
    given = request.get("input")
    fields: JsonObject = given if isinstance(given, dict) else {}
    name = text(fields.get("tool_name")) or ""
    arguments = fields.get("tool_input")
    call = request.get("tool_use_id") or fields.get("tool_use_id")
    asked = DecisionRequested(
        key=key,
        kind="permission",
        title=title_of(name, arguments),
        tool_call=call if isinstance(call, str) and not background else None,
        name=name,
        tool_kind=kind_of(name),
        input=arguments,
        raw=request,
        background=background,
    )
    return ToolCheckRequested(call=asked, ran=request.get("callback_id") == AFTER)


def check_response(request: JsonObject, answer: DecisionAnswer) -> JsonObject:
    """Return the hook's output for an answer."""
    if request.get("callback_id") == AFTER or answer.option not in (DENY, ASK):
        return {}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": answer.option,
            "permissionDecisionReason": answer.message,
        }
    }
