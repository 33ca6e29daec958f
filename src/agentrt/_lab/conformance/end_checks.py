"""The end of standard input and of the process, in all protocols."""

from __future__ import annotations

from typing import Final

import trio

from .acp import acp_page
from .check import CheckRegistry, fails
from .peer import ConformancePeer

check = CheckRegistry()

SHUTDOWN: Final = acp_page("transports#stdio")
EXIT_TIMEOUT_S: Final = 10.0
"""Seconds to wait for an exit. The specification names no limit."""


async def _leaves(peer: ConformancePeer, what: str) -> str:
    """Check that the process and all its children exit in time, and describe the exit."""
    words = None
    with trio.move_on_after(EXIT_TIMEOUT_S):
        words = await peer.leaves(what)
    peer.waits_for = ""
    if words is None:
        raise fails(f"is still running {EXIT_TIMEOUT_S:.0f} s {what}")
    gone = False
    with trio.move_on_after(EXIT_TIMEOUT_S):
        await peer.transport.wait_tree()
        gone = True
    if not gone:
        raise fails(f"{words}, but its child processes were still running")
    return words


@check("eof", "exits when its standard input is closed", "should", SHUTDOWN)
async def eof(peer: ConformancePeer) -> str:
    await peer.ready()
    peer.close_stdin()
    return await _leaves(peer, "after the end of its input")


@check(
    "eof-at-once", "exits if its standard input is closed before any message", "should", SHUTDOWN
)
async def eof_at_once(peer: ConformancePeer) -> str:
    peer.close_stdin()
    return await _leaves(peer, "after the end of its input")


@check(
    "eof-in-turn",
    "exits when its standard input is closed during a turn",
    "should",
    SHUTDOWN,
    in_turn=True,
)
async def eof_in_turn(peer: ConformancePeer) -> str:
    await peer.run_long()
    peer.close_stdin()
    return await _leaves(peer, "after the end of its input")


@check(
    "eof-at-question",
    "exits when its standard input is closed during a permission request",
    "should",
    SHUTDOWN,
)
async def eof_at_question(peer: ConformancePeer) -> str:
    await peer.run_question()
    peer.close_stdin()
    return await _leaves(peer, "after the end of its input")


@check("sigterm", "exits on SIGTERM", "should", SHUTDOWN)
async def sigterm(peer: ConformancePeer) -> str:
    await peer.ready()
    peer.transport.terminate()
    return await _leaves(peer, "after SIGTERM")


@check("sigterm-in-turn", "exits on SIGTERM during a turn", "should", SHUTDOWN, in_turn=True)
async def sigterm_in_turn(peer: ConformancePeer) -> str:
    await peer.run_long()
    peer.transport.terminate()
    return await _leaves(peer, "after SIGTERM")
