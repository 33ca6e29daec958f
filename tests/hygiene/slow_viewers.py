"""Viewers on slow lines for a soak, in a process of their own.

    python tests/hygiene/slow_viewers.py --port 8000 --viewers 20 --seconds 60

Each connects, views sessions that it is told of, reads as fast as its line allows and leaves after
some seconds, now and then in the middle of a frame. The last line of the output is JSON: bytes,
events and snapshots received, and connections.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from web.slow_line import slow_line
from web.sockets import PING, PONG, TEXT, Client, frame

RATES = (2_000, 20_000, 200_000)
"""Bytes per second of the lines."""


async def view(port: int, chance: random.Random, seen: Counter[str]) -> None:
    """View sessions over one connection."""
    async with slow_line(port, bytes_per_s=chance.choice(RATES)) as (client, stream):
        seen["connections"] += 1
        try:
            with trio.move_on_after(chance.uniform(1, 30)):
                await client.send(frame(json.dumps({"type": "hello", "id": "h"})))
                while True:
                    await _take(client, chance, seen)
        except (EOFError, trio.BrokenResourceError):
            seen["disconnected"] += 1
        seen["bytes"] += stream.received_bytes


async def _take(client: Client, chance: random.Random, seen: Counter[str]) -> None:
    opcode, payload = await client.frame()
    if opcode == PING:
        await client.send(frame(payload, PONG))
    if opcode != TEXT:
        return
    found = json.loads(payload)
    for each in found if isinstance(found, list) else [found]:
        seen[f"{each['type']} frames"] += 1
        first, later = each["type"] == "ready", each["type"] == "sessions"
        if first or (later and chance.random() < 0.1):
            await _attach(client, each, chance)


async def _attach(client: Client, told: dict[str, Any], chance: random.Random) -> None:
    known = [each["session"] for each in told["sessions"]]
    for session in chance.sample(known, min(2, len(known))):
        attach = {"type": "attach", "id": f"a{chance.random()}", "session": session}
        await client.send(frame(json.dumps(attach)))


async def main(port: int, viewers: int, seconds: float, seed: int) -> None:
    seen: Counter[str] = Counter()
    chance = random.Random(seed)

    async def again() -> None:
        while True:
            await view(port, chance, seen)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(viewers):
                nursery.start_soon(again)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    trio.run(main, given.port, given.viewers, given.seconds, given.seed)
