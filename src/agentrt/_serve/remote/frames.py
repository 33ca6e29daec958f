"""Decoding of the frames of an `agentrt.v1` server, as far as agentrt's own client needs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ...events import JsonObject
from ..native_frames import (
    AckFrame,
    ClosingFrame,
    EventFrame,
    ReadyFrame,
    SessionsFrame,
    SnapshotFrame,
)


class _FrameHead(Struct):
    """The head of a frame that could not be decoded completely."""

    type: str
    session: str = ""
    epoch: str = ""
    seq: int = 0
    since: int | None = None


class UnknownEvent(Struct):
    """An event from a newer server that this client does not know."""

    session: str
    epoch: str
    seq: int
    since: int | None = None


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
                yield UnknownEvent(head.session, head.epoch, head.seq, head.since), part


def fields_of(answer: Raw) -> JsonObject:
    """Return all fields of an answer."""
    return _fields.decode(answer)
