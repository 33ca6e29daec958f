"""What a host said to codex besides prompts is in a recording, too: settings, and words into a turn
that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt.testing import FakeAgent, ReplayMismatch, replay, run_seeded, scripted_agents


async def script(agent: FakeAgent) -> None:
    async for prompt in agent.prompts:
        with trio.move_on_after(1):
            await prompt.cancelled.wait()
        agent.say("heard")
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


async def said(session: agentrt.Session, *, model: str = "fake-mini", into: str = "this") -> None:
    await session.set_model(model)
    async with session.prompt("do that"):
        await trio.sleep(0.5)
        session.steer(into)
    async with session.prompt("and that") as turn:
        await trio.sleep(0.5)
        turn.cancel()


async def record(file: Path) -> None:
    with scripted_agents({"codex": script}):
        async with agentrt.open_session("codex", cwd=file.parent, trace=file) as session:
            await said(session)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    run_seeded(record, tmp_path / "t", seed=0)
    return tmp_path / "t"


def test_it_is_done_again_to_the_same_log_on_ten_schedules(recorded: Path) -> None:
    async def again() -> list[Any]:
        told = replay(recorded)
        async with told.open_session() as session:
            events = session.subscribe(after=0)
            await told.enact(session)
        told.check()
        return [event async for event in events]

    first = run_seeded(again, seed=0)
    ends = [event.outcome for event in first if isinstance(event, agentrt.TurnEnded)]
    assert ends == ["completed", "cancelled"]
    assert all(run_seeded(again, seed=seed) == first for seed in range(1, 10))


@pytest.mark.parametrize(
    ("otherwise", "what"),
    [({"into": "something else"}, "turn/steer"), ({"model": "fake"}, "thread/settings/update")],
)
def test_a_host_that_says_something_else_departs(
    recorded: Path, otherwise: dict[str, str], what: str
) -> None:
    async def again() -> None:
        async with replay(recorded).open_session() as session:
            await said(session, **otherwise)

    with pytest.raises(ReplayMismatch, match=what):
        run_seeded(again, seed=0)
