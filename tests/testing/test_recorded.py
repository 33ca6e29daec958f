"""A program on a recorded agent, and on one to which something happens."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentrt
from agentrt.testing import (
    LogBroken,
    ReplayMismatch,
    ScriptedAgents,
    mutations,
    replay,
    run_seeded,
    scripted_agents,
    simulate,
)
from agentrt.testing.mutations import received
from agentrt.testing.replay import records_of
from simulation.defects import DEFECTS

KIMI = Path(__file__).parents[1] / "trace" / "traces" / "kimi-terminal.ndjson"
"""A real agent, on a scripted model: two prompts, and one that is cancelled at its first word."""


async def program(cancels: bool = True) -> list[str]:
    outcomes: list[str] = []
    async with agentrt.open_session("kimi", permissions=agentrt.allow_all) as session:
        for prompt in ("Please [[text]]", "Please [[shell]]"):
            outcomes.append((await session.run(prompt, check=False)).outcome)
        async with session.prompt("Please [[slow]]") as turn:
            async for event in turn:
                if cancels and isinstance(event, agentrt.TextDelta) and "word" in event.text:
                    session.cancel()
        outcomes.append(turn.result.outcome)
    return outcomes


@pytest.mark.parametrize("seed", range(3))
def test_a_program_that_opens_its_sessions_runs_on_a_recorded_agent(seed: int) -> None:
    async def test() -> tuple[list[str], ScriptedAgents]:
        with scripted_agents({"kimi": replay(KIMI)}) as agents:
            return await program(), agents

    outcomes, agents = run_seeded(test, seed=seed)
    assert outcomes == ["completed", "completed", "cancelled"]
    assert agents.session.outcomes == outcomes
    assert [asked for asked, _ in agents.session.turns] == agents.session.prompts
    assert agents.session.turns[0][1] == "Hello from the scripted model."


def test_the_commands_of_a_recorded_agent_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        with scripted_agents({"kimi": replay(KIMI)}):
            await program()

    run_seeded(test, seed=0)
    assert not list(tmp_path.iterdir())


def test_a_program_holds_whatever_happens_to_its_recorded_agent() -> None:
    seen: set[str] = set()

    async def resilient() -> None:
        seen.update(await program())

    simulate(resilient, seeds=range(10), recorded={"kimi": KIMI})
    assert {"completed", "cancelled"} <= seen


def test_a_program_that_does_something_else_than_the_recording_departs_at_once() -> None:
    with pytest.raises(ReplayMismatch, match="the host has not sent session/cancel"):
        simulate(program, False, recorded={"kimi": KIMI})


@pytest.mark.slow
def test_what_fails_is_named_by_its_seed_and_by_what_was_done_to_the_recording() -> None:
    async def believes() -> None:
        assert await program() == ["completed", "completed", "cancelled"], "it said so"

    with pytest.raises(AssertionError, match="it said so") as failed:
        simulate(believes, seeds=range(200), recorded={"kimi": KIMI})
    change, seed = failed.value.__notes__
    assert change.startswith("the recorded agent kimi: cancelled at record ")
    number = int(seed.split(":")[0].removeprefix("seed "))
    with pytest.raises(AssertionError, match="it said so"):
        simulate(believes, seeds=[number], recorded={"kimi": KIMI})


@pytest.mark.slow
def test_a_stale_answer_that_is_taken_for_the_next_prompts_is_found_on_a_real_agents_trace() -> (
    None
):
    [defect] = [one for one in DEFECTS if one.changes[0].wrong.__name__ == "_answer_whoever_waits"]
    with defect.planted(), pytest.raises(LogBroken) as found:
        simulate(program, seeds=range(200), recorded={"kimi": KIMI})
    assert "repeated at record " in found.value.__notes__[0]


def test_a_recording_is_cut_and_ended_at_each_of_its_bytes() -> None:
    records = records_of(KIMI, "")
    size = sum(len(records[number].data) for number in received(records))
    assert sum(1 for _ in mutations(KIMI, ["dead"])) == size
    assert sum(1 for _ in mutations(KIMI, ["cut"])) == size - len(received(records))


def test_each_kind_of_change_is_made() -> None:
    made = {each.kind for each in mutations(KIMI, step=500)}
    assert made == {"cut", "late", "reordered", "repeated", "dead", "cancelled"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["torn"]}, "there is no kind 'torn'; there are: cut, late"),
        ({"step": 0}, "step is a number of bytes from 1 on, not 0"),
    ],
)
def test_what_cannot_be_made_is_an_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mutations(KIMI, **options)  # type: ignore[arg-type]
