"""Why the server closes a connection: one list of close codes, and the exception that carries one.

A browser cannot read the HTTP status of a failed WebSocket handshake. What is refused is therefore
let in, said in a `closing` message, and closed with one of these codes.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Codes of the close frame. The 44xx are agentrt's, the others are the protocol's own."""

    BAD_REQUEST = 4400
    UNAUTHORIZED = 4401
    """No token, a wrong one, or one that was revoked."""
    FORBIDDEN = 4403
    """A host or an origin that is not on the list."""
    REPLACED = 4409
    """The same client has connected again."""
    SHUTDOWN = 4410
    """The server ends; what the client saw last can be resumed from the next one."""
    TOO_MANY = 4429
    """Too many connections, or too many frames in too little time."""
    BROKEN = 4450
    """A mistake of the server; it is in its log."""
    UNSUPPORTED = 1003
    """A binary frame."""
    TOO_BIG = 1009
    OUT_OF_ORDER = 1002
    """Something else came where the dialect wants its first message."""


class Refusal(Exception):
    """The connection must end: `code` for programs, `reason` for people."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
