"""The client's side of ACP, for checks. It offers neither files nor terminals."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import trio

from ..._version import __version__
from ...events import JsonObject
from ...jsonrpc import (
    METHOD_NOT_FOUND,
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    error_line,
    result_line,
)
from .check import ACP, TOUCHED, fails, inconclusive, shown, unsupported
from .peer import MEASURE_TIMEOUT_S
from .rpc import RpcPeer, result_of

ACP_VERSION: Final = 1
AUTH_REQUIRED_CODE: Final = -32000
STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
OUTPUT_UPDATES: Final = (
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
)
"""Updates that belong to a turn."""

OptionKind: TypeAlias = Literal["allow_once", "reject_once"]


class AcpPeer(RpcPeer):
    """The client of one agent process."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.capabilities: JsonObject = {}
        self.asks: list[JsonRpcRequest] = []
        """Permission requests without an answer."""
        self.answers_asks = True
        """True if permission requests are rejected immediately; if false, the check answers
        them."""
        self.unoffered: list[str] = []
        """Methods that the agent called although they were not offered."""
        self._updates: list[tuple[int, str, JsonObject]] = []

    # --- incoming messages

    def asked(self, request: JsonRpcRequest) -> None:
        if request.method == "session/request_permission":
            if self.answers_asks:
                self.answer(request, self.option(request, "reject_once"))
            else:
                self.asks.append(request)
            return
        if request.method.startswith(("fs/", "terminal/")):
            self.unoffered.append(request.method)
        error = JsonRpcError(METHOD_NOT_FOUND, f"no such method: {request.method}")
        self.send(error_line(request.id, error))

    def notified(self, notification: JsonRpcNotification) -> None:
        params = notification.params if isinstance(notification.params, dict) else {}
        update = params.get("update")
        if notification.method == "session/update" and isinstance(update, dict):
            self._updates.append((len(self.heard), str(params.get("sessionId")), update))

    def updates(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """Return the updates of a session between two places."""
        return [
            update
            for acp_page, of, update in self._updates
            if of == session and acp_page > after and (before is None or acp_page < before)
        ]

    def said(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """Return the updates that belong to a turn."""
        found = self.updates(session, after, before)
        return [update for update in found if update.get("sessionUpdate") in OUTPUT_UPDATES]

    # --- opening a session

    async def initialize(self, version: Any = ACP_VERSION) -> JsonRpcResponse:
        """Send `initialize` and note the agent's capabilities."""
        params = {
            "protocolVersion": version,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
            },
            "clientInfo": {"name": "agentrt-conformance", "version": __version__},
        }
        response = await self.ask("initialize", params)
        result = response.result if isinstance(response.result, dict) else {}
        capabilities, info = result.get("agentCapabilities"), result.get("agentInfo")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.info = info if isinstance(info, dict) else {}
        return response

    async def ready(self) -> None:
        """Complete the handshake."""
        with self.preparing():
            result_of(await self.initialize(), "initialize")

    @property
    def place(self) -> JsonObject:
        """The parameters of a session's folder and MCP servers."""
        return {"cwd": str(self.cwd), "mcpServers": []}

    async def session(self) -> str:
        """Complete the handshake and open a session in a mode that asks."""
        await self.ready()
        with self.preparing():
            return await self.another_session()

    async def another_session(self) -> str:
        """Open a session; authenticate first if the agent requires it. Returns the session's id."""
        response = await self.ask("session/new", self.place)
        error = response.error
        if error is not None and error.code == AUTH_REQUIRED_CODE and self.auth_method is not None:
            await self.result("authenticate", {"methodId": self.auth_method})
            response = await self.ask("session/new", self.place)
        result = result_of(response, "session/new")
        session = result.get("sessionId")
        if not isinstance(session, str):
            raise fails(f"session/new gave no sessionId: {shown(result)}")
        modes = result.get("modes")
        if self.mode is not None and isinstance(modes, dict):
            await self.ask("session/set_mode", {"sessionId": session, "modeId": self.mode})
        return session

    def sessions_can(self, what: str) -> bool:
        """True if the agent announces this session capability."""
        offered = self.capabilities.get("sessionCapabilities")
        return isinstance(offered, dict) and offered.get(what) not in (None, False)

    def require_capability(self, what: str) -> None:
        """Raise `CheckEnded` if the agent does not announce this session capability."""
        if not self.sessions_can(what):
            raise unsupported(f"no sessionCapabilities.{what}")

    # --- turns

    def prompt(self, session: str, text: str) -> Id:
        """Send a prompt and return its request's id."""
        blocks = [{"type": "text", "text": text}]
        return self.call("session/prompt", {"sessionId": session, "prompt": blocks})

    async def end(self, id: Id, what: str = "session/prompt") -> str:
        """Wait for the end of a turn and return its stop reason."""
        return stop_reason(await self.answered(id, what))

    async def turn(self, session: str, text: str) -> str:
        """Run a turn and return its stop reason."""
        return await self.end(self.prompt(session, text))

    async def first_word(self, session: str, id: Id, after: int = 0) -> None:
        """Wait for the first update of a running turn. Raises `CheckEnded` if the turn ends
        before."""

        def poll() -> bool | None:
            return True if id in self._answers or self.said(session, after) else None

        with self.preparing():
            await self.until("the first update of the long turn", poll)
            if id in self._answers:
                message = self._answers[id].message
                raise inconclusive(f"the long turn had ended: {shown(message)}")

    def cancel(self, session: str) -> None:
        """Send `session/cancel`."""
        self.notify("session/cancel", {"sessionId": session})

    # --- permissions

    async def permission(self, session: str) -> tuple[Id, JsonRpcRequest]:
        """Start a turn and wait for its permission request."""
        self.answers_asks = False
        id = self.prompt(session, self.prompts.permission)

        def poll() -> bool | None:
            return True if id in self._answers or self.asks else None

        with self.preparing():
            await self.until("a permission request", poll)
            if not self.asks:
                words = shown(self._answers[id].message.result or self._answers[id].message.error)
                raise inconclusive(
                    f"it did not ask (--permission): {words}"
                    + (f", and {TOUCHED} was created" if self.touched_file else "")
                )
        return id, self.asks.pop(0)

    @property
    def touched_file(self) -> bool:
        """True if the action that needed permission has been done."""
        return (self.cwd / TOUCHED).exists()

    def option(self, ask: JsonRpcRequest, kind: OptionKind) -> str | None:
        """Return the id of an option of this kind; None if there is not one."""
        options = ask.params.get("options") if isinstance(ask.params, dict) else None
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("kind") == kind:
                id = option.get("optionId")
                return id if isinstance(id, str) else None
        return None

    def chosen(self, ask: JsonRpcRequest, kind: OptionKind) -> str:
        """Return the id of an option of this kind. Raises `CheckEnded` without one."""
        option = self.option(ask, kind)
        if option is None:
            raise inconclusive(f"it offers no option of the kind {kind}")
        return option

    def answer(self, ask: JsonRpcRequest, option: str | None) -> None:
        """Answer a permission request with an option, or as cancelled if it is None."""
        cancelled = {"outcome": "cancelled"}
        selected = {"outcome": "selected", "optionId": option}
        self.send(result_line(ask.id, {"outcome": cancelled if option is None else selected}))

    def reject_rest(self) -> None:
        """Reject all open and further permission requests."""
        self.answers_asks = True
        for ask in self.asks:
            self.answer(ask, self.option(ask, "reject_once"))
        self.asks.clear()

    # --- common to all protocols

    async def run_long(self) -> None:
        await self.begin_long(await self.session())

    async def begin_long(self, session: str, *, word: bool = True) -> Id:
        """Begin the long turn and return its prompt's id. `word`: wait for the first update."""
        assert self.long_turn
        before = len(self.heard)
        id = self.prompt(session, self.prompts.long)
        if word:
            await self.first_word(session, id, before)
        return id

    async def run_question(self) -> None:
        await self.permission(await self.session())

    async def measure(self) -> float | None:
        id = self.prompt(await self.session(), self.prompts.long)
        began = trio.current_time()
        with trio.move_on_after(MEASURE_TIMEOUT_S):
            if await self.end(id) != "end_turn":
                return None
        return trio.current_time() - began


def stop_reason(response: JsonRpcResponse) -> str:
    """Return the stop reason in an answer. Raises `CheckEnded` if ACP does not define it."""
    reason = result_of(response, "session/prompt").get("stopReason")
    if reason not in STOP_REASONS:
        raise fails(f"the stop reason is {reason!r}", "must")
    assert isinstance(reason, str)
    return reason


def acp_page(page: str) -> str:
    """Return the URL of a page in ACP's specification."""
    return ACP + page
