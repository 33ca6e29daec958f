"""Type checks for the arguments of sessions and runtimes, so that mistakes are reported early."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..limits import Limits
from ..model.content import JsonObject
from ..model.fork_point import ForkPoint
from .options import ReopenOptions, SessionOptions

if TYPE_CHECKING:
    from ..trace.trace import Trace


def check(name: str, value: object, kind: Any, right: str) -> None:
    """Raise `TypeError` unless `value` is a `kind`. `right` describes the expected value."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {right}, not {type(value).__name__}")


def check_limits(limits: Limits | None) -> None:
    """Raise `TypeError` unless this is a `Limits` or None."""
    if not isinstance(limits, Limits | None):
        raise TypeError(f"`limits` must be agentrt.Limits(…), not {type(limits).__name__}")


def check_trace(trace: Trace | str | os.PathLike[str] | None) -> None:
    """Raise `TypeError` unless this is a file name, a `Trace` or None."""
    if not isinstance(trace, str | os.PathLike | None):
        from ..trace.trace import Trace

        check("trace", trace, Trace, "a file name, or a Trace from agentrt.tracing.open_trace")


def check_store(
    name: str, store: object, right: str = "a Store from agentrt.store.open_store"
) -> None:
    """Raise `TypeError` unless this is a `Store` or None. `right` describes the expected value."""
    if store is not None:
        from ..store.store import Store

        check(name, store, Store, right)


def check_names(function: str, given: Iterable[str], options: type) -> None:
    """Raise `TypeError` unless all names of the given arguments are fields of `options`."""
    known = options.__annotations__ if options is ReopenOptions else all_options()
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{function} has no option {name!r}{meant}")


def all_options() -> tuple[str, ...]:
    """Return the names of the options of a session."""
    return (*SessionOptions.__annotations__, *ReopenOptions.__annotations__)


def check_opening(options: SessionOptions) -> None:
    """Raise `TypeError` for an option of the wrong type that describes the session itself."""
    for name in ("resume", "model", "mode"):
        check(name, options.get(name), str | None, "a string")
    check("fork", options.get("fork", False), bool, "True or False")
    check(
        "fork_at", options.get("fork_at"), ForkPoint | None, "a ForkPoint from Session.fork_point"
    )
    check("options", options.get("options"), Mapping | None, "a dict")
    check("tenant", options.get("tenant", ""), str, "a string")


def check_on_stderr(function: Callable[[bytes], None] | None) -> None:
    """Raise `TypeError` unless this is callable or None."""
    if function is not None and not callable(function):
        raise TypeError(
            f"`on_stderr` must be a function that takes bytes, not {type(function).__name__}"
        )


def checked_servers(given: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the additional MCP servers. The protocol checks each of them."""
    if isinstance(given, Mapping):
        raise TypeError("`mcp_servers` must be a list: [{'name': …, 'command': …}]")
    check("mcp_servers", given, Sequence, "a list of dicts")
    return tuple(given)


def check_env(env: Mapping[str, str] | None) -> None:
    """Raise `TypeError` or `ValueError` for an invalid environment.

    The message never shows a value, which may be a secret.
    """
    check("env", env, Mapping | None, "a mapping of names to values, such as os.environ")
    for name, value in (env or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"the name and value of a variable in `env` must be strings: {name!r}")
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"`env` has an invalid variable: {name!r}")
