"""Claude Code: its options, its control requests and its stored sessions.

`agentrt.agents.claude` returns the agent itself.

`ClaudeOptions` has the settings with which a process is started; `ClaudeControl` sends the requests
that only Claude Code knows to an open session, such as for its MCP servers or the use of its
context window. `ClaudeSessions` reads the conversations that Claude Code has stored on this
machine, without starting it. Everything else works as with other agents, through `Session`.
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
