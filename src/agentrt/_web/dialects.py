"""What is spoken on the site's WebSockets: one dialect for each path."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Dialect(Struct, frozen=True):
    """A protocol in which clients see the sessions.

    - `path`: where its WebSocket is.
    - `protocol`: the subprotocol's name, for clients that offer any: browsers that offer their
      token so want one of what they offer to be accepted.
    - `says_closing`: whether its clients know the message `closing`; the others have the reason in
      the close frame only.
    - `names_connection`: a header of the handshake's answer that carries a fresh id, if any.
    """

    path: str
    protocol: str
    says_closing: bool = False
    names_connection: str | None = None


NATIVE: Final = Dialect("/ws", "agentrt.v1", says_closing=True)
AI_SDK: Final = Dialect("/ai", "agentrt.ai")
ACP: Final = Dialect("/acp", "agentrt.acp", names_connection="Acp-Connection-Id")

DIALECTS: Final = {dialect.path: dialect for dialect in (NATIVE, AI_SDK, ACP)}
