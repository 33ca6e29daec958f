"""The command line in the process of the test, which can then replace the clock and the folders."""

from __future__ import annotations

from agentrt._cli.arguments import make_parser
from agentrt._cli.exit_status import UsageError
from agentrt._cli.text import plain

__all__ = ["UsageError", "make_parser", "plain"]
