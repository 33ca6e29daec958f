"""A fake ACP agent for tests. It answers the handshake itself and leaves the turns to the test."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

import trio

from ..events import JsonObject
from ..jsonrpc import METHOD_NOT_FOUND
from .memory import AgentSide, MemoryAgent

_SETTINGS: Final = {
    "session/set_mode": "modes",
    "session/set_model": "models",
    "session/set_config_option": "configOptions",
}
"""Setting methods, mapped to the key in the answer to `session/new` that announces them."""


class FakePrompt:
    """A `session/prompt` that the agent has received."""

    def __init__(self, agent: FakeAcpAgent, id: Any, params: JsonObject) -> None:
        self.id = id
        self.params = params
        self.cancelled: trio.Event = trio.Event()
        """Set when the host sends `session/cancel`."""
        self._agent = agent

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        return "".join(block.get("text", "") for block in self.params["prompt"])

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        """Answer the prompt, which ends the turn; `more` are further fields of the answer."""
        self._agent.result(self.id, {"stopReason": stop_reason, **more})

    def fail(self, code: int = -32603, message: str = "Internal error", data: Any = None) -> None:
        """Answer the prompt with an error."""
        self._agent.error(self.id, code, message, data)


class FakeAcpAgent(AgentSide[FakePrompt]):
    """The agent's side of an ACP connection over a `MemoryAgent`.

    Use it in the script of one::

        async def script(process):
            async with FakeAcpAgent.serving(process) as agent:
                async for prompt in agent.prompts:
                    agent.say("hello")
                    prompt.end()

        agent = MemoryAgent(script)

    A separate task reads the host's messages, so the agent sees cancels and answers while the
    script is busy with a turn. `prompts` ends when the host closes the agent's input.

    `requests` delivers the requests that the script must answer, with `result` or `error`: those
    for features that the agent has announced (`capabilities`, and the settings in `new_session`)
    and those named in `answers`. All other requests are refused with -32601, as the protocol
    requires.
    """

    def __init__(
        self,
        process: MemoryAgent,
        *,
        capabilities: JsonObject | None = None,
        session: str = "s1",
        new_session: JsonObject | None = None,
        meta: JsonObject | None = None,
        answers: Collection[str] = (),
    ) -> None:
        """Create the agent's side.

        - `capabilities`, `meta`: the `agentCapabilities` and `_meta` in the answer to `initialize`.
        - `session`: the session's id.
        - `new_session`: further fields of the answer to `session/new`.
        - `answers`: methods of further requests that the script answers.
        """
        super().__init__(process)
        self.session: str = session
        self._capabilities = capabilities or {}
        self._new_session = new_session or {}
        self._meta = meta
        self._own = frozenset(answers)
        self._next_id = 0
        self.requests: trio.MemoryReceiveChannel[JsonObject]
        """Requests of the host for the script to answer, as whole messages."""
        self._asked, self.requests = trio.open_memory_channel[JsonObject](math.inf)

    async def _read(self) -> None:
        with self._asked:
            await super()._read()

    def _take(self, message: JsonObject) -> None:
        match message.get("method"):
            case "initialize":
                answer = {"protocolVersion": 1, "agentCapabilities": self._capabilities}
                if self._meta is not None:
                    answer["_meta"] = self._meta
                self.result(message["id"], answer)
            case "session/new":
                self.result(message["id"], {"sessionId": self.session, **self._new_session})
            case "session/load" | "session/resume":
                self.session = message["params"]["sessionId"]
                self.result(message["id"], self._new_session)
            case "session/fork":
                self.session = f"{message['params']['sessionId']}-fork"
                self.result(message["id"], {"sessionId": self.session, **self._new_session})
            case "session/prompt":
                self._prompted(FakePrompt(self, message["id"], message["params"]))
            case "session/cancel":
                if self.prompt is not None:
                    self.prompt.cancelled.set()
            case None:
                self._answered(message.get("id"), message)
            case method if "id" in message and self._offers(method):
                self._asked.send_nowait(message)
            case method if "id" in message:
                self.error(message["id"], METHOD_NOT_FOUND, f"Method not found: {method}")

    def _offers(self, method: str) -> bool:
        """True if the host may send this request, because the script answers it."""
        if method in _SETTINGS:
            return _SETTINGS[method] in self._new_session
        offered = self._capabilities.get("sessionCapabilities") or {}
        return method in self._own or method.removeprefix("session/") in offered

    # --- writing

    def send(self, message: JsonObject) -> None:
        """Send a message to the host, with the `jsonrpc` field added."""
        super().send({"jsonrpc": "2.0", **message})

    def result(self, id: Any, result: Any) -> None:
        """Answer the host's request `id`."""
        self.send({"id": id, "result": result})

    def error(self, id: Any, code: int, message: str, data: Any = None) -> None:
        """Answer the host's request `id` with an error."""
        self.send({"id": id, "error": {"code": code, "message": message, "data": data}})

    def update(self, kind: str, /, **fields: Any) -> None:
        """Send a `session/update` of this kind."""
        self.send(
            {
                "method": "session/update",
                "params": {
                    "sessionId": self.session,
                    "update": {"sessionUpdate": kind, **fields},
                },
            }
        )

    def say(self, text: str) -> None:
        """Send text of the agent's message."""
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def think(self, text: str) -> None:
        """Send text of the agent's thoughts."""
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def use(self, call: str, title: str, *, kind: str = "other", **fields: Any) -> None:
        """Begin a tool call; `fields` are further fields of the update."""
        more = {"toolCallId": call, "title": title, "kind": kind, "status": "in_progress"}
        self.update("tool_call", **more, **fields)

    def used(self, call: str, text: str = "", *, failed: bool = False) -> None:
        """End a tool call, with `text` as its content."""
        content = [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
        status = "failed" if failed else "completed"
        self.update("tool_call_update", toolCallId=call, status=status, content=content)

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request to the host and return its answer (the whole message)."""
        id = self._next_id
        self._next_id += 1
        about = {"sessionId": self.session, **params}
        return await self._ask(id, {"id": id, "method": method, "params": about})

    async def ask(self, tool_call: str = "call_1", title: str = "Run ls") -> str | None:
        """Request a permission. Returns the chosen option's id, or None if it was cancelled."""
        answer = await self.request(
            "session/request_permission",
            {
                "toolCall": {"toolCallId": tool_call, "title": title},
                "options": [
                    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "always", "name": "Always", "kind": "allow_always"},
                    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
                ],
            },
        )
        outcome: JsonObject = answer["result"]["outcome"]
        return outcome.get("optionId")
