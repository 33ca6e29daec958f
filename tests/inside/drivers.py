"""The drivers.

Tests check them against every message and limit, some of which no session reaches.
"""

from __future__ import annotations

from agentrt._core.acp.files import NotAllowed, Roots
from agentrt._core.claude.legacy import LegacyDriver

__all__ = [
    "LegacyDriver",
    "NotAllowed",
    "Roots",
]
