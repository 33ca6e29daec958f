"""A fake ACP agent for tests: it shakes hands by itself and leaves the turns to the test."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

import trio

from .._model.content import JsonObject
from .._wire.jsonrpc import METHOD_NOT_FOUND
from .agent_side import AgentSide
from .memory import MemoryAgent

_SETTINGS: Final = {
    "session/set_mode": "modes",
    "session/set_model": "models",
    "session/set_config_option": "configOptions",
}
"""Where an agent says that it takes them."""


class FakePrompt:
    """A `session/prompt` that the agent has received."""

    def __init__(self, agent: FakeAcpAgent, id: Any, params: JsonObject) -> None:
        self.id = id
        self.params = params
        self.cancelled = trio.Event()
        """Set when the host sends `session/cancel`."""
        self._agent = agent

    @property
    def text(self) -> str:
        return "".join(block.get("text", "") for block in self.params["prompt"])

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        self._agent.result(self.id, {"stopReason": stop_reason, **more})

    def fail(self, code: int = -32603, message: str = "Internal error", data: Any = None) -> None:
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

    A task of its own reads what the host says, so that a turn that is busy still sees cancels and
    answers. At the end of its input `prompts` ends.

    Requests for what the agent has offered (`capabilities`, and the settings in `new_session`), and
    those named by `answers`, come by `requests` for the script to answer, with `result` or `error`.
    Any other one is refused as the protocol says, with -32601.
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
        """`capabilities`, `meta`: the `agentCapabilities` and `_meta` that `initialize` is answered
        with; `session`: the id of its session; `new_session`: what else is said of a new one."""
        super().__init__(process)
        self.session = session
        self._capabilities = capabilities or {}
        self._new_session = new_session or {}
        self._meta = meta
        self._own = frozenset(answers)
        self._next_id = 0
        self.requests: trio.MemoryReceiveChannel[JsonObject]
        """The host's requests that are left to the script, as whole messages."""
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
        """Whether the host may ask for this, as the script knows the answer."""
        if method in _SETTINGS:
            return _SETTINGS[method] in self._new_session
        offered = self._capabilities.get("sessionCapabilities") or {}
        return method in self._own or method.removeprefix("session/") in offered

    # --- writing

    def send(self, message: JsonObject) -> None:
        super().send({"jsonrpc": "2.0", **message})

    def result(self, id: Any, result: Any) -> None:
        self.send({"id": id, "result": result})

    def error(self, id: Any, code: int, message: str, data: Any = None) -> None:
        self.send({"id": id, "error": {"code": code, "message": message, "data": data}})

    def update(self, kind: str, /, **fields: Any) -> None:
        """A `session/update` of that kind."""
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
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def think(self, text: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def use(self, call: str, title: str, *, kind: str = "other", **fields: Any) -> None:
        """Begin a tool call."""
        more = {"toolCallId": call, "title": title, "kind": kind, "status": "in_progress"}
        self.update("tool_call", **more, **fields)

    def used(self, call: str, text: str = "", *, failed: bool = False) -> None:
        """End it."""
        content = [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
        status = "failed" if failed else "completed"
        self.update("tool_call_update", toolCallId=call, status=status, content=content)

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the host and wait for its answer (the whole message)."""
        id = self._next_id
        self._next_id += 1
        about = {"sessionId": self.session, **params}
        return await self._ask(id, {"id": id, "method": method, "params": about})

    async def ask(self, tool_call: str = "call_1", title: str = "Run ls") -> str | None:
        """Request a permission; the chosen option's id, or None if it was cancelled."""
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
