"""Codex: the options of a session with it."""

from ._codex.options import CodexConfig, CodexOptions

__all__ = [
    # options
    "CodexOptions",
    "CodexConfig",
]
