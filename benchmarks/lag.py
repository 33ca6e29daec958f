"""How long a word of the agent's takes to its viewers, and what each of them costs.

    python benchmarks/lag.py [--rounds 3] [--quick]

The agent's words are the times at which it wrote them. Beside agentrt stands a plain broadcast with
the library `websockets` (`broadcast.py`), fed by the same agent: it sends each line to each viewer
and knows nothing else. Rounds are interleaved; CPU is the server's own, less that of the same turn
without viewers. The exit code is 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import re
import selectors
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lab
from crowd import TOKEN, Child, connect, say


class Case(NamedTuple):
    """`rate`: events a second; `viewers` of that session, and `others` of an idle one."""

    viewers: int
    rate: int
    others: int = 0
    lag: float = 0.0
    """Milliseconds that half of the words may take at most; 0: it is not asked for."""
    beside: bool = True
    """Whether the broadcast runs it too."""


CASES = (
    Case(1, 1000, lag=5.0, beside=False),
    Case(1, 1000, others=500, lag=5.0, beside=False),
    Case(10, 50, lag=5.0),
    Case(100, 50, lag=5.0),
    Case(10, 1000, lag=20.0),
    Case(100, 1000, lag=20.0),
)
SECONDS = 4.0


# --- the server


def serve(agent: str) -> None:
    import trio

    import agentrt
    from agentrt._core.config import Config

    async def main() -> None:
        config = Config(agents={"fake": agentrt.Agent(name="fake", command=(agent,))})
        security = agentrt.web.Security(token=TOKEN)
        limits = agentrt.Limits(ws_connections=2000, ping_interval_s=600)
        async with (
            agentrt.open_runtime(config=config, limits=limits) as runtime,
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(partial(agentrt.web.serve, runtime, security=security))
            busy, idle = [await runtime.create("fake", cwd="/") for _ in range(2)]
            say(port=site.port, busy=busy.id, idle=idle.id)
            lines = trio.wrap_file(sys.stdin)
            while prompt := (await lines.readline()).strip():
                cpu = time.process_time()
                await busy.run(prompt)
                say(cpu=time.process_time() - cpu)
            nursery.cancel_scope.cancel()

    trio.run(main)


# --- the viewers


def watch(port: int, session: str, count: int) -> None:
    """Take what comes with the time of its coming, and look into it when the turn is over."""
    selector = selectors.DefaultSelector()
    took: list[list[tuple[int, bytes]]] = []
    for _ in range(count):
        sock = connect(port, session)
        sock.setblocking(False)
        took.append([])
        selector.register(sock, selectors.EVENT_READ, took[-1])
    start = time.monotonic_ns()  # what is older is of an earlier turn
    say(ready=count)
    selector.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                say(lags=sorted(lag for each in took for lag in lags(each, start)))
                return
            data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
            if not data:
                say(error="a viewer was sent away")
                return
            key.data.append((time.monotonic_ns(), data))


def lags(chunks: list[tuple[int, bytes]], start: int) -> list[float]:
    """Milliseconds from the agent's writing to a viewer's reading, for each word."""
    width = len(str(time.monotonic_ns()))
    found = []
    rest = b""
    for now, data in chunks:
        data = rest + data
        end = 0
        for match in re.finditer(rb'"text":"(\d{%d,})"' % width, data):
            words, end = match[1], match.end()
            for at in range(0, len(words), width):
                written = int(words[at : at + width])
                if written > start:
                    found.append((now - written) / 1e6)
        rest = data[max(end, len(data) - 4096) :]
    return found


# --- a round


def turn(server: Child, told: dict[str, Any], case: Case, seconds: float) -> dict[str, Any]:
    """One turn of the agent before these viewers."""
    crowds = [
        Child("watch", told["port"], told[name], count)
        for name, count in (("busy", case.viewers), ("idle", case.others))
        if count
    ]
    for crowd in crowds:
        crowd.hear()
    time.sleep(0.5)  # until their snapshots are read
    events = int(seconds * case.rate)
    out = server.ask(f"BENCH trickle {events} {1_000_000 // case.rate}")
    time.sleep(2)  # until all have seen it
    if crowds:
        seen = crowds[0].ask("all seen")["lags"]
        if len(seen) != events * case.viewers:
            sys.exit(f"{case.viewers} viewers saw {len(seen)} words of {events}")
        out |= {"p50": seen[len(seen) // 2], "p99": seen[len(seen) * 99 // 100]}
    for crowd in crowds:
        crowd.end()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    seconds = 1.0 if asked.quick else SECONDS
    agent = lab.build_agent() / "fake-acp"
    broadcast = lab.peer("broadcast", install=True)
    here = Path(__file__)
    starts = {"agentrt": partial(Child, "serve", agent)}
    if broadcast is not None:
        beside = here.with_name("broadcast.py")
        starts["websockets"] = partial(Child, agent, python=broadcast, program=beside)
    found: dict[tuple[str, Case], list[dict[str, Any]]] = {}
    for _ in range(asked.rounds):
        for name, start in starts.items():
            server = start()
            told = server.hear()
            for rate in {case.rate for case in CASES}:
                none = Case(0, rate)
                found.setdefault((name, none), []).append(turn(server, told, none, seconds))
            for case in CASES:
                if name == "agentrt" or case.beside:
                    found.setdefault((name, case), []).append(turn(server, told, case, seconds))
            server.end()
    good = [report(case, found, seconds) for case in CASES]
    sys.exit(not all(good))


def report(case: Case, found: dict[tuple[str, Case], list[dict[str, Any]]], seconds: float) -> bool:
    """Print what came out of one case; whether that is good enough."""
    others = f" beside {case.others} of an idle one" if case.others else ""
    print(f"\n{case.viewers} viewers of a session with {case.rate} events a second{others}")
    costs = {}
    for name in ("agentrt", "websockets"):
        rounds = found.get((name, case))
        if rounds is None:
            continue
        p50, p99 = (statistics.median(each[key] for each in rounds) for key in ("p50", "p99"))
        without = statistics.median(each["cpu"] for each in found[name, Case(0, case.rate)])
        cpu = statistics.median(each["cpu"] for each in rounds)
        costs[name] = (cpu - without) / (seconds * case.rate * case.viewers) * 1e6
        print(
            f"  {name:<11} lag, ms: p50 {p50:7.2f}, p99 {p99:7.2f};"
            f"  CPU {cpu / seconds:5.1%}, {costs[name]:6.2f} µs an event and viewer"
        )
        if name == "agentrt":
            good = p50 <= case.lag
    ratio = costs["agentrt"] / costs["websockets"] if "websockets" in costs else 0.0
    print(f"  lag at most {case.lag:g} ms: {good}" + (f"; CPU × {ratio:.2f}" if ratio else ""))
    return good and ratio <= 1.0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", agent]:
            serve(agent)
        case ["watch", port, session, count]:
            watch(int(port), session, int(count))
        case _:
            main()
