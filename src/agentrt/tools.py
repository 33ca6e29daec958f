"""Functions and services that a program provides to its agent.

There are four ways in which an agent can call the program:

- A *tool* (`tool`) is a function that the model calls. It works with every agent: its arguments are
  converted to the annotated types, its result is shown to the model, and a `ToolError` describes a
  problem. Cancelling a turn cancels its tools. A synchronous function runs in a thread. A server of
  the package `mcp` can be passed instead (`McpServer`).
- A *hook* (`hook`) is called by Claude Code at an event, such as before each tool call, and may
  deny it.
- An *extension* (`extension`) serves a request that is not part of the protocol but specific to an
  agent.
- `Files` and `Terminals` are services that ACP agents use instead of their own access to files and
  programs, for example to see the unsaved text of an editor.

All of them are arguments of `open_session`.
"""

from ._core.runtime.client_services import Files, Terminal, TerminalExit, TerminalOutput, Terminals
from ._core.session.interfaces import OfferedTool
from ._core.tools.extensions import (
    Extension,
    ExtensionContext,
    Hook,
    HookContext,
    HookFunction,
    extension,
    hook,
)
from ._core.tools.tools import (
    McpServer,
    ReportProgress,
    Tool,
    ToolContext,
    ToolFunction,
    Tools,
    tool,
)
from ._core.wire.mcp import ToolInfo

__all__ = [
    # in-process tools
    "tool",
    "Tool",
    "ToolContext",
    "ToolFunction",
    "ReportProgress",
    "ToolInfo",
    "Tools",
    "OfferedTool",
    "McpServer",
    # hooks of Claude Code
    "hook",
    "Hook",
    "HookContext",
    "HookFunction",
    # requests of the agent's own
    "extension",
    "Extension",
    "ExtensionContext",
    # files and terminals of the program's own
    "Files",
    "Terminals",
    "Terminal",
    "TerminalOutput",
    "TerminalExit",
]
