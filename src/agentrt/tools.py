"""Functions and services that a program provides to its agent."""

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
