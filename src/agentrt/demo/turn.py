"""The work on one prompt: its text, its tool calls, and its requests to the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import trio

from ..jsonrpc import Id
from .files import FileRefused
from .session import DemoSession, new_id
from .wire import DemoRpcError, JsonObject

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

TEXT_PACE_S = 0.015
"""Seconds between two pieces of a streamed text."""
_PIECES = re.compile(r"(?:\S+\s*){1,3}|\s+")

OPTIONS: list[JsonObject] = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "yes-always", "name": "Allow always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "no-always", "name": "Reject always", "kind": "reject_always"},
]


def text_content(text: str) -> JsonObject:
    """Return a text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """Return a Markdown code block that the text cannot break out of."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


class DemoToolCall:
    """A tool call as the client sees it. Only its final state is recorded."""

    def __init__(self, session: DemoSession, state: JsonObject) -> None:
        self._session = session
        self.lasting: JsonObject = {}
        """Fields that are recorded instead of those that were sent."""
        self.state: JsonObject = {"toolCallId": f"call_{new_id()}", "status": "pending", **state}
        session.send({"sessionUpdate": "tool_call", **self.state})

    @property
    def open(self) -> bool:
        """True if the call has not ended."""
        return self.state["status"] in ("pending", "in_progress")

    def update(self, **fields: Any) -> None:
        """Send changed fields, with ACP's names."""
        self.state |= fields
        id = self.state["toolCallId"]
        self._session.send({"sessionUpdate": "tool_call_update", "toolCallId": id, **fields})
        if not self.open:
            self._session.record({"sessionUpdate": "tool_call", **self.state, **self.lasting})

    def add(self, text: str) -> None:
        """Add a text to the content."""
        self.update(content=[*self.state.get("content", []), text_content(text)])


class DemoTurn:
    """A running prompt. Every way to stop it cancels `scope`."""

    def __init__(self, session: DemoSession, request_id: Id, prompt: list[JsonObject]) -> None:
        self.session = session
        self.request_id = request_id
        self.prompt = prompt
        texts = [block["text"] for block in prompt if block["type"] == "text"]
        self.text = "\n".join(texts).strip()
        self.scope: trio.CancelScope = trio.CancelScope()
        self.withdrawn = False
        """True if the client withdrew the request itself (`$/cancel_request`)."""
        self.ended: trio.Event = trio.Event()

    async def pause(self, seconds: float) -> None:
        """Pause so that a reader can follow; the instant model does not pause."""
        await self.session.connection.room()
        if self.session.model == "steady":
            await trio.sleep(seconds)

    async def say(self, markdown: str) -> None:
        """Stream one message of the answer."""
        await self._stream("agent_message_chunk", markdown)

    async def think(self, text: str) -> None:
        """Stream a thought, if the session shows thoughts."""
        if self.session.thoughts:
            await self._stream("agent_thought_chunk", text)

    async def _stream(self, kind: str, text: str) -> None:
        """Send a text in pieces, as parts of one message."""
        message = new_id()
        for piece in _PIECES.findall(text):
            content = {"type": "text", "text": piece}
            self.session.say({"sessionUpdate": kind, "content": content, "messageId": message})
            await self.pause(TEXT_PACE_S)

    async def show(self, block: JsonObject) -> None:
        """Send a block of the answer that is not streamed text."""
        self.session.say({"sessionUpdate": "agent_message_chunk", "content": block})
        await self.pause(TEXT_PACE_S)

    async def plan(self, entries: Sequence[tuple[str, str]]) -> None:
        """Replace the plan with these pairs of a step and its status."""
        listed = [{"content": c, "priority": "medium", "status": s} for c, s in entries]
        self.session.say({"sessionUpdate": "plan", "entries": listed})
        await self.pause(TEXT_PACE_S)

    @contextmanager
    def tool(self, title: str, kind: ToolKind, **fields: Any) -> Iterator[DemoToolCall]:
        """Make a tool call that ends with the block: completed, or failed if the block raises."""
        call = DemoToolCall(self.session, {"title": title, "kind": kind, **fields})
        try:
            yield call
        except BaseException as error:
            if isinstance(error, FileRefused):
                call.add(str(error))
            if call.open:
                call.update(status="failed")
            raise
        if call.open:
            call.update(status="completed")

    async def permit(self, call: DemoToolCall) -> None:
        """Ask for permission for the tool call and mark it as running. Raises `Refused` if denied.

        Anything but a clear yes counts as no.
        """
        allowed = self.session.remembered.get(call.state["kind"])
        if self.session.mode == "plan":
            raise FileRefused("I only plan in this mode; `/mode ask` lets me do it.")
        if self.session.mode == "ask" and allowed is None:
            allowed = await self._ask(call)
        if allowed is False:
            raise FileRefused("You did not allow it, so I changed nothing.")
        call.update(status="in_progress")

    async def _ask(self, call: DemoToolCall) -> bool:
        """Ask the client for permission, and remember an answer that is meant for always.

        A cancelled request cancels the turn: the protocol uses it in that sense.
        """
        params = {"toolCall": call.state, "options": OPTIONS}
        try:
            answer = await self.ask("session/request_permission", params)
        except DemoRpcError as error:
            raise FileRefused(f"I could not ask for permission: {error}") from error
        match answer.get("outcome"):
            case {"outcome": "selected", "optionId": str(option)}:
                allowed = option in ("yes", "yes-always")
                if option in ("yes-always", "no-always"):
                    self.session.remembered[call.state["kind"]] = allowed
                return allowed
            case {"outcome": "cancelled"}:
                # This means that the client cancels the turn, even if it sends no cancel.
                self.scope.cancel(reason="the client cancelled a permission request")
                await trio.lowlevel.checkpoint()
        return False

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request about this session to the client. Raises `DemoRpcError`."""
        session_id = self.session.info.session_id
        return await self.session.connection.request(method, {"sessionId": session_id, **params})
