"""What a trace costs: the same work without one, and with.

    python benchmarks/tracing.py [--rounds 9] [--quick] [--base FOLDER]

Rounds are interleaved, each measurement is a process of its own, and ratios are taken inside a
round. Three figures of each: wall time, the CPU of the whole process, and that of the thread that
runs the sessions. `--base` is another build (`src` of it), which is measured as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
WORKS = {"turns": 2000, "answers": 40, "flood": 400_000}
"""A short message a turn; a hundred pieces of an answer a turn, one each half a millisecond, faster
than models are; and as many pieces as can be read."""
ANSWER = "BENCH trickle 100 500"
FIGURES = ("wall", "process", "thread")


async def work(protocol: str, name: str, size: int, file: str) -> None:
    """Print what one takes, in microseconds, and what the trace did not take."""
    import agentrt
    from lab import build_agent

    command = (f"{build_agent()}/fake-{protocol}",)
    program = agentrt.Agent(name="fake", protocol=protocol, command=command)
    prompts = [f"BENCH flood {size} 250"]
    if name != "flood":
        prompts = ["BENCH turn" if name == "turns" else ANSWER] * size

    async def run(trace: agentrt.tracing.Trace | None) -> None:
        async with agentrt.open_session(program, cwd="/", trace=trace) as session:
            for number, prompt in enumerate(["BENCH turn"] * 50 + prompts):
                if number == 50:
                    begun[:] = clocks()
                async with session.prompt(prompt) as turn:
                    async for _ in turn:
                        pass
            if trace is not None:
                await trace.flush()
            ended = clocks()
            lost = trace.lost if trace is not None else 0
            print(*((b - a) / size * 1e6 for a, b in zip(begun, ended, strict=True)), lost)

    begun: list[float] = []
    if file:
        async with agentrt.tracing.open_trace(file, max_bytes=2**30) as trace:
            await run(trace)
    else:
        await run(None)


def clocks() -> list[float]:
    return [time.perf_counter(), time.process_time(), time.thread_time()]


def measure(protocol: str, name: str, size: int, build: str, *, on: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/t" if on else ""
        code = (
            f"import sys; sys.path[:0] = [{build!r}, {str(HERE)!r}]\n"
            "import trio, tracing\n"
            f"trio.run(tracing.work, {protocol!r}, {name!r}, {size}, {file!r})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base")
    options = parser.parse_args()
    here = str(HERE.parent / "src")
    builds = [("off", here, False), ("on", here, True)]
    if options.base:
        builds += [("base off", options.base, False), ("base on", options.base, True)]
    for protocol in ("acp", "claude"):
        for name, size in WORKS.items():
            size = size // 4 if options.quick else size
            rounds: list[dict[str, list[float]]] = []
            for number in range(options.rounds):
                order = builds if number % 2 else builds[::-1]
                rounds.append(
                    {
                        title: measure(protocol, name, size, build, on=on)
                        for title, build, on in order
                    }
                )
            print(f"{protocol} {name}, load {os.getloadavg()[0]:.1f}")
            for title, _, _ in builds:
                words = [f"  {title:8}"]
                for index, figure in enumerate(FIGURES):
                    median = statistics.median(each[title][index] for each in rounds)
                    ratios = [each[title][index] / each["off"][index] for each in rounds]
                    ratio = statistics.median(ratios)
                    words.append(
                        f"{figure} {median:7.2f} µs"
                        f" ×{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                    )
                lost = max(each[title][-1] for each in rounds)
                print("; ".join(words) + (f"; {lost:.0f} lost" if lost else ""), flush=True)


if __name__ == "__main__":
    main()
