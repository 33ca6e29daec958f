"""The conformance checks, to count that each has an agent which fails it.

A message that no table knows is looked for in recordings, which need no agent.
"""

from __future__ import annotations

from agentrt._lab.conformance.checks import checks_of
from agentrt._lab.conformance.unknown import unknown_messages

__all__ = ["checks_of", "unknown_messages"]
