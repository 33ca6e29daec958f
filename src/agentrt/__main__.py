"""Entry point of `python -m agentrt`, which is the command `agentrt`."""

from __future__ import annotations

import signal
import sys

# Until the command line can handle it, Ctrl-C ends the process without a traceback, as in other
# programs.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ._cli.main import main


def run() -> int:
    """Run the command line with this process's arguments, and return the exit status."""
    return main()


if __name__ == "__main__":
    sys.exit(run())
