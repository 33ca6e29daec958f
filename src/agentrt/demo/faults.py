"""The `/commands` that demonstrate faults: silence, floods, errors and crashes."""

from __future__ import annotations

import os
import signal
import sys

import trio

from ..jsonrpc import INTERNAL_ERROR
from .command import DemoCommand, number
from .files import FileRefused
from .turn import DemoTurn, StopReason
from .wire import DemoRpcError

MAX_WAIT_S = 3600.0
"""Seconds of the longest wait that can be requested."""


async def slow(turn: DemoTurn, argument: str) -> None:
    """Send nothing for a while."""
    seconds = number(argument, 10, MAX_WAIT_S)
    with turn.tool(f"Say nothing for {seconds:g} s", "execute") as call:
        call.update(status="in_progress")
        await trio.sleep(seconds)
    await turn.say("That was a tool without output while it runs.")


async def stubborn(turn: DemoTurn, argument: str) -> None:
    """Ignore cancels for a while."""
    seconds = number(argument, 5, MAX_WAIT_S)
    await turn.say(f"For {seconds:g} s I do not listen to a cancel.")
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    await turn.say("Now I listen again.")


async def flood(turn: DemoTurn, argument: str) -> None:
    """Send many lines of text."""
    count = int(number(argument, 1000, 1_000_000))
    for line in range(1, count + 1):
        content = {"type": "text", "text": f"line {line}\n"}
        turn.session.send({"sessionUpdate": "agent_message_chunk", "content": content})
        if line % 100 == 0:
            await turn.session.connection.room()


async def error(turn: DemoTurn, argument: str) -> None:
    """Answer the prompt with an error."""
    await turn.say("Some text, and then an error.")
    code = int(number(argument.removeprefix("-"), -INTERNAL_ERROR, 99_999))
    raise DemoRpcError(-code, "An error, as asked for", {"details": "This is what `/error` shows."})


async def refuse(turn: DemoTurn, argument: str) -> StopReason:
    """End the turn as refused."""
    await turn.say("I refuse, as asked.")
    return "refusal"


async def limit(turn: DemoTurn, argument: str) -> StopReason:
    """End the turn at a limit."""
    await turn.say("This answer is cut off in the mid")
    return "max_turn_requests" if argument == "turns" else "max_tokens"


async def crash(turn: DemoTurn, argument: str) -> None:
    """Exit in the middle of a tool call: with a status, by a signal, or after half a line."""
    how = argument.upper()
    wanted = signal.Signals.__members__.get(how if how.startswith("SIG") else f"SIG{how}")
    if how not in ("", "MID") and not how.isdecimal() and wanted is None:
        raise FileRefused("Say how: `/crash`, `/crash 3`, `/crash SEGV` or `/crash mid`.")
    await turn.say("I am about to crash.")
    with turn.tool("Crash", "other") as call:
        call.update(status="in_progress")
        await turn.session.connection.drained()
        print("agentrt demo: crashing, as asked", file=sys.stderr, flush=True)
        if how == "MID":
            half = b'{"jsonrpc":"2.0","method":"session/update","params":{"sess'
            await turn.session.connection.write_raw(half)
        if wanted is not None:
            os.kill(os.getpid(), wanted)
            await trio.sleep_forever()  # a handled or ignored signal does not end the process
        os._exit(int(how) % 256 if how.isdecimal() else 1)


COMMANDS = (
    DemoCommand("slow", "a tool without output while it runs", slow, "seconds"),
    DemoCommand("stubborn", "does not listen to a cancel for a while", stubborn, "seconds"),
    DemoCommand("flood", "very many updates", flood, "how many"),
    DemoCommand("error", "an error as the answer to the prompt", error, "code"),
    DemoCommand("refuse", "a refusal", refuse),
    DemoCommand("limit", "an answer cut off by a limit", limit, "tokens or turns"),
    DemoCommand("crash", "ends the agent's process", crash, "status, signal or mid"),
)
