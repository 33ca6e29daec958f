"""Real agents as they were recorded, and as they might have been: whatever is done to a recording,
the log is well formed, and no turn has a word of another's."""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

import agentrt
from agentrt.testing import Replay, ReplayMismatch, mutations, run_seeded
from agentrt.testing.mutations import (
    Records,
    changed_so,
    delayed,
    killed,
    received,
    split,
)
from agentrt.tracing import TraceRecord, read_trace
from faults import wellformed
from faults.quick import chosen, mostly_slow
from faults.wellformed import outcomes
from simulation.defects import DEFECTS

from .invariants import check_shown, check_wire
from .test_kept_traces import KEPT
from .test_transcripts import SAYING_MORE, Watched, play
from .transcripts import ACP, ALL, converted

NAMES = [*ALL, *KEPT]
EACH = mostly_slow(NAMES, one_in=9)
DENIED = {
    # The recorded host allowed what it had interrupted: agentrt denies it, if the agent has not
    # withdrawn the question before. That is where it departs, and the replay ends.
    "claude-interrupt_permission": "the answer to request '4640c992' differs from the recording"
}


@dataclass
class Played:
    events: list[Any]
    departed: ReplayMismatch | None

    @property
    def ends(self) -> list[str]:
        return outcomes(self.events)

    @property
    def words(self) -> list[tuple[str, str]]:
        """What each turn was asked, and what was said in it."""
        turns: dict[str, tuple[str, list[str]]] = {}
        of: dict[str, str] = {}
        for event in self.events:
            match event:
                case agentrt.TurnStarted(turn=turn, prompt=prompt):
                    asked = "".join(getattr(block, "text", "") for block in prompt or ())
                    turns[turn] = (asked, [])
                case agentrt.ItemOpened(item=item) if item.turn in turns and item.parent is None:
                    of[item.id] = item.turn
                case agentrt.TextDelta(item=id, text=text) if id in of:
                    turns[of[id]][1].append(text)
        return [(asked, "".join(words)) for asked, words in turns.values()]


def run(records: Records, seed: int = 0, *, stop: TraceRecord | None = None) -> Played:
    """What comes of it; all that holds of a session held."""
    events: list[Any] = []
    watched = Watched()
    departed = None
    recorded = Replay(records, stop=stop)
    try:
        with suppress(agentrt.AgentStartError):
            run_seeded(play, recorded, events, watched, seed=seed)
    except ReplayMismatch as error:
        departed = error
    wellformed.check_log(events)
    check_shown(events, watched.snapshot)
    check_wire(watched.wire, recorded.protocol)
    return Played(events, departed)


@functools.cache
def known(name: str) -> tuple[Records, Played]:
    """A recording, with the ids that agentrt gives, and what it comes to."""
    if name in KEPT:
        records = [record for record in read_trace(KEPT[name]) if record.session]
        return records, run(records)
    recorded, events = Replay(converted(name)), []
    run_seeded(play, recorded, events, seed=0)
    ids = recorded._started[0]._ids
    return [_with(record, ids) for record in converted(name)], Played(events, None)


