"""The user's settings: configuration files, the environment and command-line options.

The commands of agentrt use them; a program can load them, too, and pass them to `open_runtime`.

Settings come from the user's file, a file of the project, environment variables and options, in
this order: later ones win. A project's file cannot trust its own folder or switch off a sandbox,
and the risky settings of an untrusted project are ignored. `load_config` reads all of them and
raises `ConfigError` for an unknown name or a wrong value, with the place where it is.

A `Config` is an immutable value. Its parts (`ServeSettings`, `TerminalSettings`, …) have a field
for each setting. `Config.limits` has only the fields that are set; the others keep the agent's
values.
"""

from ._core.config import (
    ColorChoice,
    ColorRole,
    Config,
    ConfigError,
    KeyAction,
    LogFormat,
    LogLevel,
    LogSettings,
    PermissionMode,
    PermissionSettings,
    ServerRole,
    ServeSettings,
    TenantTable,
    TerminalSettings,
    TraceSettings,
    UnattendedSettings,
    load_config,
)

__all__ = [
    # loading
    "load_config",
    "Config",
    "ConfigError",
    # parts of the settings
    "PermissionSettings",
    "ServeSettings",
    "TenantTable",
    "TerminalSettings",
    "TraceSettings",
    "UnattendedSettings",
    "LogSettings",
    # values
    "PermissionMode",
    "ServerRole",
    "ColorChoice",
    "ColorRole",
    "KeyAction",
    "LogLevel",
    "LogFormat",
]
