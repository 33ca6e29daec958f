"""A fake `codex app-server` for tests. It answers the handshake and leaves turns to the test.

Its methods have the names of the other fakes where the protocols have the same thing. Stop reasons
are given in ACP's words and translated, so one script serves all three protocols; `_FAILED` has
those that Codex reports as errors.

A thread has settings, which the host may change; each change is reported with all settings, as
Codex does. The model's answers, tools and approvals are up to the script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from ..events import JsonObject
from ..jsonrpc import METHOD_NOT_FOUND
from .calls import ToolAnswer
from .memory import AgentSide, MemoryAgent

_REFUSED_CODE: Final = -32600
_FAILED: Final = {"refusal": "cyberPolicy", "max_tokens": "contextWindowExceeded"}
"""ACP's stop reasons that are failures in Codex, with their `codexErrorInfo`."""


class FakeCodexPrompt:
    """A `turn/start` that the agent has received.

    `id` is the turn's, and `input` the parts of the prompt as Codex gets them. A script must end
    each prompt once, by `end` or `fail`; until then the host's turn runs.
    """

    def __init__(self, agent: FakeCodexAgent, id: str, input: list[JsonObject]) -> None:
        self.id = id
        self.input = input
        self.cancelled: trio.Event = trio.Event()
        """Set when the host interrupts."""
        self.steered: list[str] = []
        """The texts that were steered into the turn."""
        self._agent = agent

    @property
    def text(self) -> str:
        """The text parts of the prompt, joined."""
        return "".join(part.get("text", "") for part in self.input)

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        """End the turn.

        `stop_reason` is one of ACP's, so that one script works for all protocols; `more` are fields
        of Codex's turn.
        """
        if stop_reason in _FAILED:
            self.fail(stop_reason, kind=_FAILED[stop_reason])
            return
        status = "interrupted" if stop_reason == "cancelled" else "completed"
        self._agent.turn_over(self.id, status, **more)

    def fail(self, message: str = "API Error", *, kind: Any = None) -> None:
        """Fail the turn.

        `kind` is Codex's `codexErrorInfo`, for instance `"usageLimitExceeded"`, or an object with
        one key for kinds that have details.
        """
        error = {"message": message, "codexErrorInfo": kind}
        self._agent.turn_over(self.id, "failed", error=error)


