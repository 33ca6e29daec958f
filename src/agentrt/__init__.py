"""Run coding agents as trees of Trio tasks.

Every viewer of a session gets the same numbered events.

This module has the names that most programs need. The others are in modules by purpose: `agents`,
`errors`, `events`, `permissions`, `sandbox`, `tools`, `claude`, `codex`, `store`, `web`,
`unattended`, `tracing`, `telemetry`, `lowlevel`, `effects`, `jsonrpc`, `storage`, `display`,
`config`, `testing`, `aio` and `asgi`.

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
    from . import config as config
    from . import display as display
    from . import effects as effects
    from . import errors as errors
    from . import events as events
    from . import jsonrpc as jsonrpc
    from . import lowlevel as lowlevel
    from . import permissions as permissions
    from . import sandbox as sandbox
    from . import storage as storage
    from . import store as store
    from . import telemetry as telemetry
    from . import testing as testing
    from . import tools as tools
    from . import tracing as tracing
    from . import unattended as unattended
    from . import web as web
    from ._public import *  # noqa: F403 - its imports are the public names

_HOMES = {
    # conversations
    "open_session": "_core.runtime.open",
    "query": "_core.runtime.query",
    "Query": "_core.runtime.query",
    "Session": "_core.session.session",
    "SessionQueue": "_core.session.session",
    "Turn": "_core.session.turn",
    "TurnResult": "_core.model.result",
    "Prompt": "_core.model.content",
    "When": "_core.session.core",
    "SessionOptions": "_core.runtime.options",
    "Limits": "_core.limits",
    # many sessions
    "open_runtime": "_core.runtime.runtime",
    "Runtime": "_core.runtime.runtime",
    "SessionInfo": "_core.runtime.registry",
    "budget": "_core.session.budget",
    # agents
    "Agent": "_core.agents",
    "find_agents": "_core.agents",
    # tools and hooks
    "tool": "_core.tools.tools",
    "Tool": "_core.tools.tools",
    "ToolContext": "_core.tools.tools",
    "ToolError": "_core.tools.tools",
    "hook": "_core.tools.extensions",
    # permission policies
    "rules": "_core.permissions.policies",
    "allow_all": "_core.permissions.policies",
    "deny_all": "_core.permissions.policies",
    "ask": "_core.permissions.policies",
    "Policy": "_core.permissions.policies",
    "PermissionRequest": "_core.permissions.policies",
    "Allow": "_core.permissions.policies",
    "Deny": "_core.permissions.policies",
    # common events and content
    "Event": "_core.model.events",
    "TurnStarted": "_core.model.events",
    "TurnEnded": "_core.model.events",
    "ItemOpened": "_core.model.events",
    "ItemUpdated": "_core.model.events",
    "ItemClosed": "_core.model.events",
    "TextDelta": "_core.model.events",
    "ThoughtDelta": "_core.model.events",
    "ToolCall": "_core.model.events",
    "PermissionOpened": "_core.model.events",
    "Notice": "_core.model.events",
    "Image": "_core.model.content",
    # common errors
    "AgentrtError": "_core.errors",
    "AgentStartError": "_core.errors",
    "LocalProtocolError": "_core.errors",
    "Busy": "_core.errors",
    "SessionClosed": "_core.errors",
    "TurnFailed": "_core.model.result",
}
"""The names of this module, by purpose, and the modules that define them.

`_public` imports them for type checkers.
"""

__all__ = [*_HOMES]

_MODULES = (
    *("agents", "aio", "asgi", "claude", "codex", "errors", "events", "permissions", "store"),
    *("config", "display", "effects", "jsonrpc", "lowlevel", "sandbox", "telemetry", "testing"),
    *("storage", "tools", "tracing", "unattended", "web"),
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
