"""What a sandbox costs: the same work bare and in a sandbox.

    python benchmarks/guarded.py [--rounds 5] [--quick] [--base FOLDER]

`start` opens and closes one session after another, `turns` sends short prompts, `growth` is the
memory of the host for each open session, and `crowd` opens 100 sessions at once and closes them.
The agent is the scripted one in C; in `crowd` it is the demo agent, since no real agent starts in
a millisecond.
Rounds are interleaved, each measurement is a process of its own, and ratios are taken inside a
round; shown are medians. The difference of a turn is smaller than that of two processes: both
sessions are open in one process and take turns in short blocks, in the order bare, sandbox,
sandbox, bare, so that a load that rises or falls counts for both. The host has one processor then,
and the agents the others; otherwise the kernel's placement decides. The ratio of a round
is the median of all such groups of blocks. CPU is that of the host and of all processes below it
until the sessions are open (of a start) or the turns have ended, so the programs of the sandbox are
included.
`--base` is a folder with another build (`src` of it) to compare `bare` with. The exit code is 1 if
a target was missed.
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import psutil

HERE: Final = Path(__file__).parent
WORKS: Final = {"start": 20, "turns": 10_000, "growth": 40, "crowd": 100}
QUICK: Final = {"start": 5, "turns": 2000, "growth": 10, "crowd": 10}
BLOCK: Final = 250
"""Turns of one session, before it is the other one's turn."""


def cpu_s(below: Iterable[psutil.Process] | None = None) -> float:
    """The CPU of this process and of all processes below it, in seconds.

    Those in a sandbox are counted while they live: their end is seen by a process inside. `below`:
    the processes, if they are known; to find them takes as much CPU as a hundred turns. For them
    the scheduler's own count is read, in nanoseconds: an agent takes a quarter of the ticks of
    10 ms that psutil reads for a block of turns. It is without threads and children that ended.
    """
    total = 0.0
    if below is None:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
    else:
        for process in below:
            for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                total += int(path.read_text().split()[0]) / 1e9
    used = resource.getrusage(resource.RUSAGE_SELF)
    return total + used.ru_utime + used.ru_stime


def memory_bytes() -> int:
    """The memory of this process that no other one shares."""
    with open("/proc/self/smaps_rollup") as file:
        rows = [line.split() for line in file]
    return sum(int(row[1]) for row in rows if row[0].startswith("Private_")) * 1024


