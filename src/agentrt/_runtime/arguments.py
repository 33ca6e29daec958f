"""What a session is opened with, checked where it is given: later it would be the agent's error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .._errors import LocalProtocolError
from .tools import Tool

if TYPE_CHECKING:
    from .hooks import Hook


def folder(given: str | os.PathLike[str], what: str = "cwd") -> str:
    """A folder that is there, by its full name. Raises `LocalProtocolError`."""
    if not isinstance(given, str | os.PathLike):
        raise LocalProtocolError(f"{what}: a folder is a string or a path, not {_kind(given)}")
    full = os.path.abspath(given)
    if not os.path.isdir(full):
        reason = "it is a file" if os.path.exists(full) else "create it first"
        raise LocalProtocolError(f"{what}: there is no folder {full!r}: {reason}")
    return full


def folders(given: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The roots beside `cwd`; as `folder`."""
    if isinstance(given, str | bytes | os.PathLike):
        raise LocalProtocolError(f"roots are several folders: give [{given!r}]")
    return tuple(folder(each, "roots") for each in given)


def checked_tools(given: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools. Raises `TypeError` for what is none."""
    if isinstance(given, Tool) or callable(given):
        raise TypeError(f"tools are several: give [{_name(given)}]")
    tools = tuple(given)
    for each in tools:
        if not isinstance(each, Tool):
            right = f"agentrt.tool({_name(each)})" if callable(each) else "what agentrt.tool makes"
            raise TypeError(f"a tool is {right}, not {_kind(each)}")
    return tools


def checked_hooks(given: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks. Raises `TypeError` for what is none."""
    from .hooks import Hook

    if isinstance(given, Hook) or callable(given):
        raise TypeError(f"hooks are several: give [{_name(given)}]")
    hooks = tuple(given)
    for each in hooks:
        if not isinstance(each, Hook):
            right = 'what agentrt.hook("PreToolUse") makes of a function'
            raise TypeError(f"a hook is {right}, not {_kind(each)}")
    return hooks


def _kind(value: object) -> str:
    return f"the function {_name(value)}" if callable(value) else type(value).__name__


def _name(value: object) -> str:
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)
