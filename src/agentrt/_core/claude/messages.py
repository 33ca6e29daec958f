"""Claude's stream-json as on the wire: the messages of the CLI, and the decoding of a read.

The CLI adds fields, types and subtypes with every release, so all decoding here is lenient. One
tagged union declares every known top-level type, including unused ones: an undeclared tag would
fail the decoding of its whole batch. For the same reason the nested shapes are flat and optional (a
block, a delta and a stream event of any kind each fit one struct). Fields that are not computed
with are typed `Any`, so that an unexpected value in them cannot cost the message; functions such as
`text` convert them to the expected type, or to None or an empty list.

Field names are those of the wire, camelCase where the wire has it. `type` may be the last key of a
line.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct, ValidationError, convert
from msgspec.json import Decoder

from ..errors import RemoteProtocolError
from ..model.content import JsonObject
from ..wire.json import DECODE_ERRORS, decode
from ..wire.lines import LongLine, without_nested
from .ignored import IGNORED_SYSTEM


def text(value: Any) -> str | None:
    """Return the value if it is a string, else None."""
    return value if isinstance(value, str) else None


def whole_number(value: Any) -> int | None:
    """Return the value if it is an int, else None."""
    return value if type(value) is int else None


def number(value: Any) -> float | None:
    """Return the value as a float if it is a number, else None."""
    return float(value) if type(value) is float or type(value) is int else None


def texts(values: Any) -> list[str]:
    """Return the non-empty strings of a list."""
    return [v for v in values if isinstance(v, str) and v] if isinstance(values, list) else []


def objects(values: Any) -> list[JsonObject]:
    """Return the objects of a list."""
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []


# --- the parts of a conversation


class ClaudeBlock(Struct, gc=False, omit_defaults=True):
    """A content block of any kind: text, thinking, tool_use, tool_result, image, …"""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None
    source: Any = None
    citations: Any = None


class ApiMessage(Struct, gc=False):
    """A message of the Messages API."""

    content: str | list[ClaudeBlock] = ""
    id: str | None = None
    model: str | None = None
    usage: Any = None


def ends_with_text(message: ApiMessage) -> bool:
    """True if the last block is text: an agent that stops here has nothing more to do."""
    content = message.content
    return isinstance(content, str) or (bool(content) and content[-1].type == "text")


class Assistant(Struct, tag_field="type", tag="assistant", gc=False):
    """One finished content block of the answer; several share `message.id`.

    With partial messages on, it repeats the content of earlier `stream_event` lines, and comes
    before the block's end.
    """

    message: ApiMessage
    uuid: Any = None
    parent_tool_use_id: str | None = None
    error: Any = None
    api_error_status: Any = None


class User(Struct, tag_field="type", tag="user", gc=False):
    """Tool results, prompts of sub-agents, synthetic texts and echoes."""

    message: ApiMessage
    uuid: str | None = None
    parent_tool_use_id: str | None = None
    tool_use_result: Any = None
    tool_result_meta: Any = None
    isReplay: Any = None


class Delta(Struct, gc=False):
    """A change within a streaming event."""

    text: str | None = None
    thinking: str | None = None
    stop_reason: str | None = None
    partial_json: Any = None
    citation: Any = None


class Event(Struct, gc=False):
    """A streaming event of the Messages API, of any kind."""

    type: str
    index: int = 0
    delta: Delta | None = None
    content_block: ClaudeBlock | None = None
    message: ApiMessage | None = None
    usage: Any = None


class StreamEvent(Struct, tag_field="type", tag="stream_event", gc=False):
    """A line with one streaming event."""

    event: Event
    parent_tool_use_id: str | None = None


class Result(Struct, tag_field="type", tag="result", gc=False):
    """The end of a turn (not of the run)."""

    subtype: Any = None
    is_error: Any = None
    terminal_reason: Any = None
    stop_reason: Any = None
    result: Any = None
    errors: Any = None
    num_turns: Any = None
    total_cost_usd: Any = None
    duration_api_ms: Any = None
    ttft_ms: Any = None
    usage: Any = None
    modelUsage: Any = None
    model_usage_since_last_result: Any = None
    structured_output: Any = None
    api_error_status: Any = None
    startup_failure_reason: Any = None
    origin: Any = None
    user_message_uuid: Any = None
    user_message_uuids: Any = None

    def uuids(self) -> list[str]:
        """Return the uuids of the prompts that this result answers. Empty for older CLIs."""
        listed = self.user_message_uuids
        if isinstance(listed, list) and listed:
            return [uuid for uuid in listed if isinstance(uuid, str)]
        uuid = self.user_message_uuid
        return [uuid] if isinstance(uuid, str) else []

    def refuses(self) -> bool:
        """True if the result reports the failure of a start."""
        return bool(self.is_error or self.errors or self.startup_failure_reason)

    def unsolicited(self) -> bool:
        """True if the turn was not started by a prompt of this client."""
        kind = self.origin.get("kind") if isinstance(self.origin, dict) else None
        return kind not in (None, "human")


class CommandLifecycle(Struct, tag_field="type", tag="command_lifecycle", gc=False):
    """The state of one prompt: `queued`, `started`, `completed` or `cancelled`. Undocumented."""

    command_uuid: str
    state: str


class ConversationReset(Struct, tag_field="type", tag="conversation_reset", gc=False):
    """The conversation was cleared. Totals restart, and the next `init` has a new session id."""

    trigger: Any = None


# --- control, in both directions


class ControlRequest(Struct, tag_field="type", tag="control_request", gc=False):
    """A control request of the CLI."""

    request_id: str
    request: JsonObject


class ControlResult(Struct, gc=False):
    """The result of a control request."""

    subtype: str
    request_id: str
    response: Any = None
    error: Any = None
    error_code: Any = None
    pending_permission_requests: Any = None
    pending_user_dialog_requests: Any = None


class ControlResponse(Struct, tag_field="type", tag="control_response", gc=False):
    """The CLI's response to a control request."""

    response: ControlResult


