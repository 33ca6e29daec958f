"""Checks of the tools, hooks and extensions of a program, so that errors appear at the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from .extensions import Extension
from .hooks import Hook
from .tools import OWN_NAME, Provided, Tool, as_provided_server, split

T = TypeVar("T")


def checked_tools(given: Iterable[object]) -> tuple[Tool, ...]:
    """Return the tools. Raises `TypeError` for anything else."""

    def right(value: object) -> str:
        if as_provided_server(value) is not None:
            return "must be a function; pass servers when you open the session"
        return (
            f"must be made with agentrt.tool({_name(value)})"
            if callable(value)
            else "must be an agentrt.Tool"
        )

    return _checked(Tool, "tool", given, right)


def checked_tools_and_servers(given: object) -> tuple[Provided, ...]:
    """Return the tools and servers of the package `mcp`; a single server is also accepted.

    Raises `TypeError` for anything else, `ValueError` for two servers with the same name.
    """
    single = as_provided_server(given)
    if single is not None:
        return (single,)
    if isinstance(given, Tool) or callable(given) or not isinstance(given, Iterable):
        return checked_tools(given)  # type: ignore[arg-type]
    provided = [as_provided_server(value) or checked_tools([value])[0] for value in given]
    tools, servers = split(provided)
    names = [OWN_NAME] if tools else []
    for server in servers:
        if server.name in names:
            raise ValueError(f"two MCP servers are called {server.name!r}")
        names.append(server.name)
    return tuple(provided)


def checked_hooks(given: Iterable[object]) -> tuple[Hook, ...]:
    """Return the hooks. Raises `TypeError` for anything else."""
    made = 'must be made with @agentrt.hook("PreToolUse")'
    return _checked(Hook, "hook", given, lambda value: made)


def checked_extensions(given: Iterable[object]) -> tuple[Extension, ...]:
    """Return the extensions. Raises `TypeError` for anything else."""
    made = 'must be made with @agentrt.tools.extension("_method")'
    return _checked(Extension, "extension", given, lambda value: made)


def _checked(
    kind: type[T], word: str, given: Iterable[object], right: Callable[[object], str]
) -> tuple[T, ...]:
    if isinstance(given, kind) or callable(given):
        raise TypeError(f"`{word}s` must be a list: [{_name(given)}]")
    if not isinstance(given, Iterable):
        raise TypeError(f"`{word}s` must be a list, not {_kind(given)}")
    checked = []
    for value in given:
        if not isinstance(value, kind):
            article = "an" if word[0] in "aeiou" else "a"
            raise TypeError(f"{article} {word} {right(value)}, not {_kind(value)}")
        checked.append(value)
    return tuple(checked)


def _kind(value: object) -> str:
    return f"the function {_name(value)}" if callable(value) else type(value).__name__


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)
