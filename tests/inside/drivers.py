"""The drivers.

Tests check them against every message and limit, some of which no session reaches.
"""

from __future__ import annotations

from agentrt._core.acp.files import NotAllowed, Roots
from agentrt._core.acp.requests import CLIENT_METHODS
from agentrt._core.acp.turn import AcpTurnInput, AcpTurnState
from agentrt._core.claude.handshake import OLDEST
from agentrt._core.claude.legacy import LegacyDriver
from agentrt._core.claude.options import HOOK_EVENTS
from agentrt._core.codex.turn import CodexTurnInput, CodexTurns, CodexTurnState

__all__ = [
    "AcpTurnInput",
    "AcpTurnState",
    "CLIENT_METHODS",
    "CodexTurnInput",
    "CodexTurnState",
    "CodexTurns",
    "HOOK_EVENTS",
    "LegacyDriver",
    "NotAllowed",
    "OLDEST",
    "Roots",
]
