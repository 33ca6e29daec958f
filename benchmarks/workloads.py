"""What is measured, and what must come out: data only.

A figure is one number of a round. A target compares figures of the same round (the machine drifts
by a factor of two within minutes; a ratio inside a round does not), or bounds the figure itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Out = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One number, lower is better unless it is a `rate`."""

    title: str
    of: Callable[[Out], float]
    rate: bool = False


@dataclass(frozen=True)
class Target:
    """`agentrt` against `than` (a ratio, agentrt's figure as the divisor for a rate), or against
    `bound` itself when `than` is None."""

    protocol: str
    figure: str
    bound: float
    than: Literal["peer", "limit"] | None = None


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    """Filled in from the specification."""
    spec: Out
    """What the contestant is told; `{n}` and `{file}` in a prompt are filled in, the latter with
    where the agent writes what it saw."""
    figures: dict[str, Figure]
    targets: tuple[Target, ...] = ()
    quick: Out = field(default_factory=dict)
    """What differs in a quick run."""
    contestants: tuple[str, ...] = ("agentrt", "peer", "limit")
    protocols: tuple[str, ...] = ("acp", "claude")

    def told(self, *, quick: bool) -> Out:
        return {"timeout": 120, **self.spec, **(self.quick if quick else {})}


def each(
    figure: str, bound: float, than: Literal["peer", "limit"] | None = None
) -> tuple[Target, ...]:
    """The same target for both protocols."""
    return tuple(Target(protocol, figure, bound, than) for protocol in ("acp", "claude"))


GROWTH = Figure("peak memory grew by, MB", lambda out: out["growth_kb"] / 1024)
ROUND_TRIPS = {
    "rate": Figure(
        "round trips / s", lambda out: out["agent"]["n"] / out["agent"]["wall_ns"] * 1e9, rate=True
    ),
    "p50": Figure("median, µs", lambda out: out["agent"]["p50_ns"] / 1e3),
    "p99": Figure("99th percentile, µs", lambda out: out["agent"]["p99_ns"] / 1e3),
}
LATENCY = {
    "median": Figure("median, ms", lambda out: out["lat_ms"]),
    "max": Figure("worst, ms", lambda out: out["max_ms"]),
}


def per_message(out: Out) -> float:
    return out["cpu"] / out["spec"]["n"] * 1e6


WORKLOADS = (
    Workload(
        "flood",
        "{n:,} text updates of 250 bytes",
        {"workload": "stream", "prompt": "BENCH flood {n} 250", "n": 100_000},
        {
            "cpu": Figure("CPU a message, µs", per_message),
            "rate": Figure("messages / s", lambda out: out["spec"]["n"] / out["wall"], rate=True),
            "growth": GROWTH,
            "shown": Figure("updates shown", lambda out: out["n"]),
            "text": Figure("characters shown", lambda out: out["chars"]),
        },
        (
            Target("acp", "cpu", 1 / 8, "peer"),
            Target("claude", "cpu", 1 / 6, "peer"),
            *each("cpu", 3.5, "limit"),
        ),
        quick={"n": 30_000},
    ),
    Workload(
        "turns",
        "{n:,} trivial turns, one after the other",
        {"workload": "turns", "n": 2_000},
        {
            "rate": Figure("turns / s", lambda out: out["spec"]["n"] / out["wall"], rate=True),
            "cpu": Figure("CPU a turn, µs", per_message),
            "p50": Figure("median, µs", lambda out: out["p50_us"]),
            "p99": Figure("99th percentile, µs", lambda out: out["p99_us"]),
        },
        each("rate", 1.5, "peer"),
        quick={"n": 500},
    ),
    Workload(
        "ask",
        "{n:,} permission requests, one after the other",
        {"workload": "stream", "prompt": "BENCH ask {n} {file}", "n": 2_000, "asks": "ask"},
        ROUND_TRIPS,
        each("rate", 1.0, "peer"),
        quick={"n": 500},
    ),
    Workload(
        "behind",
        "a permission request behind 2,000 updates, consumer 1 ms an update",
        {
            "workload": "stream",
            "prompt": "BENCH behind 2000 {file}",
            "asks": "ask",
            "slow": 0.001,
        },
        {"answer": Figure("answered after, ms", lambda out: out["agent"]["p50_ns"] / 1e6)},
        each("answer", 50),
        contestants=("agentrt", "peer"),
    ),
    Workload(
        "cancel",
        "cancel while the agent floods",
        {"workload": "cancel", "reps": 5, "after": 0.3},
        LATENCY,
        (*each("median", 0.7, "peer"), *each("max", 20)),
        quick={"reps": 2},
        contestants=("agentrt", "peer"),
    ),
    Workload(
        "cancel-slow",
        "cancel while the agent floods, consumer 5 ms an update",
        {"workload": "cancel", "reps": 2, "after": 0.5, "slow": 0.005, "timeout": 60},
        LATENCY,
        each("max", 2 * 5 + 100),
        quick={"reps": 1},
        contestants=("agentrt", "peer"),
    ),
    Workload(
        "tools",
        "{n:,} calls of an in-process tool",
        {"workload": "stream", "prompt": "BENCH mcp {n} {file}", "n": 300, "asks": "mcp"},
        ROUND_TRIPS,
        (Target("claude", "rate", 8, "peer"),),
        quick={"n": 100},
        protocols=("claude",),  # the scripted ACP agent calls no MCP servers
    ),
    Workload(
        "stall",
        "a consumer that stops for {slow:g} s in a flood of {n:,} updates",
        {"workload": "stall", "prompt": "BENCH flood {n} 250", "n": 400_000, "slow": 3.0},
        {"growth": GROWTH},
        each("growth", 32),
        contestants=("agentrt", "peer"),
    ),
    Workload(
        "huge",
        "one line of 64 MB",
        {"workload": "stream", "prompt": "BENCH big 1 64000000"},
        {"wall": Figure("seconds", lambda out: out["wall"]), "growth": GROWTH},
        each("growth", 64 * 3.5),
    ),
    Workload(
        "startup",
        "from the interpreter's start to the first prompt at the agent",
        {"workload": "startup", "prompt": "BENCH stamp {file}"},
        {"first": Figure("first prompt, ms", lambda out: out["first_ms"])},
        each("first", 0.4, "peer"),
    ),
    Workload(
        "import",
        "CPU of the import, the limit being `import trio, msgspec`",
        {"workload": "import"},
        {"cpu": Figure("CPU, ms", lambda out: out["cpu_ms"])},
        (Target("acp", "cpu", 1.5, "limit"),),
        protocols=("acp",),
    ),
)
