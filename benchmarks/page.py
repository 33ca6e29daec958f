"""The page of figures in the documentation, made from the rows that `run.py --page` measures.

    python benchmarks/page.py

writes the page once more from the stored rows, without measuring. A row is what one contestant
printed for one workload in one round.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workloads import PEERS, WORKLOADS, Figure, Out, Target, Workload

HERE = Path(__file__).parent
ROWS = HERE / "rows.jsonl"
PAGE = HERE.parent / "docs" / "project" / "speed.md"
CONTESTANTS = {
    "agentrt": "agentrt",
    "reference": "reference",
    "limit": "limit",
    "python": "Python SDK",
    "typescript": "TypeScript SDK",
}

ALONE = {
    "pauses": "Pauses, and readers that only iterate",
    "crowd": "Before a crowd of viewers",
    "long": "Long sessions, for a viewer that comes to them",
    "store": "With a store in SQLite",
}
"""Benchmarks of agentrt alone (`benchmarks/NAME.py`), and what is measured."""

Round = dict[str, Out]
"""What each contestant printed in one round."""

INTRODUCTION = """\
# Speed

This page compares agentrt with the SDKs of the two protocols, on pipes, with a scripted agent and
without a model. The last section measures agentrt alone. `nox -s bench -- --page` measures
everything and writes the page; the raw rows are in `benchmarks/rows.jsonl`, and
`benchmarks/README.md` describes the method.

- **agentrt**: through its public interface, with the event log.
- **Python SDK**, **TypeScript SDK**: the SDK of each protocol in that language.
- **reference**: a careful host on Trio that does only what the workloads need. It keeps no log and
  no state.
- **limit**: one blocking thread with typed decoding. It can neither cancel a turn nor serve a
  second session.

A cell is *ACP / Claude*: the median of the rounds. CPU and memory are those of the host's process
alone. Each host has one processor to itself and its agents have the others, unless the machine has
only one. On a shared machine all times of a run vary together by a factor of two or more, so
compare the columns of one row, not two runs.
"""


def value(out: Out | None, figure: Figure) -> float | None:
    if out is None or "error" in out:
        return None
    try:
        return figure.of(out)
    except KeyError:
        return None  # not every contestant has every figure


def median(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return statistics.median(known) if known else None


def best(one: Round, figure: Figure, among: tuple[str, ...]) -> float | None:
    """The best figure of those contestants in a round."""
    values = [known for name in among if (known := value(one.get(name), figure)) is not None]
    return (max if figure.rate else min)(values, default=None)


def ratio(rounds: list[Round], figure: Figure, than: str) -> float | None:
    """agentrt's figure by the other's, the median over the rounds."""
    among = PEERS if than == "best peer" else (than,)
    pairs = [(value(r.get("agentrt"), figure), best(r, figure, among)) for r in rounds]
    return median([mine / theirs for mine, theirs in pairs if mine is not None and theirs])


def number(value: float | None, form: str = ",.3g") -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:{form}}"


def reached(target: Target, figure: Figure, rounds: list[Round]) -> float | None:
    """What a target compares with its bound."""
    if target.than is None:
        return median([value(r.get("agentrt"), figure) for r in rounds])
    return ratio(rounds, figure, target.than)


# --- the page


def rows_of(workload: Workload, protocol: str, rounds: list[Round]) -> Iterator[dict[str, Any]]:
    """The rows of some rounds."""
    for number_, one in enumerate(rounds, 1):
        for contestant, out in one.items():
            yield {
                "workload": workload.name,
                "protocol": protocol,
                "round": number_,
                "contestant": contestant,
                "out": out,
            }


def page(machine: str, rows: list[dict[str, Any]]) -> str:
    """The page. `machine` describes where the rows were measured."""
    rounds: dict[tuple[str, str], dict[int, Round]] = {}
    alone: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "benchmark" in row:
            alone.setdefault(row["benchmark"], []).append(row)
            continue
        of_workload = rounds.setdefault((row["workload"], row["protocol"]), {})
        of_workload.setdefault(row["round"], {})[row["contestant"]] = row["out"]
    parts = [INTRODUCTION, f"Measured on {machine}.", "## Figures"]
    for workload in WORKLOADS:
        measured = {
            protocol: list(rounds[workload.name, protocol].values())
            for protocol in workload.protocols
            if (workload.name, protocol) in rounds
        }
        if measured:
            parts += _section(workload, measured)
    if alone:
        parts.append("## agentrt alone")
    for name, measures in alone.items():
        parts += [f"### {ALONE[name]}", "\n".join(_alone(measures))]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _section(workload: Workload, measured: dict[str, list[Round]]) -> Iterator[str]:
    specs = [
        out["spec"] for rs in measured.values() for r in rs for out in r.values() if "spec" in out
    ]
    title = workload.title.format(**(specs[0] if specs else {}))
    yield f"### {title[0].upper()}{title[1:]}"
    names = [n for n in CONTESTANTS if any(n in r for rs in measured.values() for r in rs)]
    lines = ["| | " + " | ".join(CONTESTANTS[name] for name in names) + " |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for figure in workload.figures.values():
        cells = [
            " / ".join(
                number(median([value(r.get(name), figure) for r in rounds]))
                for rounds in measured.values()
            )
            for name in names
        ]
        lines.append(f"| {figure.title} | " + " | ".join(cells) + " |")
    yield "\n".join(lines)
    targets = "\n".join(_targets(workload, measured))
    if targets:
        yield targets


def _targets(workload: Workload, measured: dict[str, list[Round]]) -> Iterator[str]:
    for target in workload.targets:
        rounds = measured.get(target.protocol)
        figure = workload.figures[target.figure]
        if rounds is None or (got := reached(target, figure, rounds)) is None:
            continue
        held = got >= target.bound if figure.rate else got <= target.bound
        than = "" if target.than is None else f" × the {target.than}"
        yield (
            f"- {target.protocol}, {figure.title}: {number(got)}{than}; the target is"
            f" {'at least' if figure.rate else 'at most'} {number(target.bound)}"
            f" ({'held' if held else 'missed'})"
        )


def _alone(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| | median | lowest to highest | wanted at most |"
    yield "|---|---|---|---|"
    for row in rows:
        values, wanted = row["values"], ""
        if row["at_most"] is not None:
            wanted = f"{number(row['at_most'])} ({'held' if holds(row) else 'missed'})"
        spread = f"{number(min(values))} to {number(max(values))}"
        yield f"| {row['figure']} | {number(statistics.median(values))} | {spread} | {wanted} |"


def holds(row: dict[str, Any]) -> bool:
    """Whether a figure of agentrt alone is within its bound."""
    return row["at_most"] is None or statistics.median(row["values"]) <= row["at_most"]


def write(machine: str, rows: list[dict[str, Any]]) -> None:
    """Write the page and its rows."""
    lines = [{"machine": machine}, *rows]
    ROWS.write_text("".join(json.dumps(line) + "\n" for line in lines))
    PAGE.write_text(page(machine, rows))


def stored() -> tuple[str, list[dict[str, Any]]]:
    """The machine and the rows of the last measurement."""
    first, *rows = map(json.loads, ROWS.read_text().splitlines())
    return first["machine"], rows


if __name__ == "__main__":
    PAGE.write_text(page(*stored()))
