"""Tokens and cost per stored session.

    python examples/cost_report.py STORE

`STORE` is a file of `open_store` or the address of a PostgreSQL database; `agentrt doctor` prints
the one that the terminal uses.
"""

import sys

import trio

from agentrt.store import open_store


async def main(address: str) -> None:
    async with open_store(address) as store:
        for entry in await store.sessions():
            snapshot = await store.snapshot(entry.session)
            usages = [turn.usage for turn in snapshot.turns if turn.usage is not None]
            tokens = sum(usage.total_tokens or 0 for usage in usages)
            cost = sum(usage.cost or 0 for usage in usages)
            title = entry.title or entry.prompt or "-"
            print(f"{entry.session}  {title:40.40}  {tokens:8} tokens  ${cost:.4f}")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
