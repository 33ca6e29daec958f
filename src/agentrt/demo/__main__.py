"""`python -m agentrt.demo [--model steady|instant]`: the agent on standard input and output."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import get_args

import trio

from .._version import __version__
from .history import DemoStore, state_folder
from .server import DemoAgent
from .session import Model
from .wire import DemoConnection


async def _serve(model: Model) -> int:
    """Serve until the client disconnects or a signal arrives; returns the exit status."""
    status = 0

    async def obey(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        nonlocal status
        async for number in signals:
            status = 128 + number
            scope.cancel(reason=f"signal {number}")

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with (
            trio.lowlevel.FdStream(os.dup(0)) as stdin,
            trio.lowlevel.FdStream(os.dup(1)) as stdout,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            store = DemoStore(state_folder())
            await DemoAgent(DemoConnection(stdin, stdout), store, model, __version__).serve()
            nursery.cancel_scope.cancel(reason="the client is gone")
    return status


def main() -> int:
    """Parse the arguments and run the agent; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m agentrt.demo", description=__doc__)
    parser.add_argument("--model", choices=get_args(Model), default="steady")
    parser.add_argument("--version", action="version", version=f"agentrt-demo {__version__}")
    model: Model = parser.parse_args().model
    if sys.stdin.isatty():
        print(
            "This is an agent: it speaks the Agent Client Protocol on its standard streams.\n"
            "To talk to it, run: agentrt --agent demo",
            file=sys.stderr,
        )
    return trio.run(_serve, model)


if __name__ == "__main__":
    sys.exit(main())
