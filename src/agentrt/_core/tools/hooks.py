"""Hooks: functions that Claude Code calls at certain moments of its work."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from ..claude.options import HOOK_EVENTS, HookMatcher
from ..model.content import JsonObject
from ..model.driver import ServiceRequested
from ..session.turn import Turn

_GOES_ON = frozenset({"Stop", "SubagentStop"})
"""Events for which "block" means that the agent must continue."""

HookFunction = Callable[..., Awaitable[JsonObject | None]]
"""A function that serves a hook.

It takes the hook's input, and a `HookContext` if it has a second parameter, and returns its output.
"""


class HookContext(Struct, frozen=True):
    """The context of a hook call; passed to a second parameter."""

    event: str
    """The event of the hook."""
    tool_call: str | None
    """The agent's id of the tool call, or None."""
    turn: Turn | None
    """None if the agent calls outside turns."""


class Hook(Struct, frozen=True):
    """A function that is called at `event`. Created by `hook`."""

    event: str
    """Name of the event."""
    function: HookFunction
    """The function to call."""
    matcher: str | None = None
    """Regular expression over tool names; None matches all."""
    timeout: float | None = None
    """Claude Code's time limit in seconds; None is its default."""
    on_failure: Literal["block", "continue"] | None = None
    """`"block"` makes an exception block, too."""

    @property
    def takes_context(self) -> bool:
        """True if the function takes a `HookContext`."""
        return len(inspect.signature(self.function).parameters) > 1


def hook(
    event: str,
    *,
    matcher: str | None = None,
    timeout: float | None = None,
    on_failure: Literal["block", "continue"] | None = None,
) -> Callable[[HookFunction], Hook]:
    """Make a hook from an async function::

        @agentrt.hook("PreToolUse", matcher="Bash")
        async def no_sudo(input):
            if "sudo" in input["tool_input"]["command"]:
                return {
                    "hookSpecificOutput": {
                        "hookEventName": "PreToolUse",
                        "permissionDecision": "deny",
                        "permissionDecisionReason": "not here",
                    }
                }

    The function is called with the event's input as documented by Claude Code, and with a
    `HookContext` if it takes two parameters. Return None for no decision.

    - `matcher`: a regular expression over tool names.
    - `timeout`: Claude Code's time limit in seconds. After it the hook is cancelled and, for a hook
      that runs before a tool, the tool is blocked.
    - `on_failure`: `"block"` makes an exception block, too.

    Raises `ValueError` for an unknown event.
    """
    if event not in HOOK_EVENTS:
        raise ValueError(f"{event!r} is no hook event; there are: {', '.join(HOOK_EVENTS)}")

    def make(function: HookFunction) -> Hook:
        return Hook(event, function, matcher, timeout, on_failure)

    return make


class HookTable:
    """The hooks of one session, by the ids that the agent uses."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self._hooks = {f"hook{n}": each for n, each in enumerate(hooks, 1)}

    @property
    def matchers(self) -> dict[str, tuple[HookMatcher, ...]]:
        """The registration for the agent: one matcher for each hook, by event."""
        found: dict[str, tuple[HookMatcher, ...]] = {}
        for id, each in self._hooks.items():
            matcher = HookMatcher(
                callbacks=(id,),
                matcher=each.matcher,
                timeout=each.timeout,
                on_failure=each.on_failure,
            )
            found[each.event] = (*found.get(each.event, ()), matcher)
        return found

    async def serve(
        self, request: ServiceRequested, turn: Turn | None, stored: Callable[[], Awaitable[None]]
    ) -> Any:
        """Call the requested hook and return its answer. An exception becomes an error answer.

        `stored` is awaited before an answer that may allow something: the hook writes no event of
        its own, but the action that it was asked about is an event.
        """
        params = request.params
        each = self._hooks[params["callback_id"]]
        if not each.takes_context:
            answer = await each.function(params["input"]) or {}
        else:
            context = HookContext(each.event, params.get("tool_use_id"), turn)
            answer = await each.function(params["input"], context) or {}
        if not allows_nothing(each.event, answer):
            await stored()
        return answer


def allows_nothing(event: str, answer: object) -> bool:
    """Return True if a hook's answer has no decision, or only restricts the agent."""
    match answer:
        case {"continue": False}:
            return True
        case {"decision": "block"}:
            return event not in _GOES_ON
        case {"hookSpecificOutput": {"permissionDecision": "deny" | "ask"}}:
            return True
        case {"hookSpecificOutput": {"decision": {"behavior": "deny"}}}:
            return True
    return answer == {}
