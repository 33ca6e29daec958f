"""The client's side of Codex's protocol (`codex app-server`), for checks. It offers no tools."""

from __future__ import annotations

from typing import Any, Final

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
from .check import TOUCHED, fails, inconclusive, shown
from .peer import MEASURE_TIMEOUT_S
from .rpc import RpcPeer, described, result_of

WHERE: Final = "https://developers.openai.com/codex/app-server"
APPROVALS: Final = frozenset(
    {"item/commandExecution/requestApproval", "item/fileChange/requestApproval"}
)
STATUSES: Final = ("completed", "interrupted", "failed")


class ObservedCodexTurn:
    """The state of one turn, as far as it is known."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.began = False
        self.said = 0
        """Number of its items and their pieces."""
        self.status: str | None = None
        """The status at its end; None while it runs."""
        self.late = 0
        """Number of messages about it after its end."""


class CodexPeer(RpcPeer):
    """The client of one `codex app-server`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.asks: list[JsonRpcRequest] = []
        """Approval requests without an answer."""
        self.answers_asks = True
        """True if approval requests are declined immediately; if false, the check answers them."""
        self.turns: dict[str, ObservedCodexTurn] = {}
        self.resolved: set[Id] = set()
        """Requests of the agent that it reports as resolved."""

    # --- incoming messages

    def asked(self, request: JsonRpcRequest) -> None:
        """Answer a request: an approval by declining it, unless the check answers it itself. All
        other requests are refused.
        """
        if request.method not in APPROVALS:
            error = JsonRpcError(METHOD_NOT_FOUND, f"no such method: {request.method}")
            self.send(error_line(request.id, error))
        elif self.answers_asks:
            self.decide(request, "decline")
        else:
            self.asks.append(request)

    def notified(self, notification: JsonRpcNotification) -> None:
        """Record a notification for the checks: the state of its turn, and whether an item came
        late.
        """
        params = notification.params if isinstance(notification.params, dict) else {}
        given = params.get("turn")
        about = given if isinstance(given, dict) else {}
        turn = self._turn(str(params.get("threadId")), about.get("id") or params.get("turnId"))
        match notification.method:
            case "turn/started" if turn is not None:
                turn.began = True
            case "turn/completed" if turn is not None:
                turn.status = str(about.get("status"))
            case "serverRequest/resolved":
                self.resolved.add(params.get("requestId"))
            case method if turn is not None and method.startswith("item/"):
                item = params.get("item")
                if isinstance(item, dict) and item.get("type") == "userMessage":
                    return
                turn.said += 1
                turn.late += turn.status is not None

    def _turn(self, thread: str, id: Any) -> ObservedCodexTurn | None:
        """Return the observed turn with this id, which may be new; None without an id."""
        return self.turns.setdefault(id, ObservedCodexTurn(thread)) if isinstance(id, str) else None

    # --- opening a thread

    async def initialize(self) -> JsonRpcResponse:
        """Send `initialize` and note the agent's name and version."""
        info = {"name": "agentrt-conformance", "title": "agentrt", "version": __version__}
        response = await self.ask("initialize", {"clientInfo": info})
        result = response.result if isinstance(response.result, dict) else {}
        agent = str(result.get("userAgent") or "")
        _, _, version = agent.partition("/")
        self.info = {"name": "codex", "version": version.split(" ")[0]} if agent else {}
        return response

    async def ready(self) -> None:
        with self.preparing():
            result_of(await self.initialize(), "initialize")
            self.notify("initialized", {})

    @property
    def place(self) -> JsonObject:
        """The parameters of a thread that asks before each command not known to be harmless."""
        return {
            "cwd": str(self.cwd),
            "approvalPolicy": "untrusted",
            "sandbox": "read-only",
        }

    async def thread(self) -> str:
        """Complete the handshake and start a thread that asks."""
        await self.ready()
        with self.preparing():
            return await self.another_thread()

    async def another_thread(self) -> str:
        """Start a thread and return its id."""
        result = await self.result("thread/start", self.place)
        thread = result.get("thread")
        id = thread.get("id") if isinstance(thread, dict) else None
        if not isinstance(id, str):
            raise fails(f"thread/start gave no thread with an id: {shown(result)}")
        return id

    # --- turns

    def prompt(self, thread: str, text: str) -> Id:
        """Send a prompt and return its request's id."""
        said = [{"type": "text", "text": text}]
        return self.call("turn/start", {"threadId": thread, "input": said})

    async def taken(self, request: Id) -> str:
        """Return the id of the turn that a prompt has started."""
        result = result_of(await self.answered(request, "turn/start"), "turn/start")
        turn = result.get("turn")
        id = turn.get("id") if isinstance(turn, dict) else None
        if not isinstance(id, str):
            raise fails(f"turn/start gave no turn with an id: {shown(result)}")
        return id

    async def end(self, turn: str, what: str = "a prompt's turn") -> str:
        """Wait for the end of a turn and return its status."""

        def poll() -> str | None:
            known = self.turns.get(turn)
            return None if known is None else known.status

        status = await self.until(f"turn/completed of {what}", poll)
        if status not in STATUSES:
            raise fails(f"the status of {what} is {status!r}")
        return status

    async def turn(self, thread: str, text: str) -> str:
        """Run a turn and return its status."""
        return await self.end(await self.taken(self.prompt(thread, text)))

    async def runs(self, turn: str) -> None:
        """Wait for `turn/started`: before it, an interrupt has nothing to stop."""

        def poll() -> bool | None:
            known = self.turns.get(turn)
            return True if known is not None and (known.began or known.status) else None

        await self.until("turn/started", poll)

    async def long(self, thread: str) -> str:
        """Begin the long turn and wait for its first output. Returns the turn's id."""
        assert self.long_turn
        with self.preparing():
            turn = await self.taken(self.prompt(thread, self.prompts.long))

            def poll() -> bool | None:
                known = self.turns.get(turn)
                return True if known is not None and (known.said or known.status) else None

            await self.until("the first words of the long turn", poll)
            if (status := self.turns[turn].status) is not None:
                raise inconclusive(f"the long turn had ended: {status}")
        return turn

    def interrupt(self, thread: str, turn: str) -> Id:
        """Send `turn/interrupt` and return its request's id."""
        return self.call("turn/interrupt", {"threadId": thread, "turnId": turn})

    async def answer_if_quick(self, request: Id) -> JsonRpcResponse | None:
        """Return the answer to a request if it arrives soon; otherwise None."""
        await self.quiet()
        heard = self._answers.get(request)
        return None if heard is None else heard.message

    # --- approvals

    async def permission(self, thread: str) -> tuple[str, JsonRpcRequest]:
        """Start a turn and wait for its approval request."""
        self.answers_asks = False
        with self.preparing():
            turn = await self.taken(self.prompt(thread, self.prompts.permission))

            def poll() -> bool | None:
                known = self.turns.get(turn)
                over = known is not None and known.status is not None
                return True if self.asks or over else None

            await self.until("an approval request", poll)
            if not self.asks:
                status = self.turns[turn].status
                raise inconclusive(
                    f"it did not ask (--permission): {status}"
                    + (f", and {TOUCHED} was created" if self.touched_file else "")
                )
        return turn, self.asks.pop(0)

    def decide(self, ask: JsonRpcRequest, decision: Any) -> None:
        """Answer an approval request."""
        self.send(result_line(ask.id, {"decision": decision}))

    def decline_rest(self) -> None:
        """Decline all open and further approval requests."""
        self.answers_asks = True
        for ask in self.asks:
            self.decide(ask, "decline")
        self.asks.clear()

    @property
    def touched_file(self) -> bool:
        """True if the action that needed approval has been done."""
        return (self.cwd / TOUCHED).exists()

    # --- common to all protocols

    async def run_long(self) -> None:
        await self.long(await self.thread())

    async def run_question(self) -> None:
        await self.permission(await self.thread())

    async def measure(self) -> float | None:
        """Run the long turn and return its duration."""
        thread = await self.thread()
        began = trio.current_time()
        with trio.move_on_after(MEASURE_TIMEOUT_S):
            if await self.turn(thread, self.prompts.long) != "completed":
                return None
        return trio.current_time() - began


def refused(response: JsonRpcResponse, what: str) -> str:
    """Describe a refusal. Raises `CheckEnded` if the request was not refused."""
    if response.error is None:
        raise fails(f"{what}: {shown(response.result)}")
    return f"refused: {described(response.error)}"
