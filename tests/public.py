"""The public modules and their names, for tests that hold for all of them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import agentrt

NAMES = [
    "agents",
    "errors",
    "events",
    "permissions",
    "sandbox",
    "tools",
    "claude",
    "codex",
    "store",
    "web",
    "unattended",
    "tracing",
    "telemetry",
    "lowlevel",
    "effects",
    "jsonrpc",
    "storage",
    "hosting",
    "process",
    "trust",
    "display",
    "config",
]
MODULES: dict[str, ModuleType] = {name: import_module(f"agentrt.{name}") for name in NAMES}
"""The public modules next to `agentrt` itself, without those that have names of their own kind:
`testing`, `aio` and `asgi`."""

HOMES: dict[str, str] = {name: home for home, module in MODULES.items() for name in module.__all__}
"""The module of each name that is in one of `MODULES`."""

PUBLIC: dict[str, object] = {
    name: getattr(module, name)
    for module in (agentrt, *MODULES.values())
    for name in module.__all__
}
"""Every public name for Trio programs."""
