"""A process that shares a store: `python -m postgres.worker URL NAME LEASE`.

It goes on with whatever session it gets, with an agent that is a process, and writes a line for
each turn that is over: `SESSION SEQ`.
"""

from __future__ import annotations

import logging
import random
import sys
from functools import partial

import trio

import agentrt
from agentrt import AgentrtError, Limits

SESSIONS = 3


async def main(url: str, name: str, lease: float) -> None:
    limits = Limits(
        store_lease_s=lease,
        cancel_grace_s=1,
        stdin_close_grace_s=1,
        terminate_grace_s=0.5,
        drain_timeout_s=5,
    )
    async with (
        agentrt.store.open_store(url, limits=limits, node=name, home="here") as store,
        agentrt.open_runtime(store=store, limits=limits) as runtime,
        trio.open_nursery() as nursery,
    ):
        for number in range(SESSIONS):
            nursery.start_soon(partial(work, runtime, random.Random(f"{name} {number}")))
        assert store.membership is not None
        await store.membership.drained.wait()
        print("draining", flush=True)
        await runtime.drain()
        nursery.cancel_scope.cancel()
    print("drained", flush=True)


async def work(runtime: agentrt.Runtime, chance: random.Random) -> None:
    while True:
        try:
            known = [info.session for info in runtime.list()]
            if len(known) < SESSIONS:
                session = await runtime.create("demo")
            else:
                session = await runtime.reopen(chance.choice(sorted(known)[:SESSIONS]))
            for _ in range(chance.randrange(1, 4)):
                result = await session.run("say on and on and on", check=False)
                if result.outcome == "completed":
                    print(session.id, session.log.seq, flush=True)
            if chance.random() < 0.3:
                await runtime.close(session.id)
        except AgentrtError as error:
            print("#", type(error).__name__, error, file=sys.stderr, flush=True)
        await trio.sleep(chance.random() / 10)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    trio.run(main, sys.argv[1], sys.argv[2], float(sys.argv[3]))
