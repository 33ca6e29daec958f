"""The messages of both wires as typed structs, for the limit: as little as a host can declare.

Claude: one tagged union. ACP: one flat struct whose `params` has the fields of all methods, decoded
in one pass.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.json import Decoder


class TextDelta(Struct, tag="text_delta", frozen=True, gc=False):
    text: str


class InputJsonDelta(Struct, tag="input_json_delta", frozen=True, gc=False):
    partial_json: str


class ThinkingDelta(Struct, tag="thinking_delta", frozen=True, gc=False):
    thinking: str


class BlockDelta(Struct, tag="content_block_delta", frozen=True, gc=False):
    index: int
    delta: TextDelta | InputJsonDelta | ThinkingDelta


class StreamEvent(Struct, tag="stream_event", frozen=True, gc=False):
    event: BlockDelta
    session_id: str
    uuid: str
    parent_tool_use_id: str | None = None


class Text(Struct, tag="text", frozen=True, gc=False):
    text: str


class ToolResult(Struct, tag="tool_result", frozen=True):
    tool_use_id: str
    content: str = ""


class Message(Struct, frozen=True):
    content: list[Text | ToolResult]


class Assistant(Struct, tag="assistant", frozen=True):
    message: Message


class User(Struct, tag="user", frozen=True):
    message: Message


class System(Struct, tag="system", frozen=True):
    subtype: str


class Result(Struct, tag="result", frozen=True):
    subtype: str
    is_error: bool
    usage: dict[str, Any] | None = None


class ControlRequest(Struct, tag="control_request", frozen=True):
    request_id: str
    request: dict[str, Any]


class ControlResponse(Struct, tag="control_response", frozen=True):
    response: dict[str, Any]


CLAUDE: Decoder[Any] = Decoder(
    StreamEvent | Assistant | User | System | Result | ControlRequest | ControlResponse
)


class ToolText(Struct, tag="content", frozen=True):
    content: Text


class Chunk(Struct, tag="agent_message_chunk", tag_field="sessionUpdate", frozen=True, gc=False):
    content: Text


class ToolUpdate(Struct, tag="tool_call_update", tag_field="sessionUpdate", frozen=True):
    toolCallId: str
    content: list[ToolText]


class Params(Struct, frozen=True, gc=False):
    sessionId: str = ""
    update: Chunk | ToolUpdate | UnsetType = UNSET
    toolCall: Any = UNSET
    options: Any = UNSET


class Flat(Struct, frozen=True):
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Params | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


ACP: Decoder[Flat] = Decoder(Flat)
