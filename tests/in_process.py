"""The command `agentrt` in the process of the test, which can then replace the environment, the
folders and the clock: a process of its own takes half a second for each command.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from unittest.mock import patch

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


def help_on(arguments: Sequence[str]) -> str:
    """Return the help on the command of these arguments, all of which it takes."""
    with redirect_stdout(StringIO()) as printed:
        assert main([*arguments, "--help"]) == 0  # it has read those before
    told = printed.getvalue()
    for word in arguments:
        if word.startswith("--"):
            assert re.search(rf"{word.partition('=')[0]}(?![\w-])", told), word
    return told
