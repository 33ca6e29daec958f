"""Opening a thread: initialize, check the login, list the models, then start, resume or fork, and
read the history.

Each step is one request, whose response begins the next step:

1. `initialize`, with the experimental API; the `initialized` notification follows.
2. `account/read`. Without a login, and if the provider requires one, the start fails here, before a
   turn could.
3. `model/list`, for the settings, and to warn about an unknown model.
4. `thread/start`, `thread/resume` or `thread/fork`. A fork that ends at an earlier turn first reads
   the thread with `thread/turns/list`, to find the turn by an item's id or by its text.
5. For a resumed thread, `thread/turns/list` page by page, to show the history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import (
    CommandsSet,
    ModesSet,
    Opening,
    Started,
    StartFailed,
    TitleSet,
    UnsupportedSetting,
)
from ..model.events import ErrorInfo, model_unknown
from ..wire.channel import Channel
from ..wire.json import lenient
from ..wire.jsonrpc import JsonRpcError, JsonRpcResponse
from . import messages as wire
from .commands import COMMANDS
from .settings import EFFORT, REVIEWER, CodexSettings, mode_of
from .speech import CodexTranslator

if TYPE_CHECKING:
    from ..wire.mcp import ToolInfo

MAX_HISTORY_PAGES = 1000
"""Limit of history pages that are read, for a program that never marks a page as the last."""

_VERSION = re.compile(r"/(\S+)")


class CodexHandshake:
    """Opens one thread. Calls `started` with its id, after the effects that report that prompts may
    be sent."""

    def __init__(
        self,
        channel: Channel,
        opening: Opening,
        settings: CodexSettings,
        speech: CodexTranslator,
        *,
        client: wire.CodexClientInfo,
        tools: Sequence[ToolInfo],
        config: JsonObject,
        started: Callable[[str], None],
    ) -> None:
        """Create a handshake; `begin` sends its first request.

        `tools` are offered only to a new thread: a resumed one keeps its own. `config` has settings
        as in codex's configuration file.
        """
        self._channel = channel
        self._opening = opening
        self._settings = settings
        self._speech = speech
        self._client = client
        self._tools = tools
        self._config = config
        self._started = started
        self._version: str | None = None
        self._thread = wire.Thread(id="", preview="", cwd=opening.cwd, updated_at=0)
        self._pages = 0
        self._last: str | None = None
        """The last turn of a fork."""
        self._matching: list[str] = []
        """Turns that contain the text at which the fork ends, for when ids have changed."""

    def begin(self) -> None:
        """Send the first request."""
        can = wire.InitializeCapabilities(experimental_api=True, request_attestation=False)
        request = wire.InitializeParams(client_info=self._client, capabilities=can)
        self._ask("initialize", request, wire.CodexInitializeResponse, self._initialized)

    def _initialized(self, answer: wire.CodexInitializeResponse) -> None:
        """Take codex's version from its user agent, `NAME/VERSION …`, and check the login."""
        found = _VERSION.search(answer.user_agent)
        self._version = found[1] if found else None
        self._channel.notify("initialized", NoParams())
        self._ask("account/read", NoParams(), wire.GetAccountResponse, self._account)

    def _account(self, answer: wire.GetAccountResponse) -> None:
        """Fail if a login is missing; otherwise list the models.

        The option `session=False` of the opening stops here: it serves requests to codex itself.
        """
        if answer.requires_openai_auth and answer.account is None:
            self._fail("auth_required", "codex is not logged in: run `codex login`")
        elif self._opening.options.get("session") is False:
            self._finish()  # for requests to the agent itself, without a session
        else:
            self._ask("model/list", NoParams(), wire.ModelListResponse, self._modelled)

    def _modelled(self, answer: wire.ModelListResponse) -> None:
        """Keep the models that are not hidden, and warn about a wanted one that is not listed.

        The thread is opened all the same: codex decides about the model.
        """
        self._settings.models = [model for model in answer.data if not model.hidden]
        wanted = self._opening.model
        if all(wanted not in (each.model, each.display_name) for each in answer.data):
            notice = model_unknown("codex", wanted, [each.model for each in self._settings.models])
            if notice is not None:
                self._channel.notice(notice.level, notice.code, notice.message, notice.data)
        self._open()

    def _open(self) -> None:
        """Request the thread. A fork at an earlier turn comes here again when the turn is found."""
        opening = self._opening
        try:
            given = self._given()
        except (UnsupportedSetting, LocalProtocolError) as error:
            self._fail("rejected", str(error))
            return
        request: Struct
        if opening.resume is None:
            tools = [
                wire.FunctionDynamicToolSpec(
                    name=tool.name, description=tool.description, input_schema=tool.input_schema
                )
                for tool in self._tools
            ]
            method = "thread/start"
            request = wire.ThreadStartParams(**given, dynamic_tools=tools or None)
        elif opening.fork:
            if opening.fork_at is not None and self._last is None:
                self._pages = 0
                self._find_turn(opening.resume, None)
                return
            method = "thread/fork"
            request = wire.ThreadForkParams(
                thread_id=opening.resume, exclude_turns=True, last_turn_id=self._last, **given
            )
        else:
            method = "thread/resume"
            request = wire.ThreadResumeParams(thread_id=opening.resume, exclude_turns=True, **given)
        self._ask(method, request, wire.ThreadStartResponse, self._opened, self._lost)

    def _find_turn(self, thread: str, cursor: str | None) -> None:
        """Find the turn that a fork ends with.

        Items have different ids when a thread is read again than when they were new.
        """
        point = self._opening.fork_at
        assert point is not None

        def read(answer: wire.ThreadTurnsListResponse) -> None:
            """Look for the turn in one page, and read the next one if there is more.

            The id of an item identifies the turn; else the text does, by its `occurrence`, counted
            from the beginning of the thread.
            """
            for turn in answer.data:
                for item in turn.items:
                    if getattr(item, "id", None) in point.messages:
                        self._last = turn.id
                    elif isinstance(item, wire.AgentMessageThreadItem) and item.text == point.text:
                        self._matching.append(turn.id)
            self._pages += 1
            if answer.next_cursor is not None and answer.data and self._pages < MAX_HISTORY_PAGES:
                self._find_turn(thread, answer.next_cursor)
                return
            if self._last is None and len(self._matching) >= point.occurrence:
                self._last = self._matching[point.occurrence - 1]
            if self._last is None:
                self._fail("rejected", "codex no longer has the text at that point")
            else:
                self._open()

        request = wire.ThreadTurnsListParams(
            thread_id=thread, cursor=cursor, sort_direction="asc", items_view="full"
        )
        self._ask("thread/turns/list", request, wire.ThreadTurnsListResponse, read, self._lost)

    def _given(self) -> dict[str, Any]:
        """Return the parameters that opening a thread has in common for start, resume and fork."""
        opening = self._opening
        given: dict[str, Any] = {
            "cwd": opening.cwd,
            "runtime_workspace_roots": [opening.cwd, *opening.roots],
            "approvals_reviewer": REVIEWER,
            "model": opening.model,
        }
        if opening.mode is not None:
            mode = mode_of(opening.mode)
            given |= {"approval_policy": mode.approval, "sandbox": mode.sandbox}
        config = dict(self._config)
        options = opening.options.get("config", {})
        if unknown := [name for name in options if name != EFFORT]:
            raise UnsupportedSetting(f"codex has no option {unknown[0]!r}; it has: {EFFORT}")
        if EFFORT in options:
            effort = self._settings.first_effort(options[EFFORT], opening.model)
            config["model_reasoning_effort"] = effort
        if opening.mcp_servers:
            config["mcp_servers"] = _servers(opening.mcp_servers)
        config |= opening.options.get("codex", {})
        return {**given, "config": config or None}

    def _lost(self, error: JsonRpcError) -> None:
        """Fail the start; `no rollout` in codex's message means that the thread does not exist."""
        unknown = self._opening.resume is not None and "no rollout" in error.message
        self._fail("session_not_found" if unknown else "rejected", error.message)

    def _opened(self, answer: wire.ThreadStartResponse) -> None:
        """Take over the settings of the thread, and read its history if it is wanted."""
        self._thread = answer.thread
        self._settings.reported(
            answer.approval_policy, answer.sandbox, answer.model, answer.reasoning_effort
        )
        wants_history = self._opening.options.get("replay", True) is not False
        if self._opening.resume is not None and wants_history:
            self._read_on(None)
        else:
            self._finish()

    def _read_on(self, cursor: str | None) -> None:
        """Request a page of the history, oldest turn first. None: the first page."""
        request = wire.ThreadTurnsListParams(
            thread_id=self._thread.id, cursor=cursor, sort_direction="asc", items_view="full"
        )
        self._ask(
            "thread/turns/list", request, wire.ThreadTurnsListResponse, self._replayed, self._unread
        )

    def _replayed(self, answer: wire.ThreadTurnsListResponse) -> None:
        """Show a page of the history, and read the next one if there is more."""
        for turn in answer.data:
            self._speech.replay(turn.items)
        self._pages += 1
        if answer.next_cursor is not None and answer.data and self._pages < MAX_HISTORY_PAGES:
            self._read_on(answer.next_cursor)
        else:
            self._finish()

    def _unread(self, error: JsonRpcError) -> None:
        """Report that the history cannot be shown; the agent still knows it."""
        self._channel.notice("warning", "history_unread", error.message)
        self._finish()

    def _finish(self) -> None:
        """Report the end of the handshake. The capabilities are those of app-server itself."""
        opening = self._opening
        self._channel.out.append(
            Started(
                session=self._thread.id,
                agent_version=self._version,
                resumed=opening.resume is not None and not opening.fork,
                capabilities={
                    "resume": True,
                    "fork": True,
                    "fork_at": True,
                    "steer": True,
                    "list_sessions": True,
                    "delete_session": True,
                    "logout": True,
                    "image": True,
                    "audio": False,
                    "embedded_context": True,
                },
            )
        )
        if self._thread.id:
            self._channel.out.append(ModesSet(self._settings.view()))
            self._channel.out.append(CommandsSet(COMMANDS))
        if self._thread.name:
            self._channel.out.append(TitleSet(self._thread.name))
        self._started(self._thread.id)

    def _ask(
        self,
        method: str,
        params: Struct,
        kind: type[Any],
        then: Callable[[Any], None],
        refused: Callable[[JsonRpcError], None] | None = None,
    ) -> None:
        """Send a request and pass its result to `then`; an unusable response fails the start."""

        def answered(response: JsonRpcResponse) -> None:
            """Decode the response leniently and pass it on, or fail the start."""
            if response.error is not None:
                if refused is not None:
                    refused(response.error)
                else:
                    self._fail("rejected", response.error.message)
                return
            try:
                answer = lenient(response.result, kind, [])
            except ValidationError as error:
                why = f"the answer to {method} is without a usable {error}"
                self._fail("protocol", why)
            else:
                then(answer)

        self._channel.request(method, params, answered)

    def _fail(self, code: str, why: str) -> None:
        """Report a failed start."""
        self._channel.out.append(StartFailed(ErrorInfo(code, why)))


class NoParams(Struct):
    """Parameters of a method that takes none."""


def _servers(entries: Sequence[JsonObject]) -> JsonObject:
    """Convert MCP servers from ACP's shape to that of codex's configuration.

    Several entries with the same name are alternatives, of which the first is used. Raises
    `LocalProtocolError` for a server that codex cannot reach.
    """
    servers: JsonObject = {}
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str):
            raise LocalProtocolError(f"not an MCP server: {entry!r:.100} has no name")
        if name in servers:
            continue
        match entry:
            case {"type": "http", "url": str(url)}:
                servers[name] = {"url": url, "http_headers": _pairs(entry.get("headers"))}
            case {"command": str(command)}:
                servers[name] = {
                    "command": command,
                    "args": entry.get("args") or [],
                    "env": _pairs(entry.get("env")),
                }
            case _:
                raise LocalProtocolError(f"codex cannot reach the MCP server {name!r}")
    return servers


def _pairs(given: Any) -> dict[str, str]:
    """Convert ACP's list of names and values to an object."""
    return {str(each["name"]): str(each["value"]) for each in given or ()}
