"""OpenAI chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .asks import Ask, Content, Event, Json, Role, Row, Schema, Tool, new_id, text_of
from .scripts import Arguments


class _Message(msgspec.Struct):
    role: str
    content: Content = None


class _Function(msgspec.Struct):
    name: str
    parameters: Schema | None = None


class _Tool(msgspec.Struct):
    function: _Function


class _Request(msgspec.Struct):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    stream: bool | None = None


_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_USAGE: Final[Json] = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


def read(body: bytes) -> Ask:
    request = msgspec.json.decode(body, type=_Request)
    functions = [tool.function for tool in request.tools or ()]
    return Ask(
        model=request.model,
        stream=bool(request.stream),
        rows=[Row(_ROLES.get(m.role, "other"), text_of(m.content)) for m in request.messages],
        tools=[Tool(f.name, f.parameters.names() if f.parameters else None) for f in functions],
    )


class ChatAnswer:
    """One message, sent as deltas."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = new_id("chatcmpl-")
        self._said: list[str] = []
        self._calls: list[Json] = []

    def start(self) -> Iterator[Event]:
        yield self._delta({"role": "assistant", "content": ""})

    def ping(self) -> Iterator[Event]:
        return iter(())

    def text(self, chunks: Sequence[str]) -> Iterator[Event]:
        self._said += chunks
        for chunk in chunks:
            yield self._delta({"content": chunk})

    def thinking(self, text: str) -> Iterator[Event]:
        yield self._delta({"reasoning_content": text})

    def call(self, tool: Tool, arguments: Arguments) -> Iterator[Event]:
        function = {"name": tool.name, "arguments": json.dumps(arguments)}
        call: Json = {"id": new_id("call_"), "type": "function", "function": function}
        index = len(self._calls)
        self._calls.append(call)
        yield self._delta({"tool_calls": [{"index": index, **call}]})

    def failed(self, kind: str) -> Iterator[Event]:
        yield Event({"error": {"message": "scripted error", "type": kind, "code": kind}})

    def finish(self) -> Iterator[Event]:
        yield self._delta({}, self._finish_reason)
        yield Event({**self._head("chat.completion.chunk"), "choices": [], "usage": _USAGE})
        yield Event("[DONE]")

    def whole(self) -> Json:
        message: Json = {"role": "assistant", "content": "".join(self._said)}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": _USAGE}

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if self._calls else "stop"

    def _delta(self, delta: Json, finish_reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return Event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Json:
        created = int(time.time())
        return {"id": self._id, "object": kind, "created": created, "model": self._model}


answer = ChatAnswer
