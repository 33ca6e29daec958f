"""Codex: the options of a session with it."""

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
