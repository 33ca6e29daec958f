"""One prompt's work: what it says, its tool calls, and what it asks the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import trio

from .._wire.jsonrpc import Id
from .files import Refused
from .session import Session, new_id
from .wire import JsonObject, RpcError

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
ToolKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]

PACE = 0.015
"""Seconds between two pieces of a streamed text."""
_PIECES = re.compile(r"(?:\S+\s*){1,3}|\s+")

OPTIONS: list[JsonObject] = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "yes-always", "name": "Allow always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "no-always", "name": "Reject always", "kind": "reject_always"},
]


def text_content(text: str) -> JsonObject:
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block that the text cannot break out of."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


class ToolCall:
    """A tool call as the client sees it. It is recorded once, as it ended."""

    def __init__(self, session: Session, state: JsonObject) -> None:
        self._session = session
        self.lasting: JsonObject = {}
        """Fields that are recorded in the place of those that were sent."""
        self.state: JsonObject = {"toolCallId": f"call_{new_id()}", "status": "pending", **state}
        session.send({"sessionUpdate": "tool_call", **self.state})

    @property
    def open(self) -> bool:
        return self.state["status"] in ("pending", "in_progress")

    def update(self, **fields: Any) -> None:
        """Send changed fields, in ACP's words."""
        self.state |= fields
        id = self.state["toolCallId"]
        self._session.send({"sessionUpdate": "tool_call_update", "toolCallId": id, **fields})
        if not self.open:
            self._session.record({"sessionUpdate": "tool_call", **self.state, **self.lasting})

    def add(self, text: str) -> None:
        """Add a text to the content."""
        self.update(content=[*self.state.get("content", []), text_content(text)])


class Turn:
    """A running prompt. Cancelling `scope` is how it is stopped, from whatever side."""

    def __init__(self, session: Session, request_id: Id, prompt: list[JsonObject]) -> None:
        self.session = session
        self.request_id = request_id
        self.prompt = prompt
        texts = [block["text"] for block in prompt if block["type"] == "text"]
        self.text = "\n".join(texts).strip()
        self.scope = trio.CancelScope()
        self.withdrawn = False
        """The client took back the request itself (`$/cancel_request`)."""
        self.ended = trio.Event()

    async def pause(self, seconds: float) -> None:
        """Let a reader follow; no time at all with the instant model."""
        await self.session.connection.room()
        if self.session.model == "steady":
            await trio.sleep(seconds)

    async def say(self, markdown: str) -> None:
        """Stream one message of the answer."""
        await self._stream("agent_message_chunk", markdown)

    async def think(self, text: str) -> None:
        if self.session.thoughts:
            await self._stream("agent_thought_chunk", text)

    async def _stream(self, kind: str, text: str) -> None:
        message = new_id()
        for piece in _PIECES.findall(text):
            content = {"type": "text", "text": piece}
            self.session.say({"sessionUpdate": kind, "content": content, "messageId": message})
            await self.pause(PACE)

    async def show(self, block: JsonObject) -> None:
        """A block of the answer that is not streamed text."""
        self.session.say({"sessionUpdate": "agent_message_chunk", "content": block})
        await self.pause(PACE)

    async def plan(self, entries: Sequence[tuple[str, str]]) -> None:
        """Replace the plan by these pairs of a step and its status."""
        listed = [{"content": c, "priority": "medium", "status": s} for c, s in entries]
        self.session.say({"sessionUpdate": "plan", "entries": listed})
        await self.pause(PACE)

    @contextmanager
    def tool(self, title: str, kind: ToolKind, **fields: Any) -> Iterator[ToolCall]:
        """A tool call that is closed with the block: completed, or failed if the block raises."""
        call = ToolCall(self.session, {"title": title, "kind": kind, **fields})
        try:
            yield call
        except BaseException as error:
            if isinstance(error, Refused):
                call.add(str(error))
            if call.open:
                call.update(status="failed")
            raise
        if call.open:
            call.update(status="completed")

    async def permit(self, call: ToolCall) -> None:
        """Have the tool call allowed, and mark it as running; raises `Refused` if it is not.

        What is not clearly a yes is a no.
        """
        allowed = self.session.remembered.get(call.state["kind"])
        if self.session.mode == "plan":
            raise Refused("I only plan in this mode; `/mode ask` lets me do it.")
        if self.session.mode == "ask" and allowed is None:
            allowed = await self._ask(call)
        if allowed is False:
            raise Refused("You did not allow it, so I changed nothing.")
        call.update(status="in_progress")

    async def _ask(self, call: ToolCall) -> bool:
        params = {"toolCall": call.state, "options": OPTIONS}
        try:
            answer = await self.ask("session/request_permission", params)
        except RpcError as error:
            raise Refused(f"I could not ask for permission: {error}") from error
        match answer.get("outcome"):
            case {"outcome": "selected", "optionId": str(option)}:
                allowed = option in ("yes", "yes-always")
                if option in ("yes-always", "no-always"):
                    self.session.remembered[call.state["kind"]] = allowed
                return allowed
            case {"outcome": "cancelled"}:
                # It means that the client cancels this turn, whether or not it says so again.
                self.scope.cancel(reason="the client cancelled a permission request")
                await trio.lowlevel.checkpoint()
        return False

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """A request to the client about this session; raises `RpcError`."""
        session_id = self.session.info.session_id
        return await self.session.connection.request(method, {"sessionId": session_id, **params})
