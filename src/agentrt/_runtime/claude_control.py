"""What can be asked of Claude Code alone while a session goes on, by methods with types."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from .._errors import LocalProtocolError, RemoteProtocolError
from .._model.content import JsonObject
from .._session.session import Session

T = TypeVar("T")

CLAUDE: Final = "claude"


class McpServerState(Struct, frozen=True, rename="camel", kw_only=True):
    """An MCP server of Claude Code's, as Claude sees it."""

    name: str
    status: str
    """`connected`, `failed`, `needs-auth`, `pending` or `disabled`."""
    error: str = ""
    """Why it failed."""
    scope: str = ""
    """Where it was configured: `project`, `user`, …"""
    tools: list[JsonObject] = []
    """Each with its `name`."""


class McpServersChanged(Struct, frozen=True, kw_only=True):
    """What became of the servers that were wished: names, and for each that failed the reason."""

    added: list[str] = []
    removed: list[str] = []
    errors: dict[str, str] = {}


class ContextUsage(Struct, frozen=True, rename="camel", kw_only=True):
    """What fills the model's context."""

    total_tokens: int
    max_tokens: int
    """Where Claude begins to compact, or the model's own bound."""
    percentage: float = 0.0
    """How full it is, to 100."""
    model: str = ""
    categories: list[JsonObject] = []
    """Each with its `name` and `tokens`."""


class RewoundFiles(Struct, frozen=True, rename="camel", kw_only=True):
    """What a rewind has changed, or would change."""

    can_rewind: bool
    error: str = ""
    """Why it cannot."""
    files_changed: list[str] = []
    insertions: int = 0
    deletions: int = 0


class TaskOutput(Struct, frozen=True, kw_only=True):
    """What a background task has written so far. `truncated`: that is not all of it."""

    output: str = ""
    total_bytes: int = 0
    truncated: bool = False


class _Servers(Struct, rename="camel"):
    mcp_servers: list[McpServerState]


class ClaudeControl:
    """The requests of Claude Code's own that a session may make while it goes on::

        claude = agentrt.ClaudeControl(session)
        for server in await claude.mcp_servers():
            print(server.name, server.status)

    What is not here is asked by `Session.call`, under Claude's own name for it.

    The methods raise `RequestError` if Claude refuses or does not know the request (of an older
    version, say), `RemoteProtocolError` if its answer makes no sense, `SessionClosed` if it does
    not run. Cancelling one takes the request back; the session stays usable.
    """

    def __init__(self, session: Session) -> None:
        """Raises `LocalProtocolError` for a session of another agent."""
        if not isinstance(session, Session):
            raise TypeError(f"ClaudeControl takes a Session, not {type(session).__name__}")
        agent = session.agent
        if agent.protocol != CLAUDE:
            raise LocalProtocolError(f"{agent.name} is no Claude Code: it speaks {agent.protocol}")
        self._session = session

    # --- MCP servers

    async def mcp_servers(self) -> list[McpServerState]:
        """Claude's MCP servers, those that agentrt lends it among them."""
        return self._read(await self._session.call("mcp_status"), _Servers).mcp_servers

    async def set_mcp_servers(self, servers: Mapping[str, JsonObject]) -> McpServersChanged:
        """Have just these servers beside those of its settings files; by name, each as Claude
        Code's settings describe one (`{"type": "stdio", "command": …}`). An empty mapping removes
        those that were set so before."""
        answer = await self._session.call("mcp_set_servers", servers=dict(servers))
        return self._read(answer, McpServersChanged)

    async def reconnect_mcp_server(self, name: str) -> None:
        """Connect to one anew."""
        await self._session.call("mcp_reconnect", serverName=name)

    async def toggle_mcp_server(self, name: str, *, enabled: bool) -> None:
        """Switch one on or off for this session."""
        await self._session.call("mcp_toggle", serverName=name, enabled=enabled)

    # --- the conversation

    async def context_usage(self) -> ContextUsage:
        """What fills the model's context."""
        return self._read(await self._session.call("get_context_usage"), ContextUsage)

    async def set_max_thinking_tokens(self, tokens: int | None) -> None:
        """How many tokens a thought may take from the next turn on; None: Claude's default, 0: it
        does not think."""
        await self._session.call("set_max_thinking_tokens", max_thinking_tokens=tokens)

    async def rewind_files(self, turn: str, *, dry_run: bool = False) -> RewoundFiles:
        """Put the files back that Claude has edited since the prompt of that turn (its id), if the
        session keeps them (`ClaudeOptions.file_checkpoints`). `dry_run`: say only what would
        change."""
        answer = await self._session.call("rewind_files", turn=turn, dry_run=dry_run)
        return self._read(answer, RewoundFiles)

    async def rename(self, title: str) -> None:
        """Give it a title in Claude Code's own list. `Session.rename` is for agentrt's viewers."""
        await self._session.call("rename_session", title=title)

    # --- work

    async def send_to_background(self, call: str | None = None) -> None:
        """Let the command that runs go on in the background, as Ctrl-B does. `call`: of which tool
        call, by Claude's id of it; default: all of them."""
        given = {} if call is None else {"tool_use_id": call}
        await self._session.call("background_tasks", **given)

    async def task_output(self, task: str) -> TaskOutput:
        """What a background task (an id of `Session.tasks`) has written."""
        return self._read(await self._session.call("get_task_output", task_id=task), TaskOutput)

    async def add_folder(self, folder: str | os.PathLike[str]) -> None:
        """Have it know one more folder that is the root of a repository."""
        await self._session.call("register_repo_root", directory=os.fspath(folder))

    def _read(self, answer: Any, kind: type[T]) -> T:
        try:
            return msgspec.convert(_said(answer), kind)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"Claude Code's answer makes no sense: {error}") from error


def _said(answer: Any) -> Any:
    """Without what it says nothing about, which is null as often as it is left out."""
    if isinstance(answer, dict):
        return {name: _said(value) for name, value in answer.items() if value is not None}
    return [_said(each) for each in answer] if isinstance(answer, list) else answer
