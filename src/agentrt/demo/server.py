"""The agent: the protocol's methods, and the tasks that carry them out.

The tree of tasks::

    serve
    ├── the writer                 ends last, so that every answer is sent
    └── sessions
        ├── a session
        │   ├── the running turn   under the scope that `session/cancel` cancels
        │   └── background work
        └── …

The reader handles the client's messages in order. Only a prompt, and the end of a session that may
have to wait for one, get their own tasks.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import Struct

from ..jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    JsonRpcNotification,
    JsonRpcRequest,
)
from . import commands
from .answer import answer
from .history import DemoStore, StoredInfo, now, up_to
from .mcp import McpServerSpec
from .session import ClientFeatures, DemoSession, Model, new_id
from .turn import DemoTurn, StopReason
from .wire import REQUEST_CANCELLED, RESOURCE_NOT_FOUND, DemoConnection, DemoRpcError, JsonObject

ACP_VERSION = 1
"""The supported version of the Agent Client Protocol."""
SESSIONS_PER_PAGE = 50
"""Sessions in one answer to `session/list`."""

CAPABILITIES: JsonObject = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "close": {},
        "delete": {},
        "additionalDirectories": {},
        "fork": {},
    },
}


class DemoInitializeParams(Struct, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: int
    client_capabilities: JsonObject | None = None


class OpenSessionParams(Struct, rename="camel", kw_only=True):
    """Parameters of `session/new`."""

    cwd: str
    mcp_servers: list[JsonObject] | None = None
    additional_directories: list[str] | None = None


class ReopenSessionParams(OpenSessionParams, rename="camel", kw_only=True):
    """Parameters of `session/load` and `session/resume`."""

    session_id: str


class ForkSessionParams(ReopenSessionParams, rename="camel", kw_only=True):
    """Parameters of `session/fork`."""

    meta: JsonObject | None = msgspec.field(default=None, name="_meta")

    @property
    def message(self) -> str | None:
        """The message at which the copy ends; None to copy everything."""
        found: Any = self.meta
        for name in ("jetbrains", "air", "fork", "messageId"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, str) else None


class SessionParams(Struct, rename="camel", kw_only=True):
    """Parameters of a request about a session."""

    session_id: str


class PromptParams(SessionParams, rename="camel", kw_only=True):
    """Parameters of `session/prompt`."""

    prompt: list[JsonObject]


class SetModeParams(SessionParams, rename="camel", kw_only=True):
    """Parameters of `session/set_mode`."""

    mode_id: str


class SetOptionParams(SessionParams, rename="camel", kw_only=True):
    """Parameters of `session/set_config_option`."""

    config_id: str
    value: str | bool


class ListSessionsParams(Struct, rename="camel"):
    """Parameters of `session/list`."""

    cwd: str | None = None
    cursor: str | None = None


class CancelRequestParams(Struct, rename="camel"):
    """Parameters of `$/cancel_request`."""

    request_id: Id


P = TypeVar("P", bound=Struct)


def read(params: Any, type: type[P]) -> P:
    """Return the parameters of a request, which may be null or absent."""
    try:
        return msgspec.convert({} if params is None else params, type)
    except msgspec.ValidationError as error:
        raise DemoRpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


class DemoAgent:
    """The agent of one client, for as long as the client is connected."""

    def __init__(
        self, connection: DemoConnection, store: DemoStore, model: Model, version: str
    ) -> None:
        self._connection = connection
        self._store = store
        self._model: Model = model
        self._about = {"name": "agentrt-demo", "title": "agentrt's demo agent", "version": version}
        self._offers = ClientFeatures.of({})
        self._sessions: dict[str, DemoSession] = {}
        self._turns: dict[str, DemoTurn] = {}
        """The running turn of each session that has one."""
        self._nursery: trio.Nursery

    async def serve(self) -> None:
        """Serve until the client closes its end, then end everything. Cancelling does the same."""
        # The last messages of the cancelled turns are sent, too.
        async with self._connection.writing(), trio.open_nursery() as self._nursery:
            while (messages := await self._connection.receive()) is not None:
                for message in messages:
                    await self._handle(message)
            self._nursery.cancel_scope.cancel(reason="the client is gone")

    async def _handle(self, message: JsonRpcRequest | JsonRpcNotification) -> None:
        """Carry out a request or a notification. A request gets exactly one answer."""
        try:
            match message:
                case JsonRpcRequest(id, method, params):
                    await self._requested(id, method, params)
                case JsonRpcNotification(method, params):
                    self._notified(method, params)
        except Exception as failed:
            error = _as_answer(failed)
            if isinstance(message, JsonRpcRequest):
                self._connection.refuse(message.id, error)

    def _notified(self, method: str, params: Any) -> None:
        """Handle a notification. A cancel for a turn that has ended is ignored."""
        match method:
            case "session/cancel":
                turn = self._turns.get(read(params, SessionParams).session_id)
                if turn is not None:  # otherwise the turn ended before the cancel arrived
                    turn.scope.cancel(reason="session/cancel")
            case "$/cancel_request":
                id = read(params, CancelRequestParams).request_id
                for turn in self._turns.values():
                    if turn.request_id == id:
                        turn.withdrawn = True
                        turn.scope.cancel(reason="$/cancel_request")

    async def _requested(self, id: Id, method: str, params: Any) -> None:
        """Carry out one request of the client.

        Requests that take time are answered by a task of their own, so that the next message is
        read at once. Raises `DemoRpcError` for unknown methods and sessions.
        """
        reply = self._connection.reply
        match method:
            case "initialize":
                offered = read(params, DemoInitializeParams).client_capabilities
                self._offers = ClientFeatures.of(offered or {})
                reply(id, self._initialized())
            case "session/new":
                await self._new(id, read(params, OpenSessionParams))
            case "session/load":
                await self._reopen(id, read(params, ReopenSessionParams), replay=True)
            case "session/resume":
                await self._reopen(id, read(params, ReopenSessionParams), replay=False)
            case "session/fork":
                await self._fork(id, read(params, ForkSessionParams))
            case "session/list":
                reply(id, self._list(read(params, ListSessionsParams)))
            case "session/close":
                session = self._session(read(params, SessionParams))
                self._nursery.start_soon(self._end, id, session)
            case "session/delete":
                await self._delete(id, read(params, SessionParams).session_id)
            case "session/set_mode":
                setting = read(params, SetModeParams)
                session = self._session(setting)
                session.set("mode", setting.mode_id)
                session.send_options()
                reply(id, {})
            case "session/set_config_option":
                option = read(params, SetOptionParams)
                session = self._session(option)
                session.set(option.config_id, option.value)
                if option.config_id == "mode":
                    session.send_mode()
                reply(id, {"configOptions": session.options()})
            case "session/prompt":
                self._prompt(id, read(params, PromptParams))
            case _:
                raise DemoRpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _initialized(self) -> JsonObject:
        """Return the answer to `initialize`."""
        about = {"agentCapabilities": CAPABILITIES, "agentInfo": self._about, "authMethods": []}
        return {"protocolVersion": ACP_VERSION, **about, "_meta": {"agentrt": {"forkAt": True}}}

    # --- sessions

    def _session(self, asked: SessionParams) -> DemoSession:
        """Return an open session. Raises `DemoRpcError` for an unknown id."""
        session = self._sessions.get(asked.session_id)
        if session is None:
            raise _unknown(asked.session_id)
        return session

    async def _new(self, id: Id, asked: OpenSessionParams) -> None:
        """Open a new session, and answer with its settings; its commands follow as an update."""
        info = StoredInfo(session_id=f"demo-{new_id()}", cwd=asked.cwd, updated_at=now())
        session = await self._open(info, asked)
        self._store.save(info)
        self._store.forget_old()
        settings = {"modes": session.modes(), "configOptions": session.options()}
        self._connection.reply(id, {"sessionId": info.session_id, **settings})
        session.send(commands.available())

    async def _reopen(self, id: Id, asked: ReopenSessionParams, *, replay: bool) -> None:
        """Open a stored session again. With `replay` its updates are sent before the answer, as ACP
        requires of `session/load`.
        """
        info = self._store.info(asked.session_id)
        if info is None:
            raise _unknown(asked.session_id)
        if asked.session_id in self._turns:
            raise DemoRpcError(INVALID_REQUEST, "This session is busy with a prompt")
        if open := self._sessions.pop(asked.session_id, None):
            open.nursery.cancel_scope.cancel(reason="the session was opened again")
        info.cwd = asked.cwd
        session = await self._open(info, asked)
        if replay:
            session.replay()
        settings = {"modes": session.modes(), "configOptions": session.options()}
        self._connection.reply(id, settings)
        session.send(commands.available())

    async def _fork(self, id: Id, asked: ForkSessionParams) -> None:
        """Open a session that begins with a copy of another one's updates; its client shows
        them."""
        first = self._store.info(asked.session_id)
        if first is None:
            raise _unknown(asked.session_id)
        said = self._store.updates(asked.session_id)
        if asked.message is not None:
            said = up_to(said, asked.message)
            if not said:
                raise DemoRpcError(INVALID_PARAMS, "This session has no message with that id")
        info = StoredInfo(
            session_id=f"demo-{new_id()}", cwd=asked.cwd, title=first.title, updated_at=now()
        )
        session = await self._open(info, asked)
        self._store.save(info)
        for update in said:
            self._store.append(info.session_id, update)
        self._store.forget_old()
        settings = {"modes": session.modes(), "configOptions": session.options()}
        self._connection.reply(id, {"sessionId": info.session_id, **settings})
        session.send(commands.available())

    async def _open(self, info: StoredInfo, asked: OpenSessionParams) -> DemoSession:
        """Start the task of a session. Raises `DemoRpcError` for a folder that does not exist."""
        info.additional_directories = asked.additional_directories or []
        for folder in (info.cwd, *info.additional_directories):
            if not (os.path.isabs(folder) and await trio.Path(folder).is_dir()):
                raise DemoRpcError(INVALID_PARAMS, f"Not an absolute path of a folder: {folder}")
        session = DemoSession(
            self._connection,
            self._store,
            info,
            offers=self._offers,
            servers=_on_standard_streams(asked.mcp_servers or []),
            model=self._model,
        )
        await self._nursery.start(session.run)
        self._sessions[info.session_id] = session
        return session

    def _list(self, asked: ListSessionsParams) -> JsonObject:
        """Return a page of the stored sessions; a cursor is the number of sessions before it."""
        found = [info for info in self._store.list() if asked.cwd in (None, info.cwd)]
        try:
            start = int(asked.cursor or 0)
        except ValueError:
            raise DemoRpcError(INVALID_PARAMS, "Not a cursor of mine") from None
        listed: JsonObject = {"sessions": found[start : start + SESSIONS_PER_PAGE]}
        if start + SESSIONS_PER_PAGE < len(found):
            listed["nextCursor"] = str(start + SESSIONS_PER_PAGE)
        return listed

    async def _delete(self, id: Id, session_id: str) -> None:
        """Delete a session. An open one is ended first, by a task, as its turn may take time to
        end.
        """
        if session := self._sessions.get(session_id):
            self._nursery.start_soon(self._end, id, session, True)
        else:
            self._store.delete(session_id)
            self._connection.reply(id, {})

    async def _end(self, id: Id, session: DemoSession, forget: bool = False) -> None:
        """Stop a session's work, let its prompt be answered, then free it."""
        session_id = session.info.session_id
        if turn := self._turns.get(session_id):
            turn.scope.cancel(reason="the session is closed")
            await turn.ended.wait()
        self._sessions.pop(session_id, None)
        session.nursery.cancel_scope.cancel(reason="the session is closed")
        if forget:
            self._store.delete(session_id)
        self._connection.reply(id, {})

    # --- prompts

    def _prompt(self, id: Id, asked: PromptParams) -> None:
        """Start a turn, which is answered at its end. Raises `DemoRpcError` if one runs in the
        session.
        """
        session = self._session(asked)
        if asked.session_id in self._turns:
            raise DemoRpcError(INVALID_REQUEST, "This session is busy with a prompt")
        for block in asked.prompt:
            if not isinstance(block.get("text" if block.get("type") == "text" else "type"), str):
                raise DemoRpcError(INVALID_PARAMS, f"Not a content block: {block}")
        # Registered before its task runs: a cancel right after the prompt must find it.
        turn = self._turns[asked.session_id] = DemoTurn(session, id, asked.prompt)
        session.nursery.start_soon(self._run, turn)

    async def _run(self, turn: DemoTurn) -> None:
        """Run a turn as a task. In every case the prompt gets exactly one answer."""
        stop: StopReason = "cancelled"
        error: DemoRpcError | None = None
        try:
            with turn.scope:
                stop = await answer(turn)
        except Exception as failed:
            error = _as_answer(failed)
        finally:
            del self._turns[turn.session.info.session_id]
            turn.session.save()
            turn.session.send_usage()
            if turn.withdrawn:
                error = DemoRpcError(REQUEST_CANCELLED, "Request cancelled")
            elif turn.scope.cancel_called:
                stop, error = "cancelled", None
            if error is None:
                self._connection.reply(turn.request_id, {"stopReason": stop})
            else:
                self._connection.refuse(turn.request_id, error)
            turn.ended.set()


def _as_answer(error: Exception) -> DemoRpcError:
    """Convert an error to an answer. An unexpected one is also printed."""
    if isinstance(error, DemoRpcError):
        return error
    traceback.print_exception(error, file=sys.stderr)
    return DemoRpcError(INTERNAL_ERROR, "Internal error", {"details": repr(error)})


def _unknown(session_id: str) -> DemoRpcError:
    """Return the error for a session that does not exist."""
    return DemoRpcError(RESOURCE_NOT_FOUND, "Session not found", {"sessionId": session_id})


def _on_standard_streams(servers: list[JsonObject]) -> list[McpServerSpec]:
    """Return the MCP servers of the only supported kind, which every agent must support."""
    chosen = [server for server in servers if server.get("type", "stdio") == "stdio"]
    try:
        return msgspec.convert(chosen, list[McpServerSpec])
    except msgspec.ValidationError as error:
        raise DemoRpcError(INVALID_PARAMS, f"Invalid mcpServers: {error}") from None
