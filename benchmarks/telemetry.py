"""What telemetry costs: the same work without, with, and on another build of agentrt.

    python benchmarks/telemetry.py [--rounds 7] [--quick] [--base FOLDER]

Rounds are interleaved, each measurement is a process of its own, and ratios are taken inside a
round; shown are the least and the median, of which the least is what other work of the machine
disturbs least. `sdk` is without agentrt's part: the same span, made of turns by hand. CPU is that
of the process. `--base` is a folder with another build
(`src` of it) to compare `off` with. `spans` have OpenTelemetry's SDK record all and drop it: what
is sent is the exporter's business.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKS = {"turns": 2000, "answers": 40, "flood": 200_000}
"""A short message a turn; a hundred pieces of an answer a turn, one each half a millisecond, faster
than models are; and as many pieces as can be read."""
ANSWER = "BENCH trickle 100 500"
MODES = ("off", "api", "sdk", "spans", "metrics", "both")


def dropping() -> Any:
    """The SDK, which records everything and sends nothing."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

    class Dropped(SpanExporter):
        def export(self, spans: Any) -> Any:
            return None

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Dropped()))
    return provider


def telemetry(mode: str) -> dict[str, Any]:
    import agentrt

    found: list[Any] = []
    if mode == "api":
        found.append(agentrt.telemetry.OpenTelemetry())
    if mode in ("spans", "both"):
        found.append(agentrt.telemetry.OpenTelemetry(tracer_provider=dropping()))
    if mode in ("metrics", "both"):
        found.append(agentrt.telemetry.Metrics())
    return {"telemetry": found} if found else {}


async def work(name: str, size: int, mode: str) -> None:
    """Print the CPU of one, in microseconds."""
    import agentrt
    from lab import build_agent

    program = agentrt.Agent(name="fake", protocol="acp", command=(f"{build_agent()}/fake-acp",))
    async with agentrt.open_session(program, cwd="/", **telemetry(mode)) as session:

        async def turn(prompt: str) -> None:
            async with session.prompt(prompt) as turn:
                async for _ in turn:
                    pass

        if mode == "sdk":
            turn = by_hand(turn)
        prompts = [f"BENCH flood {size} 200"]
        if name != "flood":
            prompts = ["BENCH turn" if name == "turns" else ANSWER] * size
        for prompt in ["BENCH turn"] * 50:
            await turn(prompt)
        begun = time.process_time()
        for prompt in prompts:
            await turn(prompt)
        print((time.process_time() - begun) / size * 1e6)


def by_hand(turn: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    """A turn in a span such as agentrt records of it."""
    from opentelemetry.trace import SpanKind

    tracer = dropping().get_tracer("by hand")
    known = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "fake",
        "gen_ai.agent.name": "fake",
        "gen_ai.conversation.id": "a" * 43,
        "agentrt.turn.id": "t1",
    }
    learnt = {
        "agentrt.turn.outcome": "completed",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.response.time_to_first_chunk": 0.001,
    }

    async def spanned(prompt: str) -> None:
        now = time.time_ns()
        span = tracer.start_span("invoke_agent fake", None, SpanKind.CLIENT, known, None, now)
        await turn(prompt)
        span.set_attributes(learnt)
        span.end(time.time_ns())

    return spanned


def measure(name: str, size: int, mode: str, build: str) -> float:
    code = (
        f"import sys; sys.path[:0] = [{build!r}, {str(HERE)!r}]\n"
        "import trio, telemetry\n"
        f"trio.run(telemetry.work, {name!r}, {size}, {mode!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base")
    options = parser.parse_args()
    here = str(HERE.parent / "src")
    builds = [(mode, mode, here) for mode in MODES]
    if options.base:
        builds.append(("base", "off", options.base))
    for name, size in WORKS.items():
        size = size // 5 if options.quick else size
        rounds: list[dict[str, float]] = []
        for number in range(options.rounds):
            order = builds if number % 2 else builds[::-1]
            rounds.append({t: measure(name, size, mode, build) for t, mode, build in order})
        for title, _, _ in builds:
            best, off = (min(each[of] for each in rounds) for of in (title, "off"))
            ratio = statistics.median(each[title] / each["off"] for each in rounds)
            shown = f"{best:8.2f} µs  {best / off:.2f} × off  (median of ratios {ratio:.2f})"
            print(f"{name:6} {title:8} {shown}", flush=True)


if __name__ == "__main__":
    main()
