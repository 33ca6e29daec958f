"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from .asks import Ask, Content, Event, Json, Role, Row, Schema, Tool, new_id, pieces, text_of
from .scripts import Arguments


class _Message(msgspec.Struct):
    role: str
    content: Content = None


class _Tool(msgspec.Struct):
    name: str
    input_schema: Schema | None = None


class _Request(msgspec.Struct):
    model: str
    messages: list[_Message]
    tools: list[_Tool] = []
    stream: bool = False


_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_SIGNATURE = "c2lnbmVk"


def read(body: bytes) -> Ask:
    request = msgspec.json.decode(body, type=_Request)
    return Ask(
        model=request.model,
        stream=request.stream,
        rows=[Row(_ROLES.get(m.role, "other"), text_of(m.content)) for m in request.messages],
        tools=[
            Tool(tool.name, tool.input_schema.names() if tool.input_schema else None)
            for tool in request.tools
        ],
    )


class AnthropicAnswer:
    """Blocks one after the other, each opened, filled by deltas and closed."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._blocks: list[Json] = []
        self._stop_reason = "end_turn"

    def start(self) -> Iterator[Event]:
        yield _event("message_start", message=self._message([], None))
        yield from self.ping()

    def ping(self) -> Iterator[Event]:
        yield _event("ping")

    def text(self, chunks: Sequence[str]) -> Iterator[Event]:
        deltas = ({"type": "text_delta", "text": chunk} for chunk in chunks)
        return self._block({"type": "text", "text": "".join(chunks)}, {"text": ""}, deltas)

    def thinking(self, text: str) -> Iterator[Event]:
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": _SIGNATURE},
        ]
        block: Json = {"type": "thinking", "thinking": text, "signature": _SIGNATURE}
        return self._block(block, {"thinking": "", "signature": ""}, deltas)

    def call(self, tool: Tool, arguments: Arguments) -> Iterator[Event]:
        self._stop_reason = "tool_use"
        raw = json.dumps(arguments)
        halves = pieces(raw, len(raw) // 2 + 1)
        deltas = ({"type": "input_json_delta", "partial_json": half} for half in halves)
        block: Json = {"type": "tool_use", "id": new_id("toolu_"), "name": tool.name}
        return self._block({**block, "input": arguments}, {"input": {}}, deltas)

    def block(self, block: Json) -> Iterator[Event]:
        """Stream a block as it is: whole, and citations one by one."""
        cited = block.get("citations")
        citations = cited if isinstance(cited, list) else []
        deltas: list[Json] = [{"type": "citations_delta", "citation": each} for each in citations]
        if "text" in block:
            deltas.append({"type": "text_delta", "text": block["text"]})
            return self._block(block, {"text": "", "citations": []}, deltas)
        return self._block(block, {}, deltas)

    def failed(self, kind: str) -> Iterator[Event]:
        yield _event("error", error={"type": kind, "message": "scripted error"})

    def finish(self) -> Iterator[Event]:
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage={"output_tokens": 10})
        yield _event("message_stop")

    def whole(self) -> Json:
        return self._message(self._blocks, self._stop_reason)

    def _block(
        self, block: Json, empty: Json, deltas: Iterable[Mapping[str, object]]
    ) -> Iterator[Event]:
        index = len(self._blocks)
        self._blocks.append(block)
        yield _event("content_block_start", index=index, content_block={**block, **empty})
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)

    def _message(self, blocks: list[Json], stop_reason: str | None) -> Json:
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 10 if stop_reason else 1,
        }
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": blocks,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }


answer = AnthropicAnswer


def _event(kind: str, **fields: object) -> Event:
    return Event({"type": kind, **fields}, kind)
