"""`python -m simulation`: many seeds, or one of them step by step.

    python -m simulation --seeds 2000 --driver all
    python -m simulation --driver acp --seed 17
    python -m simulation --store --seeds 1000
    python -m simulation --servers --seeds 1000 --seconds 20

Exit code: 0 if every invariant held, 1 if one broke, 2 for a wrong argument.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat

from .run import Result, run, shrink
from .world import Driver

BATCH = 50
"""Seeds that a worker runs in one go."""

COLLECT_AFTER = 100_000
"""New objects after which unreachable ones are looked for."""


@dataclass
class Share:
    """What came of some seeds."""

    seeds: int = 0
    turns: int = 0
    own_turns: int = 0
    seconds: float = 0.0
    """Of CPU."""
    failed: Result | None = None

    def add(self, other: Share) -> None:
        self.seeds += other.seeds
        self.turns += other.turns
        self.own_turns += other.own_turns
        self.seconds += other.seconds
        self.failed = self.failed or other.failed


def run_some(driver: Driver, store: bool, seeds: range) -> Share:
    # A run leaves some 10,000 objects in cycles. Looking for them ten times in each run takes an
    # eighth of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    share, began = Share(), time.process_time()
    for seed in seeds:
        result = run(driver, seed, store=store)
        share.seeds += 1
        share.turns += result.turns
        share.own_turns += result.own_turns
        if result.violation is not None:
            share.failed = result
            break
    share.seconds = time.process_time() - began
    return share


def run_all(
    driver: Driver, seeds: range, jobs: int, seconds: float | None, *, store: bool = False
) -> Share:
    """Run the seeds in order until one fails, or the time is over."""
    total, began = Share(), time.monotonic()
    batches = [seeds[n : n + BATCH] for n in range(0, len(seeds), BATCH)]

    def shares() -> Iterator[Share]:
        if jobs == 1:
            yield from map(run_some, repeat(driver), repeat(store), batches)
            return
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(run_some, repeat(driver), repeat(store), batches)
            pool.shutdown(cancel_futures=True)

    for share in shares():
        total.add(share)
        if share.failed or (seconds is not None and time.monotonic() - began > seconds):
            break
    rate = total.turns / total.seconds if total.seconds else 0.0
    print(
        f"{driver}: {total.seeds} seeds, {total.turns} turns and {total.own_turns} of the agent's "
        f"own, {rate:.0f} turns per CPU-second",
        flush=True,
    )
    return total


def explain(driver: Driver, seed: int, steps: list[int] | None, *, store: bool = False) -> bool:
    """Run one seed, or only some of its steps, and print its trace. True: nothing broke."""
    result = run(driver, seed, keep_trace=True, store=store)
    if steps is not None:
        script = [result.steps[n] for n in steps]
        result = run(driver, seed, script=script, keep_trace=True, store=store)
    print("\n".join(result.trace))
    if result.violation is None:
        print(f"{driver}: seed {seed} is fine: {len(result.steps)} steps, {result.turns} turns")
        return True
    print(f"\n{driver}: seed {seed} breaks {result.violation}")
    return False


def report(failed: Result, numbers: list[int]) -> None:
    """Print how a seed that failed can be seen again: all of it, or only these of its steps."""
    print(f"{failed.driver}: seed {failed.seed} broke {failed.violation}")
    again = f"nox -s simulate -- --driver {failed.driver} --seed {failed.seed}"
    if failed.store:
        again += " --store"
    print(f"all {len(failed.steps)} steps: {again}")
    print(f"the {len(numbers)} above: {again} --steps {','.join(map(str, numbers)) or 'none'}")


def step_numbers(text: str) -> list[int]:
    return [] if text == "none" else [int(word) for word in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m simulation", description="Whole sessions, each decided by one seed."
    )
    parser.add_argument(
        "--driver", choices=("acp", "acp2", "claude", "codex", "all"), default="all"
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seconds", type=float, help="stop after that long, for each driver")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in")
    parser.add_argument("--seed", type=int, help="run this one, and print what happens")
    parser.add_argument("--steps", type=step_numbers, help="with --seed: only these of its steps")
    parser.add_argument(
        "--store", action="store_true", help="store the sessions, on a disk that is slow and fails"
    )
    parser.add_argument(
        "--servers", action="store_true", help="several servers that share a store, and clients"
    )
    given = parser.parse_args()
    if given.servers:
        from owners.routing import explore

        seeds = range(given.first, given.first + given.seeds)
        one = given.seed is not None
        return 0 if explore([given.seed] if one else seeds, given.seconds, trace=one) else 1
    every: list[Driver] = ["acp", "acp2", "claude", "codex"]
    drivers = every if given.driver == "all" else [given.driver]
    fine = True
    for driver in drivers:
        if given.seed is not None:
            fine = explain(driver, given.seed, given.steps, store=given.store) and fine
            continue
        seeds = range(given.first, given.first + given.seeds)
        total = run_all(driver, seeds, given.jobs, given.seconds, store=given.store)
        if total.failed is not None:
            numbers = shrink(total.failed)
            explain(driver, total.failed.seed, numbers, store=given.store)
            report(total.failed, numbers)
            fine = False
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
