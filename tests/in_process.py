"""The command `agentrt` in the process of the test, which can then replace the environment, the
folders and the clock: a process of its own takes half a second for each command.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from unittest.mock import patch

from inside.command_line import make_parser

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Run the entry point of the console script, and return the exit status.

    The command sets handlers of signals for the rest of its process. Here they are set back.
    """
    handlers = {number: signal.getsignal(number) for number in ENDING}
    try:
        from agentrt.__main__ import run

        with patch.object(sys, "argv", ["agentrt", *arguments]):
            return run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options that the command would get; exits if it would refuse them."""
    return make_parser().parse_args(arguments)
