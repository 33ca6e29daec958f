"""Agent processes.

Tests let a system call fail and replace the process table: no agent can cause either.
"""

from __future__ import annotations

from agentrt._core.process import descendants, guard, pipes, process, tree
from agentrt._core.process.chosen import LAYER
from agentrt._core.process.descendants import ProcessId
from agentrt._core.process.layer import MARKER

__all__ = [
    "LAYER",
    "MARKER",
    "ProcessId",
    "descendants",
    "guard",
    "pipes",
    "process",
    "tree",
]
