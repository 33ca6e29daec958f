"""A session in a store of your own, which survives `kill -9` ([`json_lines.py`](json_lines.py)).

    python examples/own_store.py FILE

The program starts itself a second time as a child that works with a session and is killed. Then it
reopens the session from the file.
"""

import os
import signal
import subprocess
import sys

import trio
from json_lines import JsonLines

import agentrt
from agentrt.store import open_store, reopen_session

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")


async def work(path: str) -> None:
    async with (
        open_store(JsonLines(path)) as store,
        agentrt.open_session(AGENT, cwd=".", store=store) as session,
    ):
        await session.run("list the files")
        async with session.prompt("/slow 600") as turn:
            async for event in turn:
                if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                    print(session.id, flush=True)


async def resume(path: str, name: str) -> None:
    async with open_store(JsonLines(path)) as store, reopen_session(name, store) as session:
        print("before:", [turn.outcome for turn in session.snapshot().turns])
        result = await session.run("list the files")
        print("after:", result.outcome)
        print("found:", [hit.entry.prompt for hit in await store.search("list")])


def main(path: str) -> None:
    child = [sys.executable, __file__, path, "work"]
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    trio.run(resume, path, name)


if __name__ == "__main__":
    if sys.argv[2:] == ["work"]:
        trio.run(work, sys.argv[1])
    else:
        main(sys.argv[1])
