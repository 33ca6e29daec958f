"""What the server says in `agentrt.v1` beside events and snapshots."""

from __future__ import annotations

from typing import Any, Final

from .._model.bounds import cut
from .._wire.json import encode_line
from .commands import Refused

MESSAGE: Final = 4096
DATA: Final = 16 * 1024
"""Characters of an error's message, and bytes of its data: both may be an agent's, and answers are
remembered. Larger data is left out."""


def pack(**fields: Any) -> bytes:
    """A frame of these fields."""
    return encode_line(fields)[:-1]


def ack(id: str, **fields: Any) -> bytes:
    """A command was carried out."""
    return pack(type="ack", id=id, ok=True, **fields)


def refusal(id: str | None, error: Refused) -> bytes:
    """A command was not carried out. Without an id it was none."""
    told: dict[str, Any] = {"code": error.code, "message": cut(error.message, MESSAGE)}
    if error.data is not None and len(pack(data=error.data)) <= DATA:
        told["data"] = error.data
    return pack(type="ack", id=id, ok=False, error=told)
