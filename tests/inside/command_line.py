"""The command line in the process of the test, which can then replace the clock and the folders."""

from __future__ import annotations

from agentrt._cli.text import plain

__all__ = ["plain"]
