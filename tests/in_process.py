"""The command `agentrt` in the process of the test, which can then replace the environment, the
folders and the clock: a process of its own takes half a second for each command.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from unittest.mock import patch

import outcome
import trio

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def set_back() -> Iterator[None]:
    """Set back the handlers of signals and of log lines, which the command sets for the rest of its
    process, some when it is imported."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    log = logging.getLogger("agentrt")
    printed, level, propagate = log.handlers[:], log.level, log.propagate
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        log.handlers[:], log.propagate = printed, propagate
        log.setLevel(level)


def main(arguments: Sequence[str]) -> int:
    """Run the entry point of the console script, and return the exit status."""
    with set_back(), patch.object(sys, "argv", ["agentrt", *arguments]):
        from agentrt.__main__ import run

        return run()


def main_beside(
    arguments: Sequence[str],
    client: Callable[[], Awaitable[None]],
    *,
    ready: threading.Event | None = None,
) -> int:
    """Run the entry point until a client is done, and return the exit status.

    The client has a thread and a loop of its own. At its end, the command gets a SIGTERM. `ready`:
    set by the client when the command may begin.
    """
    outcomes: list[outcome.Outcome[None]] = []

    def run() -> None:
        outcomes.append(outcome.capture(trio.run, client))
        if ready is not None:
            ready.set()
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda number, frame: None)  # if the command ends first
    thread = threading.Thread(target=run)
    thread.start()
    try:
        if ready is not None:
            ready.wait()
        failed = any(isinstance(each, outcome.Error) for each in outcomes)
        status = 1 if failed else main(arguments)
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
    outcomes[0].unwrap()
    return status


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def until_listening(port: int) -> None:
    """Wait until a server can be connected to."""
    while True:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        except OSError:
            await trio.sleep(0.02)
        else:
            return


def help_on(arguments: Sequence[str]) -> str:
    """Return the help on the command of these arguments, all of which it takes."""
    with redirect_stdout(StringIO()) as printed:
        assert main([*arguments, "--help"]) == 0  # it has read those before
    told = printed.getvalue()
    for word in arguments:
        if word.startswith("--"):
            assert re.search(rf"{word.partition('=')[0]}(?![\w-])", told), word
    return told
