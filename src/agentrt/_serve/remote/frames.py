"""The frames of an `agentrt.v1` server, as far as agentrt's own client needs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..._core.runtime.register import SessionInfo
from ...agents import AgentInfo
from ...events import Event, JsonObject, Snapshot


class ReadyFrame(Struct, tag_field="type", tag="ready", kw_only=True):
    """The answer to `hello`."""

    server: str = ""
    role: str = "controller"
    sessions: list[SessionInfo]
    agents: list[AgentInfo] = []
    beat_s: float
    limits: JsonObject = {}


class SnapshotFrame(Snapshot, tag_field="type", tag="snapshot", kw_only=True):
    """The current state of a session."""


class EventFrame(Struct, tag_field="type", tag="event", gc=False):
    """The next event of a session."""

    session: str
    epoch: str
    seq: int
    event: Event


class Problem(Struct):
    """The error of a refused command."""

    code: str
    message: str


class AckFrame(Struct, tag_field="type", tag="ack"):
    """The answer to a command."""

    id: str | None
    ok: bool
    error: Problem | None = None


class SessionsFrame(Struct, tag_field="type", tag="sessions"):
    """The list of sessions has changed."""

    sessions: list[SessionInfo]


class ClosingFrame(Struct, tag_field="type", tag="closing"):
    """The server ends the connection."""

    reason: str


class _FrameHead(Struct):
    """The head of a frame that could not be decoded completely."""

    type: str
    session: str = ""
    epoch: str = ""
    seq: int = 0


class UnknownEvent(Struct):
    """An event from a newer server that this client does not know."""

    session: str
    epoch: str
    seq: int


Frame: TypeAlias = ReadyFrame | SnapshotFrame | EventFrame | AckFrame | SessionsFrame | ClosingFrame

_frame: Final[msgspec.json.Decoder[Frame]] = msgspec.json.Decoder(Frame)
_parts: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_head: Final[msgspec.json.Decoder[_FrameHead]] = msgspec.json.Decoder(_FrameHead)
_fields: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(dict[str, Any])


def frames_of(message: str) -> Iterator[tuple[Frame | UnknownEvent, Raw]]:
    """Yield the frames of a message in their order, each also undecoded.

    Frames that mean nothing to this client are left out. Raises `msgspec.DecodeError` if the text
    is not a message.
    """
    text = message.encode()
    for part in _parts.decode(text) if text.startswith(b"[") else [Raw(text)]:
        try:
            yield _frame.decode(part), part
        except msgspec.ValidationError:
            head = _head.decode(part)
            if head.type == "event":
                yield UnknownEvent(head.session, head.epoch, head.seq), part


def fields_of(answer: Raw) -> JsonObject:
    """Return all fields of an answer."""
    return _fields.decode(answer)
