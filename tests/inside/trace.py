"""Redaction.

Tests give it secrets that are cut at every byte, without an agent that writes them.
"""

from __future__ import annotations

from agentrt._core.process.tap import Piece
from agentrt._core.trace.assemble import Assembler
from agentrt._core.trace.redact import Redaction

__all__ = ["Assembler", "Piece", "Redaction"]
