"""What is lent to an agent, checked where it is given: later it would be the agent's error."""

from __future__ import annotations

from collections.abc import Iterable

from .hooks import Hook
from .tools import Tool


def checked_tools(given: Iterable[object]) -> tuple[Tool, ...]:
    """The tools. Raises `TypeError` for what is none."""
    if isinstance(given, Tool) or callable(given):
        raise TypeError(f"tools are several: give [{_name(given)}]")
    return tuple(map(_tool, given))


def _tool(given: object) -> Tool:
    if isinstance(given, Tool):
        return given
    right = f"agentrt.tool({_name(given)})" if callable(given) else "what agentrt.tool makes"
    raise TypeError(f"a tool is {right}, not {_kind(given)}")


def checked_hooks(given: Iterable[object]) -> tuple[Hook, ...]:
    """The hooks. Raises `TypeError` for what is none."""
    if isinstance(given, Hook) or callable(given):
        raise TypeError(f"hooks are several: give [{_name(given)}]")
    return tuple(map(_hook, given))


def _hook(given: object) -> Hook:
    if isinstance(given, Hook):
        return given
    right = 'what agentrt.hook("PreToolUse") makes of a function'
    raise TypeError(f"a hook is {right}, not {_kind(given)}")


def _kind(value: object) -> str:
    return f"the function {_name(value)}" if callable(value) else type(value).__name__


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)
