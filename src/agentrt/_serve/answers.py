"""The results of commands in every dialect, and their encoding in `agentrt.v1`."""

from __future__ import annotations

import logging
from typing import Any, Final

from ..display import cut
from ..errors import (
    AgentrtError,
    BudgetExceeded,
    Busy,
    LimitExceeded,
    LocalProtocolError,
    RequestError,
    SessionNotFound,
    StoreError,
)
from ..jsonrpc import METHOD_NOT_FOUND, encode_json
from ..lowlevel import CommandFields, CommandRefused

logger = logging.getLogger("agentrt.server")

MESSAGE_CHARS: Final = 4096
DATA_BYTES: Final = 16 * 1024
"""Maximum characters of an error's message, and bytes of its data: an agent may have written both,
and answers are remembered. Larger data is left out.
"""


def pack(**fields: Any) -> bytes:
    """Encode a frame with these fields."""
    return encode_json(fields)


def ack(id: str, fields: CommandFields) -> bytes:
    """Encode the answer to a command that was carried out."""
    return pack(type="ack", id=id, ok=True, **fields)


def refusal(id: str | None, error: CommandRefused) -> bytes:
    """Encode the answer to a command that was not carried out. Without an id, the frame was not a
    command.
    """
    sent: dict[str, Any] = {"code": error.code, "message": cut(error.message, MESSAGE_CHARS)}
    if error.data is not None and len(pack(data=error.data)) <= DATA_BYTES:
        sent["data"] = error.data
    return pack(type="ack", id=id, ok=False, error=sent)


_CODES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (Busy, "busy"),
    (LimitExceeded, "limit"),
    (BudgetExceeded, "limit"),
    (SessionNotFound, "unknown_session"),
    (LocalProtocolError, "bad_request"),
    (ValueError, "bad_request"),
    (StoreError, "unavailable"),
    (AgentrtError, "agent_failed"),
)


def as_refusal(error: Exception) -> CommandRefused:
    """Convert the error of a command to its refusal. An unexpected error is logged."""
    match error:
        case CommandRefused():
            return error
        case RequestError(code=number, message=message, data=data):
            lacks = number == METHOD_NOT_FOUND
            return CommandRefused("unsupported" if lacks else "agent_failed", message, data)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return CommandRefused(code, str(error))
    logger.error("a command failed", exc_info=error)
    return CommandRefused("internal", "the server failed to carry this out")
