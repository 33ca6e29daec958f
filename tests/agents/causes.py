"""Writes the table of causes of failures in `docs/project/api-failures.md`.

    PYTHONPATH=tests python -m agents.causes [AGENT …]

Each agent gets each answer of the model's API. `test_causes.py` compares the table with what the
agents do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

import trio

import agentrt

from .expectations import EXPECTATIONS
from .lab import Lab, model_server, prepare
from .modelserver.scripts import Cut, Mute, Status, Step, prompt_for
from .story import agent_of
from .versions import PACKAGES, agents_root

PAGE: Final = Path(__file__).parents[2] / "docs/project/api-failures.md"
Answer: TypeAlias = str
"""A status of HTTP, `cut` or `stall`."""
ANSWERS: Final[dict[Answer, Step]] = {
    **{str(code): Status(code) for code in (400, 401, 403, 404, 413, 429, 500, 529)},
    "cut": Cut(),
    "stall": Mute(),
}
PATIENCE_S: Final = 30.0
"""Seconds after which an agent counts as one that tries again for long."""
SILENCE_S: Final = 10.0
"""Seconds without a message after which a stalled turn is ended."""
RETRIES: Final = "tries again"
BEGIN: Final = "<!-- table -->\n"


async def observed(lab: Lab, answer: Answer) -> str:
    """Return the cell of the table: the cause, or the outcome if the turn did not fail."""
    limits = agentrt.Limits(
        turn_timeout_s=PATIENCE_S, idle_timeout_s=SILENCE_S if answer == "stall" else PATIENCE_S
    )
    async with agentrt.open_session(
        agent_of(lab),
        cwd=lab.work,
        env=lab.env,
        permissions=agentrt.allow_all,
        limits=limits,
        trust="yes",
    ) as session:
        result = await session.run(prompt_for([[ANSWERS[answer]]]), check=False)
    if result.outcome == "timed_out":
        return "timed out" if answer == "stall" else RETRIES
    if result.outcome != "failed":
        return result.outcome.replace("_", " ")
    cause = None if result.error is None else result.error.cause
    return "unknown" if cause is None else f"`{cause}`"


def cells() -> dict[tuple[str, Answer], str]:
    """Return the table of the page."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().partition(BEGIN)[2].splitlines()
        if line.startswith("|")
    ]
    head, _, *agents = rows
    names = [answer.strip("`") for answer in head[1:]]
    return {
        (row[0].strip("`"), answer): cell
        for row in agents
        for answer, cell in zip(names, row[1:], strict=True)
    }


def table(found: dict[tuple[str, Answer], str]) -> str:
    rows = [["agent", *(f"`{answer}`" for answer in ANSWERS)], ["---"] * (len(ANSWERS) + 1)]
    for agent in EXPECTATIONS:
        if all((agent, answer) in found for answer in ANSWERS):
            rows.append([f"`{agent}`", *(found[agent, answer] for answer in ANSWERS)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    found = cells()
    for agent in sys.argv[1:] or EXPECTATIONS:
        if not PACKAGES[agent].installed(agents_root()):
            continue
        for answer in ANSWERS:
            with tempfile.TemporaryDirectory() as name, model_server(Path(name)) as model:
                lab = prepare(agent, model, agents_root(), Path(name))
                found[agent, answer] = trio.run(observed, lab, answer)
            print(agent, answer, found[agent, answer], flush=True)
        head, mark, _ = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(head + mark + table(found))


if __name__ == "__main__":
    main()
