"""The state machines of a turn and of the queue, and a turn's first deadline, for every state.

The machines get every input in every state, and the deadline every set of limits: a session is in
one state at a time, and sends only inputs that are legal.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from agentrt import Limits
from agentrt._core.model.deadlines import next_deadline
from agentrt._core.model.prompt_queue import TABLE as QUEUE
from agentrt._core.model.prompt_queue import QueuedState, QueueInput
from agentrt._core.model.turn import PHASES, TABLE, TurnMachineInput
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from inside.model import PromptQueue, TurnMachine, TurnMachineState

LEGAL = {
    ("queued", "start"): "running",
    ("queued", "drop"): "dropped",
    ("running", "ask"): "waiting",
    ("running", "cancel"): "cancelling",
    ("running", "end"): "ended",
    ("waiting", "ask"): "waiting",
    ("waiting", "resolve"): "running",
    ("waiting", "cancel"): "cancelling",
    ("waiting", "end"): "ended",
    ("cancelling", "cancel"): "cancelling",
    ("cancelling", "end"): "ended",
}
ALL = [(state, input) for state in TurnMachineState for input in TurnMachineInput]


def machine(state: TurnMachineState) -> TurnMachine:
    turn = TurnMachine("user")
    turn.id, turn.state = "t1", state
    return turn


@pytest.mark.parametrize(
    ("state", "input"), [pair for pair in ALL if (pair[0].value, pair[1].value) in LEGAL]
)
def test_a_legal_input_moves_the_turn(state: TurnMachineState, input: TurnMachineInput) -> None:
    turn = machine(state)
    assert turn.apply(input) is turn.state
    assert turn.state.value == LEGAL[state.value, input.value]


@pytest.mark.parametrize(
    ("state", "input"), [pair for pair in ALL if (pair[0].value, pair[1].value) not in LEGAL]
)
def test_an_illegal_input_raises_and_changes_nothing(
    state: TurnMachineState, input: TurnMachineInput
) -> None:
    turn = machine(state)
    before = astuple(turn)
    with pytest.raises(LocalProtocolError, match=f"{input.value} is illegal in turn t1"):
        turn.apply(input)
    assert astuple(turn) == before


def test_the_table_has_a_row_for_every_state() -> None:
    assert set(TABLE) == set(TurnMachineState)


def test_every_state_of_a_turn_that_runs_is_a_phase_of_the_session() -> None:
    ends = {TurnMachineState.ENDED, TurnMachineState.DROPPED}
    assert set(PHASES) == set(TurnMachineState) - ends - {TurnMachineState.QUEUED}


def test_from_every_state_of_a_turn_that_runs_the_end_is_one_input_away() -> None:
    for state in PHASES:
        assert TABLE[state][TurnMachineInput.END] is TurnMachineState.ENDED


RUNNING, WAITING, CANCELLING = (
    TurnMachineState.RUNNING,
    TurnMachineState.WAITING,
    TurnMachineState.CANCELLING,
)


def turn(state: TurnMachineState = RUNNING, **facts: Any) -> TurnMachine:
    """A turn with an idle limit of 30 s that has begun at 100 and may take until 400."""
    machine = TurnMachine("user", Limits(idle_timeout_s=facts.pop("idle", 30)))
    facts = {"state": state, "began_at": 100.0, "hard_at": 400.0, **facts}
    for name, value in facts.items():
        setattr(machine, name, value)
    return machine


def first(machine: TurnMachine | None, **facts: Any) -> tuple[float, str]:
    """The agent's last output came at 200; a turn without an end is over after 20 s of silence."""
    given = {
        "active_at": 200.0,
        "idle_report_s": None,
        "silence_s": 20.0,
        "tail_s": None,
        "serving": False,
    }
    at, deadline = next_deadline(machine, **(given | facts))
    return at, deadline.value


def test_a_session_without_a_turn_waits_only_for_a_missing_idle_report() -> None:
    assert first(None) == (math.inf, "nothing")
    assert first(None, idle_report_s=5.0) == (205, "idle_report")


@pytest.mark.parametrize(
    ("machine", "facts", "expected"),
    [
        # A missing idle report is waited for, within the turn's limits.
        (turn(), {"idle_report_s": 5.0}, (205, "idle_report")),
        (turn(hard_at=203.0, grace_at=201.0), {"idle_report_s": 5.0}, (203, "idle_report")),
        (
            turn(CANCELLING, hard_at=201.0, grace_at=203.0),
            {"idle_report_s": 5.0},
            (203, "idle_report"),
        ),
        (
            turn(CANCELLING, hard_at=201.0, grace_at=300.0),
            {"idle_report_s": 5.0},
            (205, "idle_report"),
        ),
        # A cancel is sent once more, before the agent is given up on.
        (turn(CANCELLING, resend_at=210.0, grace_at=220.0), {}, (210, "resend")),
        (turn(CANCELLING, resend_at=220.0, grace_at=220.0), {}, (220, "grace")),
        (turn(CANCELLING, grace_at=220.0), {}, (220, "grace")),
        # An agent that is silent, and the hard limit.
        (turn(), {}, (230, "idle")),
        (turn(hard_at=229.0), {}, (229, "hard")),
        (turn(hard_at=230.0), {}, (230, "idle")),
        (turn(idle=None), {}, (400, "hard")),
        # Time in which the agent waits does not count as silence.
        (turn(WAITING), {}, (400, "hard")),
        (turn(), {"serving": True}, (400, "hard")),
        # A turn without an end on the wire ends by silence …
        (turn(explicit=False), {}, (220, "silence")),
        (turn(explicit=False, hard_at=219.0), {}, (219, "hard")),
        (turn(explicit=False, hard_at=220.0), {}, (220, "silence")),
        (turn(WAITING, explicit=False), {}, (400, "hard")),
        (turn(explicit=False), {"serving": True}, (400, "hard")),
        # … and by a shorter one while a prompt is queued, however long the turn takes.
        (turn(explicit=False, began_at=195.0), {"tail_s": 2.0}, (202, "silence")),
        (turn(explicit=False, began_at=180.0), {"tail_s": 2.0}, (200, "silence")),
        (turn(explicit=False, began_at=195.0), {"tail_s": 2.0, "serving": True}, (202, "silence")),
    ],
)
def test_the_first_deadline(
    machine: TurnMachine, facts: dict[str, Any], expected: tuple[float, str]
) -> None:
    assert first(machine, **facts) == expected


