"""Claude Code: its options, its control requests and its stored sessions.

`agentrt.agents.claude` returns the agent itself.
"""

from ._core.claude.options import ClaudeOptions, HookMatcher
from ._core.claude.sessions import StoredSession
from ._core.runtime.claude_control import (
    ClaudeControl,
    ContextUsage,
    McpServersChanged,
    McpServerState,
    RewoundFiles,
    TaskOutput,
)
from ._core.runtime.claude_sessions import ClaudeSessions

__all__ = [
    # options
    "ClaudeOptions",
    "HookMatcher",
    # control requests
    "ClaudeControl",
    "ContextUsage",
    "McpServerState",
    "McpServersChanged",
    "RewoundFiles",
    "TaskOutput",
    # stored sessions
    "ClaudeSessions",
    "StoredSession",
]
