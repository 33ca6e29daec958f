"""Requests about tools of MCP servers, in each agent's own format."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

OWN_NAME: Final = "agentrt"
"""The MCP server of the program's functions: rules and models name a tool `mcp__agentrt__NAME`."""

_TOOL: Final = r"([A-Za-z0-9_.-]{1,128})"
_SERVER: Final = r"([A-Za-z0-9_-]{1,64}?)"
_NAMES: Final = (
    re.compile(rf"mcp__{_SERVER}__{_TOOL}"),  # Claude Code, Kimi
    re.compile(rf"mcp_{_SERVER}\.{_TOOL}"),  # Mistral Vibe
)
"""Names that agents' programs give to tools of MCP servers."""
_TITLES: Final = (
    *_NAMES,
    re.compile(rf"{_TOOL} \({_SERVER} MCP Server\)"),  # Gemini
)
"""Titles that programs give to such a tool if they do not send its name."""
_MESSAGE: Final = re.compile(rf'Allow the {_SERVER} MCP server to run tool "{_TOOL}"\?')


class McpRequest(Protocol):
    """The parts of a permission request that identify its tool."""

    @property
    def title(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def input(self) -> Any: ...
    @property
    def kind_holds(self) -> bool: ...
    @property
    def raw(self) -> Any: ...


def called_tool(request: McpRequest) -> tuple[str, str, Any] | None:
    """Return the server, the tool and the arguments of a request about a tool of an MCP server.

    They are taken from the text of the agent's program. None for all other requests.
    """
    match request.raw:
        case {"mcp_server": {"source": str(source)}} if source not in ("sdk", "dynamic"):
            return None  # Claude Code: a server from the user's or the project's settings
    if request.tool:
        return _named(request)
    return _approved_by_codex(request) or _titled(request)


def _named(request: McpRequest) -> tuple[str, str, Any] | None:
    for pattern in _NAMES:
        if found := pattern.fullmatch(request.tool):
            return found[1], found[2], request.input
    return None


def _approved_by_codex(request: McpRequest) -> tuple[str, str, Any] | None:
    match request.input, _meta(request.raw):
        case (
            {"server": str(server), "tool": str(tool), "arguments": arguments},
            {"is_mcp_tool_approval": True},
        ):  # codex-acp
            return server, tool, arguments
        case {"server_name": str(server), "request": {"message": str(message), "_meta": meta}}, _:
            found = _MESSAGE.fullmatch(message)  # codex-acp of Zed
            approves = isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call"
            if found and found[1] == server and approves:
                return server, found[2], meta.get("tool_params")
    return None


def _titled(request: McpRequest) -> tuple[str, str, Any] | None:
    if request.kind != "other" or not request.kind_holds or request.input is not None:
        return None
    for pattern in _TITLES:
        if found := pattern.fullmatch(request.title):
            server, tool = found[1], found[2]
            return (tool, server, None) if " " in request.title else (server, tool, None)
    return None


def _meta(raw: Any) -> Any:
    return raw.get("_meta") if isinstance(raw, dict) else None
