"""OpenAI Responses: `POST /v1/responses`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .asks import Ask, Content, Event, Json, Role, Row, Schema, Tool, new_id, text_of
from .scripts import Arguments


class _Item(msgspec.Struct):
    type: str = "message"
    role: str | None = None
    content: Content = None

    def row(self) -> Row:
        if self.type == "message":
            return Row(_ROLES.get(self.role or "", "other"), text_of(self.content))
        # Outputs are tool results; calls and reasoning are the assistant's.
        return Row("other" if self.type.endswith("_output") else "assistant", "")


class _Tool(msgspec.Struct):
    type: str
    name: str | None = None
    parameters: Schema | None = None
    tools: list[_Tool] = []

    def flat(self, namespace: str | None = None) -> Iterator[Tool]:
        if self.type == "namespace":
            for tool in self.tools:
                yield from tool.flat(self.name)
        else:
            known = self.parameters.names() if self.parameters else None
            yield Tool(self.name or self.type, known, namespace, freeform=self.type == "custom")


class _Request(msgspec.Struct):
    model: str
    input: str | list[_Item]
    tools: list[_Tool] | None = None
    stream: bool | None = None


_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_USAGE: Final[Json] = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 20,
}


def read(body: bytes) -> Ask:
    request = msgspec.json.decode(body, type=_Request)
    said = request.input
    rows = [Row("user", said)] if isinstance(said, str) else [item.row() for item in said]
    tools = [tool for offered in request.tools or () for tool in offered.flat()]
    return Ask(model=request.model, stream=bool(request.stream), rows=rows, tools=tools)


class ResponsesAnswer:
    """Output items one after the other, each added, filled by deltas and done."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = new_id("resp_")
        self._items: list[Json] = []
        self._number = 0

    def start(self) -> Iterator[Event]:
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def ping(self) -> Iterator[Event]:
        return iter(())

    def text(self, chunks: Sequence[str]) -> Iterator[Event]:
        at: Json = {"item_id": new_id("msg_"), "output_index": len(self._items)}
        inside = {**at, "content_index": 0}
        item: Json = {"id": at["item_id"], "type": "message", "role": "assistant"}
        part: Json = {"type": "output_text", "text": "", "annotations": []}
        yield self._added({**item, "status": "in_progress", "content": []})
        yield self._event("response.content_part.added", **inside, part=part)
        for chunk in chunks:
            yield self._event("response.output_text.delta", **inside, delta=chunk)
        text = "".join(chunks)
        part = {**part, "text": text}
        yield self._event("response.output_text.done", **inside, text=text)
        yield self._event("response.content_part.done", **inside, part=part)
        yield self._done({**item, "status": "completed", "content": [part]})

    def thinking(self, text: str) -> Iterator[Event]:
        at: Json = {"item_id": new_id("rs_"), "output_index": len(self._items), "summary_index": 0}
        item: Json = {"id": at["item_id"], "type": "reasoning", "summary": []}
        part: Json = {"type": "summary_text", "text": ""}
        yield self._added(item)
        yield self._event("response.reasoning_summary_part.added", **at, part=part)
        yield self._event("response.reasoning_summary_text.delta", **at, delta=text)
        yield self._event("response.reasoning_summary_text.done", **at, text=text)
        yield self._done({**item, "summary": [{**part, "text": text}]})

    def call(self, tool: Tool, arguments: Arguments) -> Iterator[Event]:
        item: Json = {"status": "in_progress", "call_id": new_id("call_"), "name": tool.name}
        if tool.namespace:
            item["namespace"] = tool.namespace
        if tool.freeform:
            text = str(next(iter(arguments.values())))
            item |= {"id": new_id("ctc_"), "type": "custom_tool_call"}
            yield self._added({**item, "input": ""})
            yield self._done({**item, "status": "completed", "input": text})
            return
        item |= {"id": new_id("fc_"), "type": "function_call"}
        at = {"item_id": item["id"], "output_index": len(self._items)}
        raw = json.dumps(arguments)
        yield self._added({**item, "arguments": ""})
        yield self._event("response.function_call_arguments.delta", **at, delta=raw)
        yield self._event("response.function_call_arguments.done", **at, arguments=raw)
        yield self._done({**item, "status": "completed", "arguments": raw})

    def failed(self, kind: str) -> Iterator[Event]:
        error = {"code": kind, "message": "scripted error"}
        yield self._event("response.failed", response={**self._response("failed"), "error": error})

    def finish(self) -> Iterator[Event]:
        yield self._event("response.completed", response=self.whole())

    def whole(self) -> Json:
        return {**self._response("completed"), "output": self._items, "usage": _USAGE}

    def _added(self, item: Json) -> Event:
        return self._event("response.output_item.added", output_index=len(self._items), item=item)

    def _done(self, item: Json) -> Event:
        self._items.append(item)
        return self._event(
            "response.output_item.done", output_index=len(self._items) - 1, item=item
        )

    def _response(self, status: str) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "model": self._model,
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "usage": None,
        }

    def _event(self, kind: str, **fields: object) -> Event:
        self._number += 1
        return Event({"type": kind, "sequence_number": self._number, **fields}, kind)


answer = ResponsesAnswer
