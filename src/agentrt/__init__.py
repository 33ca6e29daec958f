"""Run coding agents as trees of Trio tasks.

Every viewer of a session gets the same numbered events.

This module has the names that most programs need. The others are in modules by purpose: `agents`,
`errors`, `events`, `permissions`, `sandbox`, `tools`, `claude`, `codex`, `store`, `web`,
`unattended`, `trust`, `tracing`, `telemetry`, `lowlevel`, `effects`, `jsonrpc`, `process`,
`storage`, `hosting`, `display`, `config`, `testing`, `aio` and `asgi`.

Importing this package is cheap: each name, and each of these modules, is imported on first use.

A session is one conversation with one agent process, and a block::

    async with agentrt.open_session("demo", cwd=".") as session:
        async with session.prompt("list the files") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    print(event.text, end="")

Leaving the turn's block waits for the end of the turn, and leaving the session's block ends the
agent with everything that it started, in bounded time. Cancelling works as everywhere in Trio.
`open_runtime` is for many sessions in one program, and `agentrt.web.serve` shows them in browsers.
In an asyncio program, use `agentrt.aio` instead.
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from . import _public
from ._homes import HOMES as _HOMES
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
    from . import hosting as hosting
    from . import jsonrpc as jsonrpc
    from . import lowlevel as lowlevel
    from . import permissions as permissions
    from . import process as process
    from . import sandbox as sandbox
    from . import storage as storage
    from . import store as store
    from . import telemetry as telemetry
    from . import testing as testing
    from . import tools as tools
    from . import tracing as tracing
    from . import trust as trust
    from . import unattended as unattended
    from . import web as web
    from ._public import *  # noqa: F403 - its imports are the public names

if not _typing.TYPE_CHECKING:  # mypy would take a list that is not literal for an empty one
    __all__ = [*_HOMES]

_MODULES = (
    *("agents", "aio", "asgi", "claude", "codex", "errors", "events", "permissions", "store"),
    *("config", "display", "effects", "jsonrpc", "lowlevel", "sandbox", "telemetry", "testing"),
    *("hosting", "process", "storage", "tools", "tracing", "trust", "unattended", "web"),
)
"""The public modules."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        # Passing the module lets a traceback suggest a name.
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])
    value = globals()[name] = getattr(_public, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
