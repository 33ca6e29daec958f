"""Gemini: `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .asks import Ask, Event, Json, Row, Schema, Tool, new_id
from .scripts import Arguments


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_response: Json | None = None


class _Message(msgspec.Struct):
    role: str = "user"
    parts: list[_Part] = []

    def row(self) -> Row:
        text = "\n".join(part.text for part in self.parts if part.text and not part.thought)
        if self.role == "model":
            return Row("assistant", text)
        answered = any(part.function_response is not None for part in self.parts)
        return Row("other" if answered else "user", text)


class _Function(msgspec.Struct, rename="camel"):
    name: str
    parameters: Schema | None = None
    parameters_json_schema: Schema | None = None


class _Tools(msgspec.Struct, rename="camel"):
    function_declarations: list[_Function] = []


class _Request(msgspec.Struct):
    contents: list[_Message]
    tools: list[_Tools] = []


_USAGE: Final[Json] = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}


def read(body: bytes) -> Ask:
    """The request; its model and whether it streams stand in the URL, not here."""
    request = msgspec.json.decode(body, type=_Request)
    functions = [f for tools in request.tools for f in tools.function_declarations]
    schemas = [f.parameters_json_schema or f.parameters for f in functions]
    return Ask(
        model="scripted",
        stream=False,
        rows=[message.row() for message in request.contents],
        tools=[
            Tool(f.name, schema.names() if schema else None)
            for f, schema in zip(functions, schemas, strict=True)
        ],
    )


class GeminiAnswer:
    """Parts, each in a response of its own while streaming."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = new_id("g")
        self._parts: list[Json] = []

    def start(self) -> Iterator[Event]:
        return iter(())

    def ping(self) -> Iterator[Event]:
        return iter(())

    def text(self, chunks: Sequence[str]) -> Iterator[Event]:
        for chunk in chunks:
            yield self._part({"text": chunk})

    def thinking(self, text: str) -> Iterator[Event]:
        yield self._part({"text": f"**Thinking** {text}", "thought": True})

    def call(self, tool: Tool, arguments: Arguments) -> Iterator[Event]:
        call = {"id": new_id("call_"), "name": tool.name, "args": arguments}
        yield self._part({"functionCall": call})

    def failed(self, kind: str) -> Iterator[Event]:
        yield Event({"error": {"code": 503, "message": "scripted error", "status": kind}})

    def finish(self) -> Iterator[Event]:
        yield Event(self._response([{"text": ""}], "STOP"))

    def whole(self) -> Json:
        return self._response(self._parts, "STOP")

    def _part(self, part: Json) -> Event:
        self._parts.append(part)
        return Event(self._response([part]))

    def _response(self, parts: list[Json], finish_reason: str | None = None) -> Json:
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish_reason:
            candidate["finishReason"] = finish_reason
        return {
            "candidates": [candidate],
            "modelVersion": self._model,
            "responseId": self._id,
            "usageMetadata": _USAGE,
        }


answer = GeminiAnswer