def _with(record: Any, ids: dict[Any, Any]) -> Any:
    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: put(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [put(inner) for inner in value]
        return ids.get(value, value) if isinstance(value, str) else value

    if record.kind not in ("sent", "received"):
        return record
    body = json.loads(record.line)
    if "jsonrpc" not in body:
        return replace(record, line=json.dumps(put(body)))
    if ("method" in body) == (record.kind == "sent") and "id" in body:
        body["id"] = ids.get(body["id"], body["id"])
    return replace(record, line=json.dumps(body))


def has_only_its_own(played: Played, then: Played) -> bool:
    """Whether what was said in each turn is the beginning of what was said to its prompt."""
    said = then.words
    return all(
        any(asked == prompt and words.startswith(text) for prompt, words in said)
        for asked, text in played.words
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_a_line_that_comes_in_two_pieces_is_the_same_line(name: str) -> None:
    records, then = known(name)
    for number in received(records):
        for byte in chosen(range(1, len(records[number].data)), one_in=120):
            played = run(split(records, number, byte))
            if played.departed is not None and name in DENIED:
                assert str(played.departed).startswith(DENIED[name])
                assert has_only_its_own(played, then)
                continue
            if played.departed is not None:  # the end of a life may be seen before it is over
                assert str(played.departed).startswith(SAYING_MORE[name])
            assert (played.ends, played.words) == (then.ends, then.words), (number, byte)


def test_an_agent_may_die_at_what_it_says_before_it_has_read_the_host_s_last_word() -> None:
    records, _ = known("codex")
    word = next(n for n, each in enumerate(records) if '"initialized"' in each.text)
    speaks = next(each for each in records[word:] if each.kind == "received")
    early = [*records[:word], replace(speaks, t=records[word].t), *records[word:]]
    assert run(killed(early, word, byte=5)).departed is None


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_an_agent_may_die_at_any_byte(name: str) -> None:
    records, then = known(name)
    for number in received(records)[2:]:
        for byte in {0, *chosen(range(1, len(records[number].data)), one_in=120)}:
            played = run(killed(records, number, byte), seed=byte)
            assert has_only_its_own(played, then), (number, byte)


@pytest.mark.parametrize("name", EACH)
def test_an_agent_may_pause_at_any_step(name: str) -> None:
    records, then = known(name)
    kinds = [record.kind for record in records]
    # What an agent says late to a host that has left is not waited for.
    left = "stdin_closed" in kinds and "received" in kinds[kinds.index("stdin_closed") :]
    for number in chosen(received(records), one_in=3):
        for seconds in (1.0, 45.0):
            played = run(delayed(records, number, seconds), seed=number)
            assert has_only_its_own(played, then), (number, seconds)
            if "cancelled" not in then.ends and not left:
                assert (played.ends, played.words) == (then.ends, then.words), (number, seconds)


@pytest.mark.parametrize("name", EACH)
def test_what_is_about_something_else_may_come_before_or_behind(name: str) -> None:
    records, then = known(name)
    for number, each in enumerate(changed_so(["reordered"], records)):
        played = run(each.records, seed=number)
        assert (played.ends, played.words) == (then.ends, then.words), str(each)


@pytest.mark.parametrize("name", EACH)
def test_a_turn_may_be_cancelled_at_any_step_by_an_agent_that_takes_no_notice(name: str) -> None:
    records, then = known(name)
    places = set(chosen(received(records)[2:], one_in=3))
    for each in changed_so(["cancelled"], records):
        if each.record - 1 in places:
            played = run(each.records, seed=each.record, stop=each.stop)
            assert has_only_its_own(played, then), str(each)


def stale_answers(name: str) -> list[int]:
    """Where an answer that comes once more changes what the conversation is."""
    records, then = known(name)
    return [
        number
        for number, each in enumerate(changed_so(["repeated"], records))
        if (played := run(each.records, seed=number)).words != then.words
        or played.ends != then.ends
    ]


@pytest.mark.parametrize("name", mostly_slow(list(ACP), one_in=9))
def test_an_answer_that_comes_again_answers_nothing(name: str) -> None:
    assert not stale_answers(name)


def test_an_agent_that_dies_right_behind_its_start_is_said_to_have_ended() -> None:
    """Found by the recording alone: it was said to be late, for a minute that had not passed."""
    [at_once] = [
        each for each in mutations(KEPT["kimi-terminal"], ["dead"], step=10**6) if each.record == 7
    ]

    async def opened() -> str:
        with pytest.raises(agentrt.AgentStartError) as refused:
            async with at_once.replay().open_session():
                pass
        return str(refused.value)

    said = {run_seeded(opened, seed=seed) for seed in range(12)}
    assert said == {"kimi ended before it was ready (signal SIGKILL)"}


def test_a_stale_answer_that_is_taken_for_the_next_prompts_is_found() -> None:
    [defect] = [one for one in DEFECTS if one.changes[0].wrong.__name__ == "_answer_whoever_waits"]
    known("gemini-text")
    with defect.planted():
        assert stale_answers("gemini-text")
