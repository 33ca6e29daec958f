"""agentrt runs an agent's conversation as a tree of Trio tasks and gives every viewer the same
numbered event log.

This module has the names that most programs need. The others are in modules by purpose: `agents`,
`errors`, `events`, `permissions`, `tools`, `claude`, `codex`, `store`, `web`, `tracing`,
`telemetry`, `lowlevel`, `testing`, `aio` and `asgi`.

Importing this package is cheap: each name, and each of these modules, is imported on first use.
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from ._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from . import agents as agents
    from . import aio as aio
    from . import asgi as asgi
    from . import claude as claude
    from . import codex as codex
    from . import errors as errors
    from . import events as events
    from . import lowlevel as lowlevel
    from . import permissions as permissions
    from . import store as store
    from . import telemetry as telemetry
    from . import testing as testing
    from . import tools as tools
    from . import tracing as tracing
    from . import web as web
    from ._public import *  # noqa: F403 - its imports are the public names

_HOMES = {
    # conversations
    "open_session": "_runtime.open",
    "query": "_runtime.query",
    "Query": "_runtime.query",
    "Session": "_session.session",
    "SessionQueue": "_session.queue",
    "Turn": "_session.turn",
    "TurnResult": "_model.result",
    "Prompt": "_model.content",
    "When": "_session.core",
    "SessionOptions": "_runtime.options",
    "Limits": "_limits",
    # many sessions
    "open_runtime": "_runtime.runtime",
    "Runtime": "_runtime.runtime",
    "SessionInfo": "_runtime.register",
    # agents
    "Agent": "_agents",
    "find_agents": "_agents",
    # tools and hooks
    "tool": "_tools.tools",
    "Tool": "_tools.tools",
    "ToolContext": "_tools.tools",
    "ToolError": "_tools.tools",
    "hook": "_tools.hooks",
    # permission policies
    "rules": "_permissions.policies",
    "allow_all": "_permissions.policies",
    "deny_all": "_permissions.policies",
    "ask": "_permissions.policies",
    "Policy": "_permissions.policies",
    "PermissionRequest": "_permissions.policies",
    "Allow": "_permissions.policies",
    "Deny": "_permissions.policies",
    # common events and content
    "Event": "_model.events",
    "TurnStarted": "_model.events",
    "TurnEnded": "_model.events",
    "ItemOpened": "_model.events",
    "ItemUpdated": "_model.events",
    "ItemClosed": "_model.events",
    "TextDelta": "_model.events",
    "ThoughtDelta": "_model.events",
    "ToolCall": "_model.events",
    "PermissionOpened": "_model.events",
    "Notice": "_model.events",
    "Image": "_model.content",
    # common errors
    "AgentrtError": "_errors",
    "AgentStartError": "_errors",
    "LocalProtocolError": "_errors",
    "Busy": "_errors",
    "SessionClosed": "_errors",
    "TurnFailed": "_model.result",
}
"""The names of this module, by purpose, and the modules that define them.

`_public` imports them for type checkers.
"""

__all__ = [*_HOMES]

_MODULES = (
    *("agents", "aio", "asgi", "claude", "codex", "errors", "events", "permissions", "store"),
    *("lowlevel", "telemetry", "testing", "tools", "tracing", "web"),
)
"""The public modules."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        # Passing the module lets a traceback suggest a name.
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])
    module = _importlib.import_module(f".{_HOMES[name]}", __name__)
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
