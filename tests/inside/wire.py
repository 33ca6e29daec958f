"""The MCP server without its transport: tests and the fuzzer give it lines that no agent sends."""

from __future__ import annotations

from agentrt._core.wire.mcp import CallTool, McpToolServer

__all__ = ["CallTool", "McpToolServer"]
