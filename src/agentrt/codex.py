"""Codex: the options of a session with it."""

from ._core.codex.options import CodexConfig, CodexOptions

__all__ = [
    # options
    "CodexOptions",
    "CodexConfig",
]
