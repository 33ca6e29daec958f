"""Reasons for closing a connection: the list of close codes, and an exception that carries one.

A browser cannot read the HTTP status of a failed WebSocket handshake. A refused client is therefore
let in, gets the reason in a `closing` message, and is closed with one of these codes.
"""

from __future__ import annotations

from enum import IntEnum


class CloseCode(IntEnum):
    """Codes of the close frame. The 44xx codes are agentrt's, the others the protocol's own."""

    BAD_REQUEST = 4400
    """An invalid request, or an unknown path."""
    UNAUTHORIZED = 4401
    """The token is missing, wrong or revoked."""
    FORBIDDEN = 4403
    """A host or an origin that is not allowed."""
    REPLACED = 4409
    """A newer connection of the same client has replaced this one."""
    SHUTDOWN = 4410
    """The server ends; the client can resume on the next one from the last event it saw."""
    TOO_MANY = 4429
    """Too many connections, or too many frames in too little time."""
    BROKEN = 4450
    """A bug in the server; the error is in its log."""
    UNSUPPORTED = 1003
    """A binary frame."""
    TOO_BIG = 1009
    """A message that is too large."""
    OUT_OF_ORDER = 1002
    """The first message is not the one that the dialect requires."""


class ConnectionRefusal(Exception):
    """The connection must end: `code` for programs, `reason` for people."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
