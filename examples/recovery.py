"""A program that is killed with `kill -9` in the middle of a turn, and its successor.

    python examples/recovery.py STORE

The program starts itself a second time as a child that works with the session and is killed. Then
it reopens the session from the store: the interrupted turn is closed, and the conversation goes on.
"""

import os
import signal
import subprocess
import sys

import trio

import agentrt
from agentrt.store import open_store, reopen_session

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")


async def work(address: str) -> None:
    async with (
        open_store(address) as store,
        agentrt.open_session(AGENT, cwd=".", store=store) as session,
    ):
        await session.run("list the files")
        async with session.prompt("/slow 600") as turn:
            async for event in turn:
                if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                    print(session.id, flush=True)


async def recover(address: str, name: str) -> None:
    async with open_store(address) as store, reopen_session(name, store) as session:
        print("before:", [turn.outcome for turn in session.snapshot().turns])
        result = await session.run("list the files")
        print("after:", result.outcome)


def main(address: str) -> None:
    child = [sys.executable, __file__, address, "work"]
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    trio.run(recover, address, name)


if __name__ == "__main__":
    if sys.argv[2:] == ["work"]:
        trio.run(work, sys.argv[1])
    else:
        main(sys.argv[1])
