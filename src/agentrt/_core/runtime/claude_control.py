"""Typed methods for requests that only Claude Code supports, for use while a session is open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ..errors import LocalProtocolError, RemoteProtocolError
from ..model.content import JsonObject
from ..session.session import Session

T = TypeVar("T")

CLAUDE: Final = "claude"


class McpServerState(Struct, frozen=True, rename="camel", kw_only=True):
    """State of one of Claude Code's MCP servers, as reported by Claude."""

    name: str
    """Name of the server."""
    status: str
    """`connected`, `failed`, `needs-auth`, `pending` or `disabled`."""
    error: str = ""
    """The reason of a failure."""
    scope: str = ""
    """Place of its configuration: `project`, `user`, …"""
    tools: list[JsonObject] = []
    """Its tools, each with a `name`."""


class McpServersChanged(Struct, frozen=True, kw_only=True):
    """Result of `ClaudeControl.set_mcp_servers`: names, and a reason for each server that
    failed.
    """

    added: list[str] = []
    """Names of the servers that were added."""
    removed: list[str] = []
    """Names of the servers that were removed."""
    errors: dict[str, str] = {}
    """Reasons, by the names of the servers that failed."""


class ContextUsage(Struct, frozen=True, rename="camel", kw_only=True):
    """Usage of the model's context window."""

    total_tokens: int
    """Number of tokens in use."""
    max_tokens: int
    """Size at which Claude begins to compact, or the model's own limit."""
    percentage: float = 0.0
    """Percentage in use, up to 100."""
    model: str = ""
    """The model's id."""
    categories: list[JsonObject] = []
    """Categories of the contents, each with a `name` and `tokens`."""


class RewoundFiles(Struct, frozen=True, rename="camel", kw_only=True):
    """Files that a rewind has changed, or would change."""

    can_rewind: bool
    """True if the rewind is possible."""
    error: str = ""
    """The reason why a rewind is impossible."""
    files_changed: list[str] = []
    """The files that changed, or would change."""
    insertions: int = 0
    """Number of inserted lines."""
    deletions: int = 0
    """Number of deleted lines."""


class TaskOutput(Struct, frozen=True, kw_only=True):
    """Output of a background task so far. `truncated`: part of it is missing."""

    output: str = ""
    """The output."""
    total_bytes: int = 0
    """Size of the whole output in bytes."""
    truncated: bool = False


class _Servers(Struct, rename="camel"):
    """The answer to `mcp_status`."""

    mcp_servers: list[McpServerState]


class ClaudeControl:
    """Requests that only Claude Code supports, for an open session::

        claude = agentrt.claude.ClaudeControl(session)
        for server in await claude.mcp_servers():
            print(server.name, server.status)

    For other requests use `Session.call`, with Claude's own names.

    The methods raise `RequestError` if Claude refuses or does not know the request (for example in
    an older version), `RemoteProtocolError` if its answer is invalid, `SessionClosed` if it is not
    running. Cancelling a method withdraws the request; the session stays usable.
    """

    def __init__(self, session: Session) -> None:
        """Raises `LocalProtocolError` for a session of another agent."""
        if not isinstance(session, Session):
            raise TypeError(f"ClaudeControl takes a Session, not {type(session).__name__}")
        agent = session.agent
        if agent.protocol != CLAUDE:
            raise LocalProtocolError(f"{agent.name} is not Claude Code: it speaks {agent.protocol}")
        self._session = session

    # --- MCP servers

    async def mcp_servers(self) -> list[McpServerState]:
        """Return Claude's MCP servers, including those provided by agentrt."""
        return self._read(await self._session.call("mcp_status"), _Servers).mcp_servers

    async def set_mcp_servers(self, servers: Mapping[str, JsonObject]) -> McpServersChanged:
        """Replace the MCP servers that were set before by these, in addition to those of the
        settings files.

        `servers` maps names to servers as in Claude Code's settings (`{"type": "stdio", "command":
        …}`). An empty mapping removes those that were set before.
        """
        answer = await self._session.call("mcp_set_servers", servers=dict(servers))
        return self._read(answer, McpServersChanged)

    async def reconnect_mcp_server(self, name: str) -> None:
        """Reconnect to a server."""
        await self._session.call("mcp_reconnect", serverName=name)

    async def toggle_mcp_server(self, name: str, *, enabled: bool) -> None:
        """Enable or disable a server for this session."""
        await self._session.call("mcp_toggle", serverName=name, enabled=enabled)

    # --- the conversation

    async def context_usage(self) -> ContextUsage:
        """Return the usage of the model's context window."""
        return self._read(await self._session.call("get_context_usage"), ContextUsage)

    async def set_max_thinking_tokens(self, tokens: int | None) -> None:
        """Set the maximum number of thinking tokens, from the next turn on.

        None: Claude's default; 0: no thinking.
        """
        await self._session.call("set_max_thinking_tokens", max_thinking_tokens=tokens)

    async def rewind_files(self, turn: str, *, dry_run: bool = False) -> RewoundFiles:
        """Restore the files that Claude has edited since the prompt of this turn (its id).

        The session must have `ClaudeOptions.file_checkpoints`. `dry_run` only reports the changes.
        """
        answer = await self._session.call("rewind_files", turn=turn, dry_run=dry_run)
        return self._read(answer, RewoundFiles)

    async def rename(self, title: str) -> None:
        """Set the title in Claude Code's own list. `Session.rename` sets it for agentrt's
        viewers.
        """
        await self._session.call("rename_session", title=title)

    # --- work

    async def send_to_background(self, call: str | None = None) -> None:
        """Continue the running command in the background, as Ctrl-B does.

        `call` is Claude's id of a tool call; default: all running commands.
        """
        given = {} if call is None else {"tool_use_id": call}
        await self._session.call("background_tasks", **given)

    async def task_output(self, task: str) -> TaskOutput:
        """Return the output of a background task (an id of `Session.background_tasks`)."""
        return self._read(await self._session.call("get_task_output", task_id=task), TaskOutput)

    async def add_folder(self, folder: str | os.PathLike[str]) -> None:
        """Register a further folder as the root of a repository."""
        await self._session.call("register_repo_root", directory=os.fspath(folder))

    def _read(self, answer: Any, kind: type[T]) -> T:
        """Return an answer as this type. Raises `RemoteProtocolError` if it does not fit."""
        try:
            return msgspec.convert(_said(answer), kind)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"Claude Code's answer is invalid: {error}") from error


def _said(answer: Any) -> Any:
    """Remove null values, which mean the same as missing ones."""
    if isinstance(answer, dict):
        return {name: _said(value) for name, value in answer.items() if value is not None}
    return [_said(each) for each in answer] if isinstance(answer, list) else answer
