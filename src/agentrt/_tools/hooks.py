"""Hooks: functions that Claude Code asks at given moments of its work."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from .._claude.options import HOOK_EVENTS, HookMatcher
from .._model.content import JsonObject
from .._model.driver import Requested
from .._session.turn import Turn

_GOES_ON = frozenset({"Stop", "SubagentStop"})
"""Where "block" means that the agent must not rest yet."""

HookFunction = Callable[..., Awaitable[JsonObject | None]]


class HookContext(Struct, frozen=True):
    """What a hook may know beside its input: a second parameter gets it."""

    event: str
    tool_call: str | None
    turn: Turn | None
    """None if the agent asks outside turns."""


class Hook(Struct, frozen=True):
    """A function that is asked at `event`. Made by `hook`."""

    event: str
    function: HookFunction
    matcher: str | None = None
    timeout: float | None = None
    on_failure: Literal["block", "continue"] | None = None

    @property
    def takes_context(self) -> bool:
        return len(inspect.signature(self.function).parameters) > 1


def hook(
    event: str,
    *,
    matcher: str | None = None,
    timeout: float | None = None,
    on_failure: Literal["block", "continue"] | None = None,
) -> Callable[[HookFunction], Hook]:
    """Make a hook of an async function::

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

    It is called with the input that Claude Code describes for the event, and with a `HookContext`
    if it takes two parameters; None means "no opinion". `matcher` is a regular expression over
    tool names. `timeout`, in seconds, is Claude Code's: when it is over the hook is cancelled and,
    before a tool, the tool blocked. `on_failure="block"` makes an exception block, too.

    Raises ValueError for an event that does not exist.
    """
    if event not in HOOK_EVENTS:
        raise ValueError(f"{event!r} is no hook event; there are: {', '.join(HOOK_EVENTS)}")

    def make(function: HookFunction) -> Hook:
        return Hook(event, function, matcher, timeout, on_failure)

    return make


class HookTable:
    """The hooks of one session, by the ids that the agent calls them with."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self._hooks = {f"hook{n}": each for n, each in enumerate(hooks, 1)}

    @property
    def matchers(self) -> dict[str, tuple[HookMatcher, ...]]:
        """What the agent gets: by event, one matcher for each hook."""
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
        self, request: Requested, turn: Turn | None, stored: Callable[[], Awaitable[None]]
    ) -> Any:
        """Ask the hook that the agent means. What it raises becomes an error answer. `stored` is
        awaited before an answer that may allow something: it writes no event of its own, but what
        it was asked about is one."""
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
    """Whether a hook's answer has no opinion, or only holds the agent up."""
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
