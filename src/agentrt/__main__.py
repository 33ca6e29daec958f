"""Entry point of `python -m agentrt`, which is the command `agentrt`."""

from __future__ import annotations

import sys

from ._cli.last_signal import exit_at_next_signal, ignore_signals

exit_at_next_signal()  # also while the command line is loaded


def run() -> int:
    """Run the command line with this process's arguments, and return the exit status."""
    from ._cli.main import main

    status = main()
    ignore_signals()  # nothing is left to end but the interpreter
    return status


if __name__ == "__main__":
    sys.exit(run())
