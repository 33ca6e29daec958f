"""Sequences of what people do at clients of other protocols, as it happens."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import trio

from agentrt import Runtime
from agentrt.web import Site
from clients.kit import Node, node, served_script
from clients.scripted import Actor

SITE = 10
"""Sequences with one site and one program."""


class Sequence(ABC):
    """What happens in one session; `seed` decides it, and nothing else."""

    def __init__(self, site: Site, runtime: Runtime, led: Node, seed: int) -> None:
        self.site = site
        self.runtime = runtime
        self.led = led
        self.dice = Random(seed)
        self.did: Counter[str] = Counter()
        self.history: list[str] = []
        self.name = f"session-{seed}"

    @abstractmethod
    async def run(self) -> None:
        """Do it, and look at what there is in the end."""

    def expect(self, holds: bool, what: str) -> None:
        assert holds, f"{what}, in {self.name}"


async def play(
    kind: Callable[[Site, Runtime, Node, int], Sequence], script: str, sequences: int, seed: int
) -> Counter[str]:
    """So many sequences, each with a seed of its own; what was done. `script`: the clients."""
    did: Counter[str] = Counter()
    seeds = range(seed, seed + sequences)
    for first in seeds[::SITE]:  # what they leave is not to grow
        actor = Actor()
        async with (
            served_script(actor, recent_events=200) as (site, runtime),
            node(script) as led,
        ):
            actor.runtime = runtime
            for each in range(first, min(first + SITE, seeds.stop)):
                actor.dice = Random(each)
                sequence = kind(site, runtime, led, each)
                try:
                    await sequence.run()
                except BaseException as error:
                    error.add_note("\n".join(sequence.history))
                    raise
                did += sequence.did
            assert site.statistics().broken == 0
    return did


def main(play: Callable[[int, int], Awaitable[Counter[str]]], description: str) -> None:
    """The command line of such a module."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    did = trio.run(play, asked.sequences, asked.seed)
    print(", ".join(f"{what} {count}" for what, count in sorted(did.items())))
