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


Than = Literal["best peer", "python", "typescript", "reference", "limit"]
PEERS = ("python", "typescript")
ALL = ("agentrt", "reference", "limit", *PEERS)
HOSTS = ("agentrt", "reference", *PEERS)
"""Without the limit, which serves one agent and cannot be interrupted."""


@dataclass(frozen=True)
class Target:
    """`agentrt`'s figure by that of `than`, or the figure itself when `than` is None: at most
    `bound`, and for a rate at least."""

    protocol: str
    figure: str
    bound: float
    than: Than | None = None


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
    contestants: tuple[str, ...] = ALL
    protocols: tuple[str, ...] = ("acp", "claude")

    def told(self, *, quick: bool) -> Out:
        return {"timeout": 120, **self.spec, **(self.quick if quick else {})}


def each(figure: str, bound: float, than: Than | None = None) -> tuple[Target, ...]:
    """The same target for both protocols."""
    return tuple(Target(protocol, figure, bound, than) for protocol in ("acp", "claude"))


TEXT = {"acp": 59, "claude": 13}
"""Characters of text in an update of 250 bytes."""


def per_message(out: Out) -> float:
    return out["cpu"] / out["spec"]["n"] * 1e6


def per_update(out: Out) -> float:
    """Of those that the agent wrote, however many of them were shown as one."""
    return out["cpu"] / out["n"] * 1e6


def by_text(out: Out) -> float:
    spec = out["spec"]
    return out["growth_kb"] * 1024 / (spec["n"] * TEXT[spec["protocol"]])


