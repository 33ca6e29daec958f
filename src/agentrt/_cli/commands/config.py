"""`agentrt config`: the effective settings and their origins, as a file that sets them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from ..._public import Limits
from ...agents import BUILT_IN, Agent
from ...config import Config, ServeSettings, TenantTable
from ...storage import is_server, server_of
from ..options import Work
from ..printing import print_json
from ..text import escaped, one_line

SECRET: Final = "(set)"
"""Replaces a token or the value of a variable, because listings are easily passed on."""
DEFAULT: Final = "default"


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    return partial(show_config, config, as_json=options.json)


async def show_config(config: Config, *, as_json: bool) -> int:
    """Print the settings, as TOML with comments or as one JSON object; returns the exit status."""
    tables = {
        "limits": _given(Limits()) | config.limits,
        "permissions": _given(config.permissions),
        "serve": _served(config.serve),
        "terminal": _stored(_given(config.terminal)),
        "trace": _given(config.trace),
        "log": _given(config.log),
    }
    agents = {name: _agent(agent) for name, agent in config.agents.items()}
    if as_json:
        shown = {
            "files": config.files,
            "warnings": config.warnings,
            "settings": {"agent": config.agent, **tables, "agents": agents},
            "origins": config.origins,
        }
        print_json(shown)
        return 0
    for line in _toml(config, tables, agents):
        print(line)
    return 0


def _toml(config: Config, tables: dict[str, Any], agents: dict[str, Any]) -> Iterator[str]:
    """Yield the effective configuration as TOML, with the origin of each value as a comment.

    The output can be used as a configuration file.
    """
    for file in config.files:
        yield f"# read: {one_line(file, 1000)}"
    if not config.files:
        yield "# no configuration file (`agentrt config --help` shows where to put one)"
    for warning in config.warnings:
        yield f"# {one_line(warning, 1000)}"
    yield ""
    if config.agent is None:
        yield '# agent = ""  # none chosen: the first that is installed'
    else:
        yield _setting("agent", config.agent, config.origins["agent"])
    for table, settings in tables.items():
        yield f"\n[{table}]"
        for name, value in settings.items():
            origin = config.origins.get(f"{table}.{name}", DEFAULT)
            yield _setting(name, value, origin)
    for agent, settings in agents.items():
        yield f"\n[agents.{_value(agent)}]  # {one_line(config.origins[f'agents.{agent}'], 1000)}"
        for name, value in settings.items():
            yield f"{name} = {_value(value)}"


def _setting(name: str, value: Any, origin: str) -> str:
    setting = f"{name} = {_value(value)}"
    return f"{setting:<32}  # {one_line(origin, 1000)}"


def _value(value: Any) -> str:
    """Return a value as TOML; strings, numbers and lists are written as in JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_value(k)} = {_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return escaped(msgspec.json.encode("none" if value is None else value).decode())


def _served(serve: ServeSettings) -> dict[str, Any]:
    """Return the server's settings, without tokens."""
    shown = _stored(_hidden(_given(serve), "token", "viewer_token", "metrics_token"))
    if shown["tenants"]:
        tenants = {name: _changes(each, TenantTable()) for name, each in serve.tenants.items()}
        hidden = {name: _hidden(each, "token", "viewer_token") for name, each in tenants.items()}
        return {**shown, "tenants": hidden}
    return {name: value for name, value in shown.items() if name != "tenants"}


def _given(settings: Struct) -> dict[str, Any]:
    """Return the settings of a table, without those that are None, except for limits."""
    return {
        name: value
        for name, value in structs.asdict(settings).items()
        if value is not None or isinstance(settings, Limits)
    }


def _agent(agent: Agent) -> dict[str, Any]:
    """Return the differences between an agent and the built-in one, or one without settings."""
    usual = BUILT_IN.get(agent.name) or Agent(name=agent.name, command=())
    shown = {
        name: value
        for name, value in structs.asdict(agent).items()
        if value != getattr(usual, name) and name not in ("name", "alternatives", "installed_as")
    }
    for name in ("quirks", "claude"):
        if name in shown:
            shown[name] = _changes(shown[name], getattr(usual, name))
    return _hidden(shown, "env")


def _changes(settings: Struct | None, usual: Struct | None) -> dict[str, Any]:
    """Return the settings that differ from the usual ones; all others would hide these."""
    if settings is None:
        return {}
    usual = usual or type(settings)()
    return {
        name: value
        for name, value in structs.asdict(settings).items()
        if value is not None and value != getattr(usual, name)
    }


def _stored(settings: dict[str, Any]) -> dict[str, Any]:
    """Hide the password of the store; an invalid URL is hidden completely, as it may be
    anywhere.
    """
    store = settings.get("store")
    if store is not None and is_server(store):
        try:
            settings = {**settings, "store": str(server_of(store))}
        except ValueError:
            settings = {**settings, "store": SECRET}
    return settings


def _hidden(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    """Replace the values of secret settings, in place."""
    for name in names:
        value = settings.get(name)
        if value:
            settings[name] = dict.fromkeys(value, SECRET) if isinstance(value, dict) else SECRET
    return settings
