"""Traces of real agents, as `--trace` wrote them, that have shown a mistake once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.testing import check_log, replay, run_seeded

KEPT = {path.stem: path for path in sorted(Path(__file__).with_name("traces").glob("*.ndjson"))}


async def lived_again(file: Path) -> list[Any]:
    """Every event of a session in which all that was done then is done again."""
    recorded = replay(file)
    async with recorded.open_session(permissions=agentrt.ask) as session:
        told = session.subscribe(after=0)
        await recorded.enact(session)
    events = [event async for event in told]
    recorded.check()
    check_log(events)
    return events


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_it_is_done_again_to_the_same_log_on_ten_schedules(name: str) -> None:
    first = run_seeded(lived_again, KEPT[name], seed=0)
    ends = [event.outcome for event in first if isinstance(event, agentrt.TurnEnded)]
    assert ends == ["completed", "completed", "cancelled"]
    assert all(run_seeded(lived_again, KEPT[name], seed=seed) == first for seed in range(1, 10))


def test_nothing_is_run_or_read_that_the_recorded_agent_asked_its_host_for() -> None:
    """It gets the answers of then: what a trace holds are somebody's commands."""
    done: list[tuple[str, str]] = []
    watching = True

    def seen(event: str, arguments: tuple[object, ...]) -> None:  # it cannot be removed
        if watching and event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "open"):
            done.append((event, str(arguments[:1])))

    sys.addaudithook(seen)
    try:
        run_seeded(lived_again, KEPT["kimi-terminal"], seed=0)
    finally:
        watching = False
    opened = [path for event, path in done if event == "open"]
    assert any(str(KEPT["kimi-terminal"]) in path for path in opened), "nothing is seen"
    assert [path for path in opened if "/sandbox/" in path] == []
    assert [each for each in done if each[0] != "open"] == []
