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
    """A `session/prompt` that the agent has received.

    `params` are those of the request, in the form of the session's version of ACP. A script must
    answer each prompt once, by `end` or `fail`; until then the host's turn runs. A script that does
    not wait for `cancelled` is an agent that ignores cancels.
    """

    def __init__(self, agent: FakeAcpAgent, id: Any, params: JsonObject) -> None:
        self.id = id
        self.params = params
        self.cancelled: trio.Event = trio.Event()
        """Set when the host sends `session/cancel`."""
        self.message: str = f"user_{id}"
        """The id of the user's message (version 2)."""
        self.taken: bool = False
        """True once the prompt has been answered as part of the conversation (version 2)."""
        self._agent = agent

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        return "".join(block.get("text", "") for block in self.params["prompt"])

    def take(self) -> None:
        """Make the prompt part of the conversation and begin its turn, as version 2 requires.

        In version 1 it does nothing. The other methods of the prompt and of the agent do it
        themselves if the script has not.
        """
        agent = self._agent
        if agent.version == 1 or self.taken:
            return
        self.taken = True
        agent.update("user_message", messageId=self.message, content=self.params["prompt"])
        agent.result(self.id, {"messageId": self.message})
        agent.state("running")

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        """End the turn: by the answer to the prompt, in version 2 by the state `idle`.

        `more` are further fields of either.
        """
        if self._agent.version == 1:
            self._agent.result(self.id, {"stopReason": stop_reason, **more})
        else:
            self.take()
            self._agent.state("idle", stopReason=stop_reason, **more)

    def fail(self, code: int = -32603, message: str = "Internal error", data: Any = None) -> None:
        """End the turn with an error. In version 2 an untaken prompt is refused."""
        if self._agent.version == 1 or not self.taken:
            self._agent.error(self.id, code, message, data)
        else:
            error = {"code": code, "message": message, "data": data}
            self._agent.state("idle", stopReason="error", error=error)


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
        version: int = 1,
    ) -> None:
        """Create the agent's side.

        - `capabilities`, `meta`: the `agentCapabilities` and `_meta` in the answer to `initialize`.
        - `session`: the session's id.
        - `new_session`: further fields of the answer to `session/new`.
        - `answers`: methods of further requests that the script answers.
        - `version`: the highest version of ACP that the agent speaks, 1 or 2; `capabilities` and
          `new_session` have the shape of that version.
        """
        super().__init__(process)
        self.version: int = 1
        """The version of ACP that the host and the agent have agreed on."""
        self._highest = version
        self._message = 0
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
        """Read the host's messages; `requests` ends with them."""
        with self._asked:
            await super()._read()

    def _take(self, message: JsonObject) -> None:
        """Answer one message of the client as an agent would, or pass it on to the script.

        Prompts and offered requests wait for the script; every other request that the fake does not
        know is answered with `METHOD_NOT_FOUND`.
        """
        match message.get("method"):
            case "initialize":
                params = message["params"]
                if self._highest > 1 and params["protocolVersion"] > 1:
                    self.version = 2
                    answer: JsonObject = {
                        "protocolVersion": 2,
                        "info": {"name": "fake", "version": "1"},
                        "capabilities": self._capabilities,
                    }
                else:
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
                self._message += 1
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
        if self.version > 1:
            offered = {"list": {}, "close": {}, **(self._capabilities.get("session") or {})}
        if method == "session/set_title":
            return "title" in offered
        if method in ("providers/list", "providers/set", "providers/disable"):
            return "providers" in self._capabilities
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

    def state(self, state: str, **fields: Any) -> None:
        """Send the state of the session (version 2): `running`, `requires_action` or `idle`."""
        self.update("state_update", state=state, **fields)

    def say(self, text: str) -> None:
        """Send text of the agent's message."""
        self._speak("agent_message_chunk", text)

    def think(self, text: str) -> None:
        """Send text of the agent's thoughts."""
        self._speak("agent_thought_chunk", text)

    def _speak(self, kind: str, text: str) -> None:
        """Send a piece of text; in version 2 with the id of the message that it belongs to."""
        message: JsonObject = {}
        if self.version > 1:
            self._begin()
            message = {"messageId": f"{kind.removesuffix('_chunk')}_{self._message}"}
        self.update(kind, content={"type": "text", "text": text}, **message)

    def _begin(self) -> None:
        """Take the prompt, if there is one: its output comes after it."""
        if self.prompt is not None:
            self.prompt.take()

    def use(self, call: str, title: str, *, kind: str = "other", **fields: Any) -> None:
        """Begin a tool call; `fields` are further fields of the update."""
        more = {"toolCallId": call, "title": title, "kind": kind, "status": "in_progress"}
        if self.version > 1:
            self._begin()
            self._message += 1  # text after it is another message
        self.update("tool_call" if self.version == 1 else "tool_call_update", **more, **fields)

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
        call = {"toolCallId": tool_call, "title": title}
        about: JsonObject = {"toolCall": call}
        if self.version > 1:
            self._begin()
            about = {"title": title, "subject": {"type": "tool_call", "toolCall": call}}
        answer = await self.request(
            "session/request_permission",
            {
                **about,
                "options": [
                    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "always", "name": "Always", "kind": "allow_always"},
                    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
                ],
            },
        )
        outcome: JsonObject = answer["result"]["outcome"]
        return outcome.get("optionId")