GROWTH = Figure("peak memory grew by, MB", lambda out: out["growth_kb"] / 1024)
WALL = Figure("seconds", lambda out: out["wall"])
CPU = Figure("CPU, s", lambda out: out["cpu"])
STEP = Figure("longest step, ms of CPU", lambda out: out["step_ms"])
P50 = Figure("median, µs", lambda out: out["p50_us"])
P99 = Figure("99th percentile, µs", lambda out: out["p99_us"])
ROUND_TRIPS = {
    "rate": Figure(
        "round trips / s", lambda out: out["agent"]["n"] / out["agent"]["wall_ns"] * 1e9, rate=True
    ),
    "p50": Figure("median, µs", lambda out: out["agent"]["p50_ns"] / 1e3),
    "p99": Figure("99th percentile, µs", lambda out: out["agent"]["p99_ns"] / 1e3),
}
CANCELLED = {
    "heard": Figure("agent has it, ms", lambda out: out["heard_ms"]),
    "over": Figure("turn over, ms", lambda out: out["over_ms"]),
    "worst heard": Figure("agent has it, worst", lambda out: out["worst_heard_ms"]),
    "worst over": Figure("turn over, worst", lambda out: out["worst_over_ms"]),
}
LATE = {"cpu": Figure("CPU a message, µs", per_update), "p50": P50, "p99": P99}
LIFE = {
    "start": Figure("all started, s", lambda out: out["start"]),
    "start cpu": Figure("their start's CPU, s", lambda out: out["start_cpu"]),
    "wall": Figure("all turns, s", lambda out: out["wall"]),
    "cpu": Figure("the turns' CPU, s", lambda out: out["cpu"]),
    "close": Figure("all closed, s", lambda out: out["close"]),
    "close cpu": Figure("their end's CPU, s", lambda out: out["close_cpu"]),
    "left": Figure("processes left", lambda out: out["left"]),
    "memory": Figure("memory a session, KB", lambda out: out["each_kb"]),
}


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
            Target("acp", "cpu", 1 / 16, "python"),
            Target("acp", "cpu", 1.7, "limit"),
            Target("claude", "cpu", 1 / 6, "python"),
            Target("claude", "cpu", 3.5, "limit"),
        ),
        quick={"n": 30_000},
    ),
    Workload(
        "big",
        "{n:,} updates of 1 MB",
        {
            "workload": "stream",
            "prompt": "BENCH big {n} 1000000",
            "n": 200,
            "line": 200_000_000,
            "steps": True,
        },
        {"wall": WALL, "cpu": CPU, "growth": GROWTH, "step": STEP},
        (*each("wall", 1.0, "best peer"), *each("wall", 1.5, "limit")),
        quick={"n": 50},
    ),
    Workload(
        "huge",
        "one line of 64 MB",
        {
            "workload": "stream",
            "prompt": "BENCH big 1 64000000",
            "line": 200_000_000,
            "steps": True,
        },
        {"wall": WALL, "cpu": CPU, "growth": GROWTH, "step": STEP},
        (*each("wall", 1.0, "best peer"), *each("growth", 64 * 3.5), *each("step", 20)),
    ),
    Workload(
        "trickle",
        "{n:,} updates, one every {usec:,} µs",
        {"workload": "trickle", "prompt": "BENCH trickle {n} {usec}", "n": 1_000, "usec": 1_000},
        LATE,
        (*each("cpu", 0.35, "best peer"), *each("cpu", 1.2, "reference")),
        quick={"n": 300},
    ),
    Workload(
        "turns",
        "{n:,} trivial turns, one after the other",
        {"workload": "turns", "n": 2_000},
        {
            "rate": Figure("turns / s", lambda out: out["spec"]["n"] / out["wall"], rate=True),
            "cpu": Figure("CPU a turn, µs", per_message),
            "p50": P50,
            "p99": P99,
        },
        (
            *each("cpu", 60),
            *each("cpu", 1.0, "best peer"),
            *each("rate", 1.0, "best peer"),
            *each("rate", 2.0, "python"),
        ),
        quick={"n": 500},
    ),
    Workload(
        "ask",
        "{n:,} permission requests, one after the other",
        {"workload": "stream", "prompt": "BENCH ask {n} {file}", "n": 2_000, "asks": "ask"},
        ROUND_TRIPS,
        (*each("rate", 1.0, "best peer"), *each("rate", 1 / 1.3, "limit")),
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
        contestants=HOSTS,
    ),
    Workload(
        "tools",
        "{n:,} calls of an in-process tool",
        {"workload": "stream", "prompt": "BENCH mcp {n} {file}", "n": 300, "asks": "mcp"},
        ROUND_TRIPS,
        (Target("claude", "rate", 8, "python"), Target("claude", "rate", 1 / 1.3, "limit")),
        quick={"n": 100},
        protocols=("claude",),  # the scripted ACP agent calls no MCP servers
    ),
    Workload(
        "cancel",
        "cancel while the agent floods",
        {"workload": "cancel", "reps": 10, "after": 0.3},
        CANCELLED,
        (*each("heard", 0.5), *each("over", 1.5), *each("worst over", 20)),
        quick={"reps": 2},
        contestants=HOSTS,
    ),
    Workload(
        "cancel-slow",
        "cancel while the agent floods, consumer 5 ms an update",
        {"workload": "cancel", "reps": 3, "after": 0.5, "slow": 0.005, "timeout": 60},
        CANCELLED,
        (*each("heard", 0.5), *each("over", 5 + 2)),
        quick={"reps": 1},
        contestants=HOSTS,
    ),
    Workload(
        "stall",
        "a consumer that stops for {slow:g} s in a flood of {n:,} updates",
        {"workload": "stall", "prompt": "BENCH flood {n} 250", "n": 400_000, "slow": 3.0},
        {"growth": GROWTH, "by text": Figure("growth by the whole text", by_text)},
        each("by text", 1.5),
        contestants=HOSTS,
    ),
    Workload(
        "conc100",
        "{sessions} sessions, 1,000 updates each",
        {"workload": "concurrent", "prompt": "BENCH flood 1000 250", "sessions": 100},
        LIFE,
        (
            Target("acp", "cpu", 0.2, "best peer"),
            Target("claude", "cpu", 0.4, "best peer"),
            Target("acp", "cpu", 1.7, "reference"),
            Target("claude", "cpu", 0.9, "reference"),
            *each("close", 0.3),
            *each("left", 0),
        ),
        quick={"sessions": 20},
        contestants=HOSTS,
    ),
    Workload(
        "conc500",
        "{sessions} sessions, 1,000 updates each",
        {
            "workload": "concurrent",
            "prompt": "BENCH flood 1000 250",
            "sessions": 500,
            "timeout": 240,
        },
        LIFE,
        (
            Target("acp", "cpu", 0.2, "best peer"),
            Target("claude", "cpu", 0.4, "best peer"),
            Target("acp", "cpu", 1.7, "reference"),
            Target("claude", "cpu", 0.9, "reference"),
            *each("start", 0.6),
            *each("close", 1.5),
            *each("left", 0),
        ),
        quick={"sessions": 100},
        contestants=HOSTS,
    ),
    Workload(
        "live",
        "{sessions} sessions, 50 updates a second each",
        {"workload": "live", "prompt": "BENCH trickle {n} 20000", "sessions": 100, "n": 150},
        LATE,
        (*each("cpu", 1.0, "best peer"), *each("cpu", 1.2, "reference")),
        quick={"sessions": 20, "n": 50},
        contestants=HOSTS,
    ),
    Workload(
        "startup",
        "from the interpreter's start to the first prompt at the agent",
        {"workload": "startup", "prompt": "BENCH stamp {file}"},
        {
            "first": Figure("first prompt, ms", lambda out: out["first_ms"]),
            "modules": Figure("modules", lambda out: out["modules"]),
        },
        (*each("first", 0.4, "python"), *each("first", 0.9, "typescript")),
    ),
    Workload(
        "import",
        "CPU of the import, the limit being `import trio, msgspec`",
        {"workload": "import"},
        {"cpu": Figure("CPU, ms", lambda out: out["cpu_ms"])},
        (Target("acp", "cpu", 1.5, "limit"),),
        contestants=("agentrt", "python", "limit"),
        protocols=("acp",),
    ),
)
