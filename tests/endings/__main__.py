from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import trio

from postgres.server import serving

from .run import Plan, run
from .run import __doc__ as words


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="endings", description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    folder = Path(tempfile.mkdtemp(prefix="agentrt-endings-"))
    began = time.monotonic()
    with ExitStack() as stack:
        store = str(folder / "sessions.db")
        if given.store == "postgres":
            store = stack.enter_context(serving()).url("endings")
        plan = Plan(store=store, rounds=given.rounds, seed=given.seed)
        outcome = trio.run(run, plan, folder)
    for name, count in sorted(outcome.counts.items()):
        print(f"{count:8} {name}")
    verdict = outcome.verdict
    for kind in ("lost", "twice", "order", "unasked"):
        found = getattr(verdict, kind)
        print(f"{len(found):8} {kind}")
        for each in found[:20]:
            print(f"WRONG: {each}")
    print(
        f"{given.rounds} rounds in {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f}"
    )
    return not verdict.is_clean


if __name__ == "__main__":
    sys.exit(main())