class ControlCancel(Struct, tag_field="type", tag="control_cancel_request", gc=False):
    """The CLI withdraws a control request."""

    request_id: str


# --- further types


class RateLimit(Struct, tag_field="type", tag="rate_limit_event", gc=False):
    """A change of the account's rate limits."""

    rate_limit_info: Any = None


class AuthStatus(Struct, tag_field="type", tag="auth_status", gc=False):
    """The state of a login."""

    isAuthenticating: Any = None
    output: Any = None
    error: Any = None


class PromptSuggestion(Struct, tag_field="type", tag="prompt_suggestion", gc=False):
    """A suggested next prompt."""

    suggestion: Any = None


class ToolProgress(Struct, tag_field="type", tag="tool_progress", gc=False):
    """A heartbeat of a running tool.

    Its `parent_tool_use_id` is the tool itself, so it does not concern sub-agents; its arrival
    is its only meaning.
    """


class KeepAlive(Struct, tag_field="type", tag="keep_alive", gc=False):
    """Declared only so that its batch can be decoded: its content is not used."""


class ToolUseSummary(Struct, tag_field="type", tag="tool_use_summary", gc=False):
    """Declared only so that its batch can be decoded: its content is not used."""


class TranscriptMirror(Struct, tag_field="type", tag="transcript_mirror", gc=False):
    """Declared only so that its batch can be decoded: its content is not used."""


class ActiveGoal(Struct, tag_field="type", tag="active_goal", gc=False):
    """Declared only so that its batch can be decoded: its content is not used."""


class AutocompactState(Struct, tag_field="type", tag="autocompact_state", gc=False):
    """Declared only so that its batch can be decoded: its content is not used."""


class SystemHead(Struct, tag_field="type", tag="system", gc=False):
    """A `system` line as decoded with its batch; `System` has the other fields."""

    subtype: str = ""


class System(Struct, gc=False):
    """A `system` line with all its fields; `fields` includes the unknown ones."""

    subtype: str
    fields: JsonObject


class UnknownClaudeLine(Struct, gc=False):
    """A line with an undeclared `type`; `fields` is the whole object."""

    type: str
    fields: JsonObject


