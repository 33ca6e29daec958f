"""Codex: the options of a session with it.

A session with Codex is a thread of `codex app-server`. `CodexOptions` is the type of `options` in
`open_session`: the reasoning effort, a JSON schema for the answers, and any setting of
`config.toml`. The other names are for programs that read Codex's messages themselves.
"""

from ._core.codex.options import CodexConfig, CodexOptions
from ._core.codex.settings import CodexSettingsUpdate, read_settings_update

__all__ = [
    # options
    "CodexOptions",
    "CodexConfig",
    # messages of codex
    "read_settings_update",
    "CodexSettingsUpdate",
]
