"""The client's side of ACP, for checks. It offers neither files nor terminals."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias

import trio
from msgspec import Struct

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
from .check import ACP, TOUCHED, AcpVersion, fails, inconclusive, shown, unsupported
from .peer import MEASURE_TIMEOUT_S
from .rpc import RpcPeer, described, result_of

AUTH_REQUIRED_CODE: Final = -32000
CLIENT: Final[JsonObject] = {"name": "agentrt-conformance", "version": __version__}
STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")

OptionKind: TypeAlias = Literal["allow_once", "reject_once"]


class ReceivedUpdate(Struct, frozen=True):
    """An update of a session, its place among all messages, and the time of its arrival."""

    at: int
    time: float
    session: str
    update: JsonObject


class EndedPrompt(Struct, frozen=True):
    """The end of a prompt: its place among all messages, its time, and its stop reason, which is
    empty if the prompt failed with an error."""

    at: int
    time: float
    stop: str
    error: JsonRpcError | None = None

    @property
    def words(self) -> str:
        """The stop reason or the error, for people to read."""
        return self.stop if self.error is None else f"error ({described(self.error)})"


class AcpPeer(RpcPeer):
    """The client of one agent process, in version 1."""

    version: ClassVar[AcpVersion] = 1
    capabilities_field: ClassVar[str] = "agentCapabilities"
    """The field of the answer to `initialize` that has the agent's capabilities."""
    outputs: ClassVar[tuple[str, ...]] = (
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    )
    """Updates that belong to a turn."""
    login: ClassVar[str] = "authenticate"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.capabilities: JsonObject = {}
        self.greeted = False
        """True once the handshake is complete."""
        self.asks: list[JsonRpcRequest] = []
        """Permission requests without an answer."""
        self.answers_asks = True
        """True if permission requests are rejected immediately; if false, the check answers
        them."""
        self.unoffered: list[str] = []
        """Methods that the agent called although they were not offered."""
        self._updates: list[ReceivedUpdate] = []

    # --- incoming messages

    def asked(self, request: JsonRpcRequest) -> None:
        """Answer a request: a permission request by rejecting it, unless the check answers it
        itself.

        All other requests are refused; those for files and terminals, which were not offered, are
        noted.
        """
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
        """Keep an update with its place among all messages."""
        params = notification.params if isinstance(notification.params, dict) else {}
        update = params.get("update")
        if notification.method == "session/update" and isinstance(update, dict):
            session = str(params.get("sessionId"))
            here = ReceivedUpdate(len(self.heard), trio.current_time(), session, update)
            self._updates.append(here)

    def updates(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """Return the updates of a session between two places."""
        return [
            each.update
            for each in self._updates
            if each.session == session and each.at > after and (before is None or each.at < before)
        ]

    def said(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """Return the updates that belong to a turn."""
        found = self.updates(session, after, before)
        return [update for update in found if update.get("sessionUpdate") in self.outputs]

    # --- opening a session

    async def initialize(self, version: Any = None) -> JsonRpcResponse:
        """Send `initialize` and note the agent's capabilities. Requests the peer's own version
        unless another one is given."""
        asked = self.version if version is None else version
        params = {"protocolVersion": asked, **self.greeting}
        response = await self.ask("initialize", params)
        result = response.result if isinstance(response.result, dict) else {}
        capabilities = result.get(self.capabilities_field)
        info = result.get("info", result.get("agentInfo"))
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.info = info if isinstance(info, dict) else {}
        return response

    @property
    def greeting(self) -> JsonObject:
        """The fields of `initialize` next to the version."""
        return {
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
            },
            "clientInfo": CLIENT,
        }

    async def ready(self) -> None:
        """Complete the handshake, unless it is complete."""
        if not self.greeted:
            with self.preparing():
                self.greet(result_of(await self.initialize(), "initialize"))

    def greet(self, result: JsonObject) -> None:
        """Take the answer to `initialize`."""
        self.greeted = True

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
            await self.result(self.login, {"methodId": self.auth_method})
            response = await self.ask("session/new", self.place)
        result = result_of(response, "session/new")
        session = result.get("sessionId")
        if not isinstance(session, str):
            raise fails(f"session/new gave no sessionId: {shown(result)}")
        await self.choose_mode(session, result)
        return session

    async def choose_mode(self, session: str, opened: JsonObject) -> None:
        """Choose the mode that asks, if the agent has modes."""
        if self.mode is not None and isinstance(opened.get("modes"), dict):
            await self.ask("session/set_mode", {"sessionId": session, "modeId": self.mode})

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

    def over(self, id: Id) -> EndedPrompt | None:
        """Return the end of a prompt, or None if it has not ended. Raises `CheckEnded` if ACP does
        not define its stop reason."""
        heard = self._answers.get(id)
        if heard is None:
            return None
        if heard.message.error is not None:
            return EndedPrompt(heard.at, heard.time, "", heard.message.error)
        reason = result_of(heard.message, "session/prompt").get("stopReason")
        if reason not in STOP_REASONS:
            raise fails(f"the stop reason is {reason!r}", "must")
        return EndedPrompt(heard.at, heard.time, reason)

    async def prompt_end(self, id: Id, what: str = "session/prompt") -> EndedPrompt:
        """Wait for the end of a turn."""
        return await self.until(f"the end of {what}", lambda: self.over(id))

    async def end(self, id: Id, what: str = "session/prompt") -> str:
        """Wait for the end of a turn and return its stop reason. Raises `CheckEnded` if it
        failed."""
        end = await self.prompt_end(id, what)
        if end.error is not None:
            raise fails(f"session/prompt was refused: {described(end.error)}")
        return end.stop

    async def turn(self, session: str, text: str) -> str:
        """Run a turn and return its stop reason."""
        return await self.end(self.prompt(session, text))

    async def first_word(self, session: str, id: Id, after: int = 0) -> None:
        """Wait for the first update of a running turn. Raises `CheckEnded` if the turn ends
        before."""

        def poll() -> bool | None:
            return True if self.over(id) or self.said(session, after) else None

        with self.preparing():
            await self.until("the first update of the long turn", poll)
            if (end := self.over(id)) is not None:
                raise inconclusive(f"the long turn had ended: {end.words}")

    def cancel(self, session: str) -> None:
        """Send `session/cancel`."""
        self.notify("session/cancel", {"sessionId": session})

    # --- permissions

    async def permission(self, session: str) -> tuple[Id, JsonRpcRequest]:
        """Start a turn and wait for its permission request."""
        self.answers_asks = False
        id = self.prompt(session, self.prompts.permission)

        def poll() -> bool | None:
            return True if self.over(id) or self.asks else None

        with self.preparing():
            await self.until("a permission request", poll)
            if not self.asks:
                end = await self.prompt_end(id)
                raise inconclusive(
                    f"it did not ask (--permission): {end.words}"
                    + (f", and {TOUCHED} was created" if self.touched_file else "")
                )
        return id, self.asks.pop(0)

    def question_problem(self, params: JsonObject) -> str | None:
        """Describe an error in the subject of a permission request; None if it has one."""
        call = params.get("toolCall")
        if isinstance(call, dict) and isinstance(call.get("toolCallId"), str):
            return None
        return f"its toolCall has no toolCallId: {shown(call)}"

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
        """Open a session and begin the long turn."""
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
        """Open a session and bring its agent to a permission request."""
        await self.permission(await self.session())

    async def measure(self) -> float | None:
        """Run the long turn and return its duration."""
        id = self.prompt(await self.session(), self.prompts.long)
        began = trio.current_time()
        with trio.move_on_after(MEASURE_TIMEOUT_S):
            if await self.end(id) != "end_turn":
                return None
        return trio.current_time() - began


def acp_page(page: str) -> str:
    """Return the URL of a page in ACP's specification."""
    return ACP + page