class BadClaudeLine(Struct, gc=False):
    """An invalid line: not JSON, not an object, or broken in a required field."""

    error: str
    line: bytes


_Wire: TypeAlias = (
    StreamEvent
    | Assistant
    | User
    | SystemHead
    | Result
    | CommandLifecycle
    | ControlRequest
    | ControlResponse
    | ControlCancel
    | ConversationReset
    | RateLimit
    | AuthStatus
    | PromptSuggestion
    | ToolProgress
    | KeepAlive
    | ToolUseSummary
    | TranscriptMirror
    | ActiveGoal
    | AutocompactState
)
Message: TypeAlias = _Wire | System | UnknownClaudeLine | BadClaudeLine

_decoder: Decoder[_Wire] = Decoder(_Wire)
_objects: Decoder[JsonObject] = Decoder(JsonObject)


class ClaudeReader:
    """Decodes whole lines into messages, all lines of a read in one call where possible."""

    def __init__(self) -> None:
        self._by_line = False
        """True after the first undeclared type: each such line fails its batch, which costs more
        than the batch gains."""

    def read(self, lines: bytes | bytearray | LongLine) -> list[Message]:
        """Return the messages of some whole lines. Never raises: an undecodable line becomes
        `BadClaudeLine`."""
        if isinstance(lines, LongLine):
            return [self._long(lines)]
        if not self._by_line:
            try:
                batch = _decoder.decode_lines(lines)
            except DECODE_ERRORS:
                pass
            else:
                if SystemHead not in map(type, batch) or not any(map(_is_open, batch)):
                    return batch  # type: ignore[return-value]  # a list of a part of the union
                texts = _split(lines)
                if len(texts) == len(batch):
                    return list(map(_whole, batch, texts))
        return self.read_singly(without_nested(lines))

    def read_singly(self, lines: bytes | bytearray) -> list[Message]:
        """Return the messages of some whole lines, each decoded by itself. Never raises."""
        return [self._line(line) for line in _split(lines)]

    def _line(self, line: bytes | bytearray) -> Message:
        """Decode one line, leniently if its strict form fails."""
        try:
            return _whole(_decoder.decode(line), line)
        except DECODE_ERRORS:
            pass
        try:
            fields = decode(line, _objects)  # repairs lone surrogates
        except RemoteProtocolError as error:
            return BadClaudeLine(str(error), bytes(line[:200]))
        return self._decoded(fields, bytes(line[:200]))

    def _long(self, line: LongLine) -> Message:
        """Decode a line that is longer than a read."""
        try:
            fields = line.value()
        except RemoteProtocolError as error:
            return BadClaudeLine(str(error), line.head)
        if not isinstance(fields, dict):
            return BadClaudeLine("not a message: no object", line.head)
        return self._decoded(fields, line.head)

    def _decoded(self, fields: JsonObject, head: bytes) -> Message:
        """Convert an object to a message. An undeclared type turns off the decoding of batches."""
        tag = fields.get("type")
        try:
            message: _Wire = convert(fields, _Wire)
        except ValidationError as error:
            if isinstance(tag, str) and tag not in DECLARED:
                self._by_line = True
                return UnknownClaudeLine(tag, fields)
            return BadClaudeLine(str(error), head)
        return System(message.subtype, fields) if _is_open(message) else message


def _split(lines: bytes | bytearray) -> list[bytes | bytearray]:
    """Return the lines that are not blank."""
    return [line for line in lines.split(b"\n") if line.strip()]


def _is_open(message: _Wire) -> TypeGuard[SystemHead]:
    """True if a `system` line has fields that must still be decoded."""
    return type(message) is SystemHead and message.subtype not in IGNORED_SYSTEM


def _whole(message: _Wire, line: bytes | bytearray) -> Message:
    """Decode the other fields of a `system` line; its subtypes do not share a shape."""
    if not _is_open(message):
        return message
    try:
        return System(message.subtype, decode(line, _objects))
    except RemoteProtocolError as error:
        return BadClaudeLine(str(error), bytes(line[:200]))


DECLARED: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in _Wire.__args__)
"""The top-level types that are decoded with their batch."""
