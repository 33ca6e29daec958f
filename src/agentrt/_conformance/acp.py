"""The client's side of ACP, for checks: it offers neither files nor terminals."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import trio
from msgspec import Struct

from .._model.content import JsonObject
from .._version import __version__
from .._wire.json import encode_line
from .._wire.jsonrpc import (
    METHOD_NOT_FOUND,
    Id,
    Request,
    Response,
    RpcError,
    error_line,
    notification_line,
    parse,
    request_line,
    result_line,
)
from .check import ACP, TOUCHED, fails, not_offered, not_provoked, shown
from .peer import MEASURED, Peer

VERSION: Final = 1
UNKNOWN: Final = "_agentrt/unknown"
"""A method that no agent has."""
PATIENCE: Final = 2.0
"""Seconds for the answer to a request behind which all is quiet."""
AUTH_REQUIRED: Final = -32000
STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
SAID: Final = (
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
)
"""Updates that are of a turn."""

OptionKind: TypeAlias = Literal["allow_once", "reject_once"]


class Heard(Struct, frozen=True):
    """Something that the agent sent: its place among all messages, and when it came."""

    at: int
    time: float
    message: Any


class AcpPeer(Peer):
    """The client of one agent process."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.capabilities: JsonObject = {}
        self.asks: list[Request] = []
        """Permission requests that nobody has answered."""
        self.answers_asks = True
        """Reject what is asked for at once; False: the check answers itself."""
        self.unoffered: list[str] = []
        """What it asked for though it was not offered."""
        self._answers: dict[Id, Heard] = {}
        self.unknown_answers: list[Response] = []
        self._next = 0
        self._sent: set[Id] = set()
        self._updates: list[tuple[int, str, JsonObject]] = []

    # --- what comes

    def take(self, message: Any) -> None:
        match parse(message):
            case Response(id=id) as response:
                if id in self._sent and id not in self._answers and type(id) is not float:
                    here = Heard(len(self.heard), trio.current_time(), response)
                    self._answers[id] = here
                else:
                    self.unknown_answers.append(response)
            case Request(method="session/request_permission") as ask:
                if self.answers_asks:
                    self.answer(ask, self.option(ask, "reject_once"))
                else:
                    self.asks.append(ask)
            case Request(id=id, method=method):
                if method.startswith(("fs/", "terminal/")):
                    self.unoffered.append(method)
                self.send(error_line(id, RpcError(METHOD_NOT_FOUND, f"no such method: {method}")))
            case other:
                params = other.params if isinstance(other.params, dict) else {}
                update = params.get("update")
                if other.method == "session/update" and isinstance(update, dict):
                    self._updates.append((len(self.heard), str(params.get("sessionId")), update))

    def updates(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """What was said of a session, between two places."""
        return [
            update
            for at, of, update in self._updates
            if of == session and at > after and (before is None or at < before)
        ]

    def said(self, session: str, after: int = 0, before: int | None = None) -> list[JsonObject]:
        """Those that are of a turn."""
        found = self.updates(session, after, before)
        return [update for update in found if update.get("sessionUpdate") in SAID]

    # --- requests

    def call(self, method: str, params: Any, id: Id = None) -> Id:
        """Send a request; its id."""
        if id is None:
            self._next += 1
            id = self._next
        self._sent.add(id)
        self.send(request_line(id, method, params))
        return id

    def expect(self, id: Id) -> None:
        """An answer with this id is one to us."""
        self._sent.add(id)

    def notify(self, method: str, params: Any) -> None:
        self.send(notification_line(method, params))

    async def heard_answer(self, id: Id, what: str) -> Heard:
        return await self.until(f"the answer to {what}", lambda: self._answers.get(id))

    async def answered(self, id: Id, what: str) -> Response:
        heard = await self.heard_answer(id, what)
        assert isinstance(heard.message, Response)
        return heard.message

    async def ask(self, method: str, params: Any) -> Response:
        return await self.answered(self.call(method, params), method)

    async def result(self, method: str, params: Any) -> JsonObject:
        """The result of a request; an error fails."""
        return result_of(await self.ask(method, params), method)

    # --- the way to a session

    async def initialize(self, version: Any = VERSION) -> Response:
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
        """Shake hands."""
        with self.preparing():
            result_of(await self.initialize(), "initialize")

    @property
    def place(self) -> JsonObject:
        return {"cwd": str(self.cwd), "mcpServers": []}

    async def session(self) -> str:
        """Shake hands and open a session, in which the agent asks."""
        await self.ready()
        with self.preparing():
            return await self.another_session()

    async def another_session(self) -> str:
        response = await self.ask("session/new", self.place)
        error = response.error
        if error is not None and error.code == AUTH_REQUIRED and self.auth_method is not None:
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
        offered = self.capabilities.get("sessionCapabilities")
        return isinstance(offered, dict) and offered.get(what) not in (None, False)

    def need(self, what: str) -> None:
        """`Ended` if the agent does not say that it can do something with sessions."""
        if not self.sessions_can(what):
            raise not_offered(f"no sessionCapabilities.{what}")

    # --- turns

    def prompt(self, session: str, text: str) -> Id:
        blocks = [{"type": "text", "text": text}]
        return self.call("session/prompt", {"sessionId": session, "prompt": blocks})

    async def end(self, id: Id, what: str = "session/prompt") -> str:
        """How a turn ended: its stop reason."""
        return stop_reason(await self.answered(id, what))

    async def turn(self, session: str, text: str) -> str:
        return await self.end(self.prompt(session, text))

    async def first_word(self, session: str, id: Id, after: int = 0) -> None:
        """Until something is said in a turn that runs. `Ended` if it ends before."""

        def look() -> bool | None:
            return True if id in self._answers or self.said(session, after) else None

        with self.preparing():
            await self.until("the first update of the long turn", look)
            if id in self._answers:
                message = self._answers[id].message
                raise not_provoked(f"the long turn had ended: {shown(message)}")

    def cancel(self, session: str) -> None:
        self.notify("session/cancel", {"sessionId": session})

    async def alive(self) -> str:
        """That requests are still answered: how, in a word."""
        id = self.call(UNKNOWN, {})
        response = await self.answered(id, f"the next request ({UNKNOWN})")
        return "goes on" if response.error is not None else "goes on (and knows any method)"

    async def settled(self) -> None:
        """That what is under way has come, also from an agent that answers no unknown request."""
        with trio.move_on_after(PATIENCE):
            await self.alive()
        self.waits_for = ""
        await self.quiet()

    # --- permissions

    async def permission(self, session: str) -> tuple[Id, Request]:
        """A turn that waits for an answer to its question."""
        self.answers_asks = False
        id = self.prompt(session, self.prompts.permission)

        def look() -> bool | None:
            return True if id in self._answers or self.asks else None

        with self.preparing():
            await self.until("a permission request", look)
            if not self.asks:
                words = shown(self._answers[id].message.result or self._answers[id].message.error)
                raise not_provoked(
                    f"it did not ask (--permission): {words}"
                    + (f", and {TOUCHED} was created" if self.touched else "")
                )
        return id, self.asks.pop(0)

    @property
    def touched(self) -> bool:
        """What was asked about has been done."""
        return (self.cwd / TOUCHED).exists()

    def option(self, ask: Request, kind: OptionKind) -> str | None:
        """The id of an option of that kind."""
        options = ask.params.get("options") if isinstance(ask.params, dict) else None
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("kind") == kind:
                id = option.get("optionId")
                return id if isinstance(id, str) else None
        return None

    def chosen(self, ask: Request, kind: OptionKind) -> str:
        option = self.option(ask, kind)
        if option is None:
            raise not_provoked(f"it offers no option of the kind {kind}")
        return option

    def answer(self, ask: Request, option: str | None) -> None:
        """Answer a permission request with an option, or as cancelled."""
        cancelled = {"outcome": "cancelled"}
        selected = {"outcome": "selected", "optionId": option}
        self.send(result_line(ask.id, {"outcome": cancelled if option is None else selected}))

    def reject_rest(self) -> None:
        """Whatever else it asks is rejected."""
        self.answers_asks = True
        for ask in self.asks:
            self.answer(ask, self.option(ask, "reject_once"))
        self.asks.clear()

    # --- what all protocols have

    async def run_long(self) -> None:
        await self.begin_long(await self.session())

    async def begin_long(self, session: str, *, word: bool = True) -> Id:
        """Begin the long turn; its prompt's id. `word`: wait for the first update."""
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
        with trio.move_on_after(MEASURED):
            if await self.end(id) != "end_turn":
                return None
        return trio.current_time() - began


def result_of(response: Response, what: str) -> JsonObject:
    if response.error is not None:
        raise fails(f"{what} was refused: {described(response.error)}")
    return response.result if isinstance(response.result, dict) else {}


def stop_reason(response: Response) -> str:
    reason = result_of(response, "session/prompt").get("stopReason")
    if reason not in STOP_REASONS:
        raise fails(f"the stop reason is {reason!r}", "must")
    assert isinstance(reason, str)
    return reason


def described(error: RpcError) -> str:
    return shown(f"{error.code} {error.message}")


def at(page: str) -> str:
    """A place in ACP's specification."""
    return ACP + page


def raw_request(id: Id, method: str, params: Any) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
