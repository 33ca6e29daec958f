"""The user's settings: configuration files, the environment and command-line options.

The commands of agentrt use them; a program can load them, too, and pass them to `open_runtime`.
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
