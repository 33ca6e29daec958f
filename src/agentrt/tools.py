"""Functions and services that a program provides to its agent."""

from ._runtime.own_services import Files, Terminal, TerminalExit, TerminalOutput, Terminals
from ._tools.extensions import Extension, ExtensionContext, extension
from ._tools.hooks import Hook, HookContext, HookFunction, hook
from ._tools.lent import McpServer, Tools
from ._tools.tools import ReportProgress, Tool, ToolContext, ToolFunction, tool
from ._wire.mcp import ToolInfo

__all__ = [
    # in-process tools
    "tool",
    "Tool",
    "ToolContext",
    "ToolFunction",
    "ReportProgress",
    "ToolInfo",
    "Tools",
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