class FakeCodexAgent(AgentSide[FakeCodexPrompt]):
    """The agent's side of the `codex app-server` protocol over a `MemoryAgent`.

    Use it like `FakeAcpAgent`. It has the same methods: a script that uses `prompts`, `say`,
    `think`, `use`, `used`, `ask` and `prompt.end` runs with either.

    - `process`: the process, whose input is read while `serving` is open.
    - `thread`: the id of the thread that the host starts.
    - `models`: the names of the models that `model/list` reports.
    - `version`: the version that Codex reports; the host chooses features by it.

    Requests that it does not handle get the error `METHOD_NOT_FOUND`.
    """

    def __init__(
        self,
        process: MemoryAgent,
        *,
        thread: str = "t1",
        models: Sequence[str] = ("fake", "fake-mini"),
        version: str = "0.169.0",
    ) -> None:
        """Create the agent's side: `thread` is the thread's id, `models` the models on offer."""
        super().__init__(process)
        self.thread: str = thread
        self._models = models
        self._version = version
        self._next = 0
        self._settings: JsonObject = {}
        self._calls: dict[str, JsonObject] = {}
        """The items of the open calls, by id."""

    def _take(self, message: JsonObject) -> None:
        """Take one message: an answer, a request with a handler, or one that does not exist."""
        params: JsonObject = message.get("params") or {}
        method = message.get("method")
        if method is None:
            self._answered(message.get("id"), message)
        elif handler := _HANDLERS.get(method):
            handler(self, message["id"], params)
        elif "id" in message:
            self.error(message["id"], METHOD_NOT_FOUND, f"Method not found: {method}")

    def _initialize(self, id: Any, params: JsonObject) -> None:
        """Answer the handshake, with the version in the form in which Codex reports it."""
        self.result(id, {"userAgent": f"agentrt/{self._version} (fake)"})

    def _account(self, id: Any, params: JsonObject) -> None:
        """Report that no login is needed."""
        self.result(id, {"account": None, "requiresOpenaiAuth": False})

    def _list_models(self, id: Any, params: JsonObject) -> None:
        self.result(id, {"data": [_model(name) for name in self._models]})

    def _resume(self, id: Any, params: JsonObject) -> None:
        """Resume the thread that the host names."""
        self.thread = params["threadId"]
        self._opened(id, params)

    def _fork(self, id: Any, params: JsonObject) -> None:
        """Fork a thread; the new one has a suffix, so that a test can tell them apart."""
        self.thread = f"{params['threadId']}-fork"
        self._opened(id, params)

    def _interrupt(self, id: Any, params: JsonObject) -> None:
        """Acknowledge an interrupt, and set `cancelled` of the prompt if it is about its turn."""
        self.result(id, {})
        if self.prompt is not None and self.prompt.id == params["turnId"]:
            self.prompt.cancelled.set()

    def _update_settings(self, id: Any, params: JsonObject) -> None:
        """Apply changed settings, and report all of them, as Codex does."""
        self._settings |= {k: v for k, v in params.items() if k != "threadId"}
        self.result(id, {})
        self.notify("thread/settings/updated", threadSettings=self._settings)

    def _opened(self, id: Any, params: JsonObject) -> None:
        """Answer the start of a thread with its settings: those of the request, or the defaults."""
        self._settings = {
            "model": params.get("model") or self._models[0],
            "approvalPolicy": params.get("approvalPolicy") or "untrusted",
            "sandboxPolicy": {"type": "readOnly"},
        }
        thread = {"id": self.thread, "preview": "", "cwd": params.get("cwd"), "updatedAt": 0}
        settings = {**self._settings, "sandbox": self._settings["sandboxPolicy"]}
        self.result(id, {"thread": thread, **settings})

    def _started(self, id: Any, params: JsonObject) -> None:
        """Begin a turn for a prompt, and give the prompt to the script."""
        self._next += 1
        prompt = FakeCodexPrompt(self, f"u{self._next}", params["input"])
        turn = {"id": prompt.id, "status": "inProgress", "items": []}
        self.result(id, {"turn": turn})
        self.notify("turn/started", turn=turn)
        self._prompted(prompt)

    def _steered(self, id: Any, params: JsonObject) -> None:
        """Take text for the running turn, or refuse it as Codex does if that turn is over."""
        prompt = self.prompt
        if prompt is None or prompt.id != params["expectedTurnId"]:
            self.error(id, _REFUSED_CODE, "no active turn to steer")
            return
        prompt.steered.append("".join(part.get("text", "") for part in params["input"]))
        self.result(id, {"turnId": prompt.id})

    # --- writing

    def result(self, id: Any, result: Any) -> None:
        """Answer the host's request `id`."""
        self.send({"id": id, "result": result})

    def error(self, id: Any, code: int, message: str, data: Any = None) -> None:
        """Answer the host's request `id` with an error."""
        self.send({"id": id, "error": {"code": code, "message": message, "data": data}})

    def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification about the thread."""
        self.send({"method": method, "params": {"threadId": self.thread, **params}})

    def item(self, when: str, item: JsonObject) -> None:
        """Report that an item of the turn is `started` or `completed`."""
        self.notify(f"item/{when}", turnId=self._turn, item=item)

    @property
    def _turn(self) -> str | None:
        """The id of the turn of the last prompt, or None."""
        return self.prompt.id if self.prompt is not None else None

    def _spoken(self, kind: str, begun: JsonObject, whole: JsonObject, piece: str) -> None:
        """Send an item that is text: its start, its text in one piece, and its end."""
        self._next += 1
        item = {"type": kind, "id": f"i{self._next}"}
        self.item("started", {**item, **begun})
        delta = "textDelta" if kind == "reasoning" else "delta"
        self.notify(f"item/{kind}/{delta}", turnId=self._turn, itemId=item["id"], delta=piece)
        self.item("completed", {**item, **whole})

    def say(self, text: str) -> None:
        """Send a message of the agent."""
        self._spoken("agentMessage", {"text": ""}, {"text": text}, text)

    def think(self, text: str) -> None:
        """Send a reasoning item."""
        self._spoken("reasoning", {"content": []}, {"content": [text]}, text)

    def use(self, call: str, title: str, **fields: Any) -> None:
        """Begin a tool call: the command `title`. `fields` are further fields of its item."""
        item = {"type": "commandExecution", "id": call, "command": title, "cwd": "/"}
        self._calls[call] = item = {**item, "status": "inProgress", **fields}
        self.item("started", item)

    def used(self, call: str, text: str = "", *, failed: bool = False) -> None:
        """End a tool call, with `text` as its output."""
        item = self._calls.pop(call)
        status = "failed" if failed else "completed"
        more = {"aggregatedOutput": text, "exitCode": 1 if failed else 0, "status": status}
        self.item("completed", {**item, **more})

    def turn_over(self, turn: str, status: str, **more: Any) -> None:
        """Send `turn/completed`, with the status `completed`, `interrupted` or `failed`."""
        self.notify("turn/completed", turn={"id": turn, "status": status, "items": [], **more})

    # --- asking

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request to the host and return its answer (the whole message)."""
        self._next += 1
        id = self._next
        about = {"threadId": self.thread, "turnId": self._turn, **params}
        return await self._ask(id, {"id": id, "method": method, "params": about})

    async def ask(self, tool_call: str = "call_1", title: str = "ls") -> str | None:
        """Request a permission for a command, and wait for the answer.

        Returns Codex's decision, such as `"accept"` or `"decline"`, or None if it was cancelled.
        """
        answer = await self.request(
            "item/commandExecution/requestApproval",
            {
                "itemId": tool_call,
                "command": title,
                "cwd": "/",
                "availableDecisions": ["accept", "acceptForSession", "cancel"],
                "startedAtMs": 0,
            },
        )
        decision: str = answer["result"]["decision"]
        return None if decision == "cancel" else decision

    async def call_tool(self, name: str, /, **arguments: Any) -> ToolAnswer:
        """Call one of the program's own tools. Returns the answer that the model reads.

        Raises `ValueError` for an unknown tool.
        """
        self._next += 1
        call = {"callId": f"tool-{self._next}", "tool": name, "arguments": arguments}
        answer = await self.request("item/tool/call", call)
        if "error" in answer:
            raise ValueError(f"{name}: {answer['error']['message']}")
        result: JsonObject = answer["result"]
        parts = [part["text"] for part in result["contentItems"] if part["type"] == "inputText"]
        return ToolAnswer("\n".join(parts), is_error=not result["success"])


def _model(name: str) -> JsonObject:
    """Return a model as `model/list` has it."""
    named = {"model": name, "displayName": name, "description": ""}
    return {**named, "hidden": False, "supportedReasoningEfforts": []}


_HANDLERS: Final[dict[str, Callable[[FakeCodexAgent, Any, JsonObject], None]]] = {
    "initialize": FakeCodexAgent._initialize,
    "account/read": FakeCodexAgent._account,
    "model/list": FakeCodexAgent._list_models,
    "thread/start": FakeCodexAgent._opened,
    "thread/resume": FakeCodexAgent._resume,
    "thread/fork": FakeCodexAgent._fork,
    "turn/start": FakeCodexAgent._started,
    "turn/steer": FakeCodexAgent._steered,
    "turn/interrupt": FakeCodexAgent._interrupt,
    "thread/settings/update": FakeCodexAgent._update_settings,
}
