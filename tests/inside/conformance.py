"""The conformance checks, to count that each has an agent which fails it."""

from __future__ import annotations

from agentrt._lab.conformance.checks import CHECKS

__all__ = ["CHECKS"]
