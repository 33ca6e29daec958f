"""Measure the pauses of a process with much structured output, and the cost of each message.

    python benchmarks/pauses.py [--only many,long,growth] [--rounds 3] [--against PYTHON]

`many`: 100 sessions with 3,000 updates each, then short turns. `long`: one turn of 300,000 updates
and a reader that only iterates. `growth`: one turn of 10,000, 100,000 and 1,000,000. The updates
are tool calls, their outputs, thoughts and texts in turn. Each measurement is a process of its own.
Shown are its longest garbage collection and all of them together, its longest step between two
checkpoints of a task, how far the reader fell behind, and its CPU time per message.

With `--freeze`, the survivors of each full collection are frozen, as `agentrt serve` does it: what
is already there is not looked through again.

With `--against`, the agentrt of another environment is measured in the same rounds. Compare the two
columns and not the absolute times, which are those of the machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trio

import lab

CASES: dict[str, list[tuple[str, int, int]]] = {
    "many": [(p, 100, 3000) for p in ("acp", "claude")],
    "long": [(p, 1, 300_000) for p in ("acp", "claude")],
    "growth": [(p, 1, 10**n) for p in ("acp", "claude") for n in (4, 5, 6)],
}
"""Protocol, sessions, and updates in the turn of each."""

SHORT_TURNS = 5000

TITLES = {
    "gc_ms": "longest garbage collection, ms",
    "step_ms": "longest step of a task, ms",
    "behind": "events that were not read yet, at most",
    "cpu_us": "CPU a message, µs",
}
WANTED: dict[str, dict[str, float | None]] = {
    "many": {"gc_ms": None, "step_ms": None},
    "long": {"gc_ms": 20, "step_ms": None, "behind": 2000},
    "growth": {"cpu_us": 7},
}
"""The figures of each case for the page, with bounds."""
FROZEN: dict[str, dict[str, float | None]] = {
    name: wanted | {"gc_ms": 20} for name, wanted in WANTED.items()
}
"""The same with `--freeze`."""


class Steps(trio.abc.Instrument):
    """The longest step of a task, in seconds of computing time of its thread."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began_s = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began_s)


class Collections:
    """The garbage collections, in seconds of computing time."""

    def __init__(self) -> None:
        self.longest_s = self.total_s = 0.0
        self._began_s = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.thread_time()
        else:
            took_s = time.thread_time() - self._began_s
            self.longest_s = max(self.longest_s, took_s)
            self.total_s += took_s


def measure(
    program: str, protocol: str, count: int, updates: int, *, freeze: bool
) -> dict[str, Any]:
    """Run one case in this process."""
    import agentrt

    agent = agentrt.Agent(name="fake", protocol=protocol, command=(program,))  # type: ignore[arg-type]
    collections = Collections()
    out: dict[str, Any] = {}

    async def main() -> None:
        limits = agentrt.Limits(open_sessions=count)
        async with agentrt.open_runtime(limits=limits) as runtime:
            sessions = [await runtime.create(agent, cwd="/") for _ in range(count)]
            for session in sessions:
                await session.run("BENCH turn")
            gc.collect()
            if freeze:
                from agentrt._cli.collections import short_collections

                stack.enter_context(short_collections())
            gc.callbacks.append(collections)
            steps = Steps()
            trio.lowlevel.add_instrument(steps)
            began_s = time.process_time()
            read = behind = 0
            for session in sessions:
                start = session.log.seq
                async with session.prompt(f"BENCH mixed {updates}") as turn:
                    async for _ in turn:
                        read += 1
                        if read % 100 == 0 and count == 1:
                            behind = max(behind, session.log.seq - turn.seq)
                assert session.log.seq - start >= updates * 3 // 4
            out["cpu_us"] = (time.process_time() - began_s) / (count * updates) * 1e6
            out["behind"] = behind
            if count > 1:
                began_s = time.process_time()
                for n in range(SHORT_TURNS):
                    await sessions[n % count].run("BENCH turn")
                out["turn_us"] = (time.process_time() - began_s) / SHORT_TURNS * 1e6
            trio.lowlevel.remove_instrument(steps)
            gc.callbacks.remove(collections)
            out["step_ms"] = steps.longest_s * 1e3
            out["tracked"] = len(gc.get_objects())

    with ExitStack() as stack:
        trio.run(main)
    out["gc_ms"], out["gc_s"] = collections.longest_s * 1e3, collections.total_s
    out["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", help="the Python of another environment")
    parser.add_argument("--freeze", action="store_true", help="as `agentrt serve` does")
    parser.add_argument("--rows", help=lab.ROWS)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        program, protocol, count, updates = asked.measure
        figures = measure(program, protocol, int(count), int(updates), freeze=asked.freeze)
        print(json.dumps(figures))
        return
    folder = lab.build_agent()
    pythons = [sys.executable, *([asked.against] if asked.against else [])]
    for name in asked.only.split(","):
        for protocol, count, updates in CASES[name]:
            rows: dict[str, list[dict[str, Any]]] = {python: [] for python in pythons}
            for _ in range(asked.rounds):
                for python in pythons:  # interleaved: what else the machine does hits all alike
                    given = [str(folder / f"fake-{protocol}"), protocol, str(count), str(updates)]
                    command = [python, str(Path(__file__)), "--measure", *given]
                    command += ["--freeze"] * asked.freeze
                    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                    rows[python].append(json.loads(told.stdout))
            print(f"{name}: {protocol}, {count} sessions with {updates:,} updates")
            for figure in rows[pythons[0]][0]:
                medians = [statistics.median(row[figure] for row in rows[p]) for p in pythons]
                ratio = f"  x {medians[0] / (medians[1] or 1):.2f}" if asked.against else ""
                print(f"  {figure:8} {'  '.join(f'{each:12.2f}' for each in medians)}{ratio}")
            sessions = f"{count} sessions with " if count > 1 else ""
            what = f"{sessions}{updates:,} updates in a turn, {protocol}"
            what += ", survivors of full collections frozen" * asked.freeze
            for figure, bound in (FROZEN if asked.freeze else WANTED)[name].items():
                values = [row[figure] for row in rows[sys.executable]]
                lab.keep(asked.rows, "pauses", f"{what}: {TITLES[figure]}", values, bound)


if __name__ == "__main__":
    main()
