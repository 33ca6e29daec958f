"""What a sandbox costs: the same work bare and in a sandbox.

    python benchmarks/guarded.py [--rounds 5] [--quick] [--base FOLDER]

`start` opens and closes one session after another, `turns` sends short prompts, `growth` is the
memory of the host for each open session, and `crowd` opens 100 sessions at once and closes them.
The agent is the scripted one in C; in `crowd` it is the demo agent, since no real agent starts in
a millisecond.
Rounds are interleaved, each measurement is a process of its own, and ratios are taken inside a
round; shown are medians. CPU is that of the host and of all processes below it until the sessions
are open (of a start) or the turns have ended, so the programs of the sandbox are included. `--base`
is a folder with another build (`src` of it) to compare `bare` with. The exit code is 1 if a target
was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil

HERE: Final = Path(__file__).parent
WORKS: Final = {"start": 20, "turns": 5000, "growth": 40, "crowd": 100}
QUICK: Final = {"start": 5, "turns": 2000, "growth": 10, "crowd": 10}


def cpu_s() -> float:
    """The CPU of this process and of all processes below it, in seconds.

    Those in a sandbox are counted while they live: their end is seen by a process inside.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    total = used.ru_utime + used.ru_stime
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def memory_bytes() -> int:
    """The memory of this process that no other one shares."""
    with open("/proc/self/smaps_rollup") as file:
        rows = [line.split() for line in file]
    return sum(int(row[1]) for row in rows if row[0].startswith("Private_")) * 1024


async def work(name: str, size: int, sandboxed: bool) -> dict[str, float]:
    """Do one work, and return its figures for one session or turn."""
    import trio

    import agentrt
    import lab

    folder = lab.build_agent()
    agent: Any = agentrt.Agent(name="fake", protocol="acp", command=(f"{folder}/fake-acp",))
    prompt = "BENCH turn"
    if name == "crowd":
        agent, prompt = "demo", "hi"
    given: dict[str, Any] = {"cwd": tempfile.mkdtemp(prefix="guarded-")}
    if sandboxed:
        given["sandbox"] = agentrt.sandbox.Sandbox(network="none", read=[str(folder)])

    async def hold(opened: Callable[[], None], leave: trio.Event) -> None:
        async with agentrt.open_session(agent, **given) as session:
            await session.run(prompt)
            opened()
            await leave.wait()

    async def together(count: int) -> dict[str, float]:
        """Open sessions at once, with a turn each; return the figures of one."""
        before_bytes, began_s, clock_s, left = memory_bytes(), cpu_s(), time.perf_counter(), count
        ready, leave = trio.Event(), trio.Event()

        def opened() -> None:
            nonlocal left
            left -= 1
            if not left:
                ready.set()

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(hold, opened, leave)
            await ready.wait()
            wall_s, used_s = time.perf_counter() - clock_s, cpu_s() - began_s
            grown_bytes = memory_bytes() - before_bytes
            leave.set()
        return {
            "cpu_us": used_s / count * 1e6,
            "wall_us": wall_s / count * 1e6,
            "memory_bytes": grown_bytes / count,
        }

    await together(1)  # imports and threads
    if name == "start":
        each = [await together(1) for _ in range(size)]
        return {figure: statistics.mean(one[figure] for one in each) for figure in each[0]}
    if name != "turns":
        return await together(size)
    async with agentrt.open_session(agent, **given) as session:
        for _ in range(size // 10):
            await session.run(prompt)
        began_s, clock_s = cpu_s(), time.perf_counter()
        for _ in range(size):
            await session.run(prompt)
        wall_s, used_s = time.perf_counter() - clock_s, cpu_s() - began_s
    return {"cpu_us": used_s / size * 1e6, "wall_us": wall_s / size * 1e6}


def measure(name: str, size: int, mode: str, base: str | None) -> dict[str, float]:
    env = dict(os.environ)
    if mode == "base":
        env["PYTHONPATH"] = f"{base}/src"
    argv = [sys.executable, __file__, "--work", name, str(size), mode]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What a sandbox costs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        import trio

        name, size, mode = options.work
        print(json.dumps(trio.run(work, name, int(size), mode == "sandbox")))
        return
    sizes = QUICK if options.quick else WORKS
    modes = ["bare", "sandbox", *(["base"] if options.base else [])]
    rounds: list[dict[str, dict[str, dict[str, float]]]] = []
    for _ in range(options.rounds):
        rounds.append(
            {
                name: {mode: measure(name, size, mode, options.base) for mode in modes}
                for name, size in sizes.items()
            }
        )

    def median(of: Callable[[dict[str, dict[str, dict[str, float]]]], float]) -> float:
        return statistics.median(of(each) for each in rounds)

    def ratio(name: str, figure: str, over: str = "sandbox", under: str = "bare") -> float:
        return median(lambda r: r[name][over][figure] / r[name][under][figure])

    for name in sizes:
        for mode in modes:
            cpu = median(lambda r, n=name, m=mode: r[n][m]["cpu_us"])
            wall = median(lambda r, n=name, m=mode: r[n][m]["wall_us"])
            print(f"{name:8} {mode:8} CPU {cpu / 1000:9.3f} ms   time {wall / 1000:9.3f} ms")
    start_ms = median(
        lambda r: (r["start"]["sandbox"]["cpu_us"] - r["start"]["bare"]["cpu_us"]) / 1000
    )
    growth_mb = median(lambda r: r["growth"]["sandbox"]["memory_bytes"] / 1e6)
    crowd = ratio("crowd", "cpu_us")
    results = [
        ("a start costs at most 30 ms of CPU more", start_ms, 30.0, "ms"),
        ("a turn costs at most 2 % more", (ratio("turns", "cpu_us") - 1) * 100, 2.0, "%"),
        ("a session has at most 5 MB", growth_mb, 5.0, "MB"),
        ("100 sessions take at most 1.5 times the CPU", crowd, 1.5, "x"),
    ]
    if options.base:
        slower = (ratio("turns", "cpu_us", "bare", "base") - 1) * 100
        results.append(("without a sandbox nothing is slower (3 %)", slower, 3.0, "%"))
    missed = False
    for what, found, most, unit in results:
        verdict = "reached" if found <= most else "MISSED"
        missed = missed or found > most
        print(f"{what:48} {found:8.2f} {unit:3} {verdict}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
