"""A host that streams in several sessions until it is killed, and writes each event number that a
viewer was shown to its standard output: `python -m journal.killed FILE LIBRARY`."""

from __future__ import annotations

import os
import sys
from typing import Any

import trio
import trio.lowlevel

from agentrt.errors import SessionNotFound
from agentrt.store import Store, open_store
from runtime.fakes import Incarnations

from .kit import again, kept

SESSIONS = 4


async def talkative(agent: Any) -> None:
    async for prompt in agent.prompts:
        for number in range(200):
            agent.say(f"{prompt.text} {number} ")
            if number % 7 == 0:
                await trio.lowlevel.checkpoint()
        prompt.end()


async def work(store: Store, id: str) -> None:
    agents = Incarnations(talkative)
    try:
        opened = again(store, agents, id=id)
        await store.load(id)
    except SessionNotFound:
        opened = kept(store, agents, id=id)
    async with opened as session:
        log = session.log
        log.listen(lambda: print_whole(f"{id} {log.seq}\n"))
        while True:
            await session.run("on and on")


def print_whole(line: str) -> None:
    os.write(1, line.encode())


async def main() -> None:
    [path] = sys.argv[1:]
    async with open_store(path) as store, trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(work, store, f"s{number}")


if __name__ == "__main__":
    trio.run(main)