def prompt(entry: str) -> TurnMachine:
    turn = TurnMachine("user", content=[Text(entry)])
    turn.entry = entry
    return turn


def queue(*turns: TurnMachine) -> PromptQueue:
    made = PromptQueue()
    for turn in turns:
        made.put(turn)
    return made


def order(queue: PromptQueue) -> list[str]:
    assert [entry.id for entry in queue.entries] == [turn.entry for turn in queue]
    return [f"{entry.id}{' paused' if entry.paused else ''}" for entry in queue.entries]


def test_each_state_of_a_prompt_has_an_answer_to_each_input() -> None:
    assert set(QUEUE) == set(QueuedState)
    for row in QUEUE.values():
        assert set(row) == set(QueueInput)


def test_prompts_wait_in_their_order_and_one_that_is_put_first_goes_ahead() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.put(prompt("q3"), first=True)
    waiting.put(prompt("q4"), first=False)
    assert order(waiting) == ["q3", "q1", "q2", "q4"]
    assert waiting.next is waiting.find("q3")


def test_a_new_prompt_goes_before_those_that_a_stop_paused_and_does_not_resume_them() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.pause()
    waiting.put(prompt("q3"))
    waiting.put(prompt("q4"))
    assert order(waiting) == ["q3", "q4", "q1 paused", "q2 paused"]
    assert (waiting.paused, waiting.flows) == (True, True)
    waiting.remove(waiting.find("q3"))
    waiting.remove(waiting.find("q4"))
    assert waiting.next is None
    assert (waiting.paused, waiting.flows) == (True, False)


def test_only_resume_lets_paused_prompts_continue_in_their_order() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.pause()
    waiting.put(prompt("q3"))
    waiting.resume()
    assert order(waiting) == ["q3", "q1", "q2"]
    assert not waiting.paused


def test_a_second_stop_pauses_what_came_since_the_first_one_ahead_of_the_others() -> None:
    waiting = queue(prompt("q1"))
    waiting.pause()
    waiting.put(prompt("q2"))
    waiting.pause()
    assert order(waiting) == ["q2 paused", "q1 paused"]
    assert waiting.next is None


def test_a_promoted_prompt_goes_to_the_front_of_those_that_are_paused_as_it_is() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.pause()
    waiting.put(prompt("q3"))
    waiting.put(prompt("q4"))
    waiting.promote(waiting.find("q2"))
    waiting.promote(waiting.find("q4"))
    assert order(waiting) == ["q4", "q3", "q2 paused", "q1 paused"]


def test_an_empty_queue_is_not_paused() -> None:
    empty = queue()
    empty.pause()
    assert (empty.paused, empty.flows) == (False, False)
    waiting = queue(prompt("q1"))
    waiting.pause()
    waiting.remove(waiting.find("q1"))
    assert not waiting.paused


def test_a_prompt_that_does_not_wait_is_not_found() -> None:
    waiting = queue(prompt("q1"))
    with pytest.raises(
        LocalProtocolError, match=r"no prompt 'q2' is queued: it was started or removed"
    ):
        waiting.find("q2")


def test_a_prompt_is_changed_where_it_waits() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.edit(waiting.find("q1"), [Text("other")])
    assert [entry.content for entry in waiting.entries] == [[Text("other")], [Text("q2")]]
    assert len(waiting) == 2


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "first", "pause", "resume", "promote", "remove", "send"]),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(ACTS)
def test_what_was_paused_is_sent_only_after_a_resume_and_nothing_is_lost(
    acts: list[tuple[str, int]],
) -> None:
    waiting, paused, known = PromptQueue(), set[str](), set[str]()
    for number, (act, which) in enumerate(acts):
        there = list(waiting)
        chosen = there[which % len(there)] if there else None
        match act:
            case "put" | "first":
                waiting.put(new := prompt(f"q{number}"), first=act == "first")
                known.add(new.entry)
            case "pause":
                waiting.pause()
                paused = set(known)
            case "resume":
                waiting.resume()
                paused = set()
            case "promote" if chosen is not None:
                waiting.promote(chosen)
            case "remove" if chosen is not None:
                waiting.remove(chosen)
                known.discard(chosen.entry)
                paused.discard(chosen.entry)
            case "send" if (sent := waiting.next) is not None:
                assert sent.entry not in paused
                waiting.remove(sent)
                known.discard(sent.entry)
        assert {turn.entry for turn in waiting} == known
        marks = [entry.paused for entry in waiting.entries]
        assert {e.id for e in waiting.entries if e.paused} == paused
        assert marks == sorted(marks), "the ready ones are not ahead of the paused ones"
        assert waiting.paused == any(marks)
        assert waiting.flows == (not all(marks))
        assert waiting.next is (None if all(marks) else waiting.waiting[0])