async def work(name: str, size: int, mode: str) -> dict[str, Any]:
    """Do one work, and return its figures for one session or turn; for each mode of `both`."""
    import trio

    import agentrt
    import lab
    import run

    folder = lab.build_agent()
    agent: Any = agentrt.Agent(name="fake", protocol="acp", command=(f"{folder}/fake-acp",))
    prompt = "BENCH turn"
    if name == "crowd":
        agent, prompt = "demo", "hi"
    given: dict[str, Any] = {"cwd": tempfile.mkdtemp(prefix="guarded-")}
    bare = agentrt.open_session(agent, **given)
    given["sandbox"] = agentrt.sandbox.Sandbox(network="none", read=[str(folder)])
    if mode == "both":
        run.pin()
        async with bare as first, agentrt.open_session(agent, **given) as second:
            return await in_turn(first, second, size, prompt)
    if mode != "sandbox":
        del given["sandbox"]

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
        below = psutil.Process().children(recursive=True)
        await turns(session, size // 10, prompt, below)
        return await turns(session, size, prompt, below)


async def turns(
    session: Any, count: int, prompt: str, below: list[psutil.Process]
) -> dict[str, float]:
    """Take turns, and return the figures of one. `below`: the processes below this one."""
    began_s, clock_s = cpu_s(below), time.perf_counter()
    for _ in range(count):
        await session.run(prompt)
    wall_s, used_s = time.perf_counter() - clock_s, cpu_s(below) - began_s
    return {"cpu_us": used_s / count * 1e6, "wall_us": wall_s / count * 1e6}


async def in_turn(bare: Any, sandboxed: Any, size: int, prompt: str) -> dict[str, Any]:
    """Take turns in both sessions; return the figures of each, and the ratios of the groups."""
    below = psutil.Process().children(recursive=True)
    for session in (bare, sandboxed):
        await turns(session, size // 10, prompt, below)
    found: dict[str, list[dict[str, float]]] = {"bare": [], "sandbox": []}
    ratios: dict[str, list[float]] = {"cpu_us": [], "wall_us": []}
    for _ in range(size // BLOCK // 2):
        for mode in ("bare", "sandbox", "sandbox", "bare"):
            session = sandboxed if mode == "sandbox" else bare
            found[mode].append(await turns(session, BLOCK, prompt, below))
        for figure, each in ratios.items():
            over, under = (sum(one[figure] for one in found[m][-2:]) for m in ("sandbox", "bare"))
            each.append(over / under)
    return {
        **{
            mode: {figure: statistics.mean(one[figure] for one in blocks) for figure in ratios}
            for mode, blocks in found.items()
        },
        "ratio": {figure: statistics.median(each) for figure, each in ratios.items()},
    }


def measure(name: str, size: int, mode: str, base: str | None) -> dict[str, Any]:
    env = dict(os.environ)
    if mode == "base":
        env["PYTHONPATH"] = f"{base}/src"
    argv = [sys.executable, __file__, "--work", name, str(size), mode]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
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
        print(json.dumps(trio.run(work, name, int(size), mode)))
        return
    sizes = QUICK if options.quick else WORKS
    modes = ["bare", "sandbox"]
    rounds: list[dict[str, dict[str, dict[str, float]]]] = []
    for _ in range(options.rounds):
        found = {
            name: measure(name, size, "both", None)
            if name == "turns"
            else {mode: measure(name, size, mode, None) for mode in modes}
            for name, size in sizes.items()
        }
        if options.base:
            found["alone"] = {
                mode: measure("turns", sizes["turns"], mode, options.base)
                for mode in ("bare", "base")
            }
        rounds.append(found)

    def median(of: Callable[[dict[str, dict[str, dict[str, float]]]], float]) -> float:
        return statistics.median(of(each) for each in rounds)

    def ratio(name: str, over: str, under: str) -> float:
        return median(lambda r: r[name][over]["cpu_us"] / r[name][under]["cpu_us"])

    for name in sizes:
        for mode in modes:
            cpu = median(lambda r, n=name, m=mode: r[n][m]["cpu_us"])
            wall = median(lambda r, n=name, m=mode: r[n][m]["wall_us"])
            print(f"{name:8} {mode:8} CPU {cpu / 1000:9.3f} ms   time {wall / 1000:9.3f} ms")
    start_ms = median(
        lambda r: (r["start"]["sandbox"]["cpu_us"] - r["start"]["bare"]["cpu_us"]) / 1000
    )
    growth_mb = median(lambda r: r["growth"]["sandbox"]["memory_bytes"] / 1e6)
    crowd = ratio("crowd", "sandbox", "bare")
    turn = median(lambda r: (r["turns"]["ratio"]["cpu_us"] - 1) * 100)
    results = [
        ("a start costs at most 30 ms of CPU more", start_ms, 30.0, "ms"),
        ("a turn costs at most 2 % more", turn, 2.0, "%"),
        ("a session has at most 5 MB", growth_mb, 5.0, "MB"),
        ("100 sessions take at most 1.5 times the CPU", crowd, 1.5, "x"),
    ]
    if options.base:
        slower = (ratio("alone", "bare", "base") - 1) * 100
        results.append(("without a sandbox nothing is slower (3 %)", slower, 3.0, "%"))
    missed = False
    for what, found, most, unit in results:
        verdict = "reached" if found <= most else "MISSED"
        missed = missed or found > most
        print(f"{what:48} {found:8.2f} {unit:3} {verdict}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
