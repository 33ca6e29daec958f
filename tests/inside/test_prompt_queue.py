"""Prompts that wait: their order, and which of them are paused.

The queue gets orders of commands that a session, which starts the first prompt, never shows.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import LocalProtocolError
from agentrt._core.model.prompt_queue import TABLE, QueuedState, QueueInput
from agentrt.events import Text
from inside.model import PromptQueue, TurnMachine


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
    assert set(TABLE) == set(QueuedState)
    for row in TABLE.values():
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
