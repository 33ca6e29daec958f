"""What a server of `agentrt.v1` says, as far as a client of agentrt's own needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from .._model.content import JsonObject
from .._model.events import Event
from .._model.state import Snapshot
from .._runtime.register import SessionInfo
from .._runtime.runtime import AgentInfo


class Ready(Struct, tag_field="type", tag="ready", kw_only=True):
    """The answer to `hello`."""

    server: str = ""
    role: str = "controller"
    sessions: list[SessionInfo]
    agents: list[AgentInfo] = []
    beat_s: float
    limits: JsonObject = {}


class SnapshotFrame(Snapshot, tag_field="type", tag="snapshot", kw_only=True):
    """A session as it is."""


class EventFrame(Struct, tag_field="type", tag="event", gc=False):
    """The next event of a session."""

    session: str
    epoch: str
    seq: int
    event: Event


class Problem(Struct):
    code: str
    message: str


class Ack(Struct, tag_field="type", tag="ack"):
    """The answer to a command."""

    id: str | None
    ok: bool
    error: Problem | None = None


class Sessions(Struct, tag_field="type", tag="sessions"):
    """The list is another one."""

    sessions: list[SessionInfo]


class Closing(Struct, tag_field="type", tag="closing"):
    """The server ends the connection."""

    reason: str


class _Head(Struct):
    """A frame that is not known, or of which something is not."""

    type: str
    session: str = ""
    epoch: str = ""
    seq: int = 0


class Unknown(Struct):
    """An event that a newer server has and this client does not know."""

    session: str
    epoch: str
    seq: int


Frame: TypeAlias = Ready | SnapshotFrame | EventFrame | Ack | Sessions | Closing

_frame: Final[msgspec.json.Decoder[Frame]] = msgspec.json.Decoder(Frame)
_parts: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_head: Final[msgspec.json.Decoder[_Head]] = msgspec.json.Decoder(_Head)
_fields: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(dict[str, Any])


def frames_of(message: str) -> Iterator[tuple[Frame | Unknown, Raw]]:
    """What is in a message, in its order, each also as it came. What is nothing to this client is
    left out. Raises `msgspec.DecodeError` for what is no message."""
    text = message.encode()
    for part in _parts.decode(text) if text.startswith(b"[") else [Raw(text)]:
        try:
            yield _frame.decode(part), part
        except msgspec.ValidationError:
            head = _head.decode(part)
            if head.type == "event":
                yield Unknown(head.session, head.epoch, head.seq), part


def fields_of(answer: Raw) -> JsonObject:
    """All that an answer says."""
    return _fields.decode(answer)
