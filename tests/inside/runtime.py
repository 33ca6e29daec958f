"""The composition of sessions.

Tests give it ids, a clock and a driver of their own, so that each run is the same.
"""

from __future__ import annotations

from agentrt._core.runtime.offer import Offer
from agentrt._core.runtime.open import serve_session
from agentrt._core.runtime.protocol_setup import set_up_protocol
from agentrt._core.runtime.stored import ClaimedSession
from agentrt._core.tools.server import ToolServer

__all__ = [
    "ClaimedSession",
    "Offer",
    "ToolServer",
    "serve_session",
    "set_up_protocol",
]
