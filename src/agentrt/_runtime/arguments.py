"""What sessions and runtimes are opened with, as far as its kind says whether it can be meant: what
is wrong would else be found by whatever comes first upon it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._limits import Limits
from .._model.content import JsonObject
from .._model.fork_point import ForkPoint

if TYPE_CHECKING:
    from .._trace.trace import Trace


def check(name: str, value: object, kind: Any, right: str) -> None:
    """`right`: what it is to be, in words. Raises `TypeError`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: {right}, not {type(value).__name__}")


def check_limits(limits: Limits | None) -> None:
    if not isinstance(limits, Limits | None):
        raise TypeError(f"limits are agentrt.Limits(…), not {type(limits).__name__}")


def check_trace(trace: Trace | str | os.PathLike[str] | None) -> None:
    if not isinstance(trace, str | os.PathLike | None):
        from .._trace.trace import Trace

        check("trace", trace, Trace, "the name of a file, or what agentrt.open_trace gives")


def check_store(name: str, store: object, right: str = "what agentrt.open_store gives") -> None:
    if store is not None:
        from .._journal.store import Store

        check(name, store, Store, right)


def check_opening(
    *,
    fork: bool,
    fork_at: ForkPoint | None,
    options: JsonObject | None,
    tenant: str,
    **ids: str | None,
) -> None:
    for name, id in ids.items():
        check(name, id, str | None, "an id of the agent's is a string")
    check("fork", fork, bool, "True or False")
    check("fork_at", fork_at, ForkPoint | None, "what Session.fork_point gives")
    check("options", options, Mapping | None, "a dict")
    check("tenant", tenant, str, "a name")


def check_on_stderr(function: Callable[[bytes], None] | None) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"on_stderr: a function of bytes, not {type(function).__name__}")


def checked_servers(given: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """The further MCP servers; what each of them is, its protocol checks."""
    if isinstance(given, Mapping):
        raise TypeError("mcp_servers are several: give [{'name': …, 'command': …}]")
    check("mcp_servers", given, Sequence, "a list of dicts")
    return tuple(given)


def check_env(env: Mapping[str, str] | None) -> None:
    """Also raises `ValueError`. A value is not shown: it may be a secret."""
    check("env", env, Mapping | None, "a mapping of names to values, such as os.environ")
    for name, value in (env or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"env: a variable's name and value are strings: {name!r}")
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"env: there can be no such variable: {name!r}")
