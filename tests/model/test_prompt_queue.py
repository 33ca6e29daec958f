"""Prompts that wait: their order, and what holds them back."""

from __future__ import annotations

import pytest

from agentrt import LocalProtocolError
from agentrt._model.content import Text
from agentrt._model.prompt_queue import PromptQueue
from agentrt._model.turn import TurnMachine


def prompt(entry: str, *, held: bool = True) -> TurnMachine:
    turn = TurnMachine("user", content=[Text(entry)])
    turn.entry, turn.held = entry, held
    return turn


def queue(*turns: TurnMachine) -> PromptQueue:
    made = PromptQueue()
    for turn in turns:
        made.put(turn)
    return made


def order(queue: PromptQueue) -> list[str]:
    assert [entry.id for entry in queue.entries] == [turn.entry for turn in queue]
    return [turn.entry for turn in queue]


def test_prompts_wait_in_their_order_and_one_that_is_put_first_goes_ahead() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.put(prompt("q3"), first=True)
    waiting.put(prompt("q4"), first=False)
    assert order(waiting) == ["q3", "q1", "q2", "q4"]
    assert waiting.next is waiting.find("q3")


def test_a_prompt_that_is_promoted_is_the_next_and_stays_held_back() -> None:
    waiting = queue(prompt("q1"), prompt("q2"), prompt("q3"))
    waiting.hold()
    waiting.promote(waiting.find("q3"))
    assert order(waiting) == ["q3", "q1", "q2"]
    assert waiting.paused
    assert waiting.next is None


def test_prompts_that_are_held_back_flow_again_when_one_is_put_or_by_resume() -> None:
    waiting = queue(prompt("q1"))
    waiting.hold()
    assert (waiting.paused, waiting.flows) == (True, False)
    waiting.put(prompt("q2"))
    assert (waiting.paused, waiting.flows) == (False, True)
    waiting.hold()
    waiting.resume()
    assert (waiting.paused, waiting.flows) == (False, True)


def test_a_prompt_that_nothing_holds_back_goes_past_those_that_are() -> None:
    waiting = queue(prompt("q1"))
    waiting.hold()
    waiting.put(prompt("q2", held=False))
    assert waiting.paused
    assert waiting.next is waiting.find("q2")


def test_a_queue_with_nothing_to_hold_back_is_not_paused() -> None:
    waiting = queue(prompt("q1", held=False))
    waiting.hold()
    assert not waiting.paused
    empty = queue()
    empty.hold()
    assert not empty.paused
    assert not empty.flows


def test_a_pause_ends_with_the_last_prompt_that_it_holds_back() -> None:
    first, second, free = prompt("q1"), prompt("q2"), prompt("q3", held=False)
    waiting = queue(first, second)
    waiting.hold()
    waiting.put(free)
    waiting.remove(first)
    assert waiting.paused
    waiting.remove(second)
    assert not waiting.paused
    assert order(waiting) == ["q3"]


def test_a_prompt_that_does_not_wait_is_not_found() -> None:
    waiting = queue(prompt("q1"))
    with pytest.raises(LocalProtocolError, match=r"no prompt 'q2' waits: it was started or taken"):
        waiting.find("q2")


def test_a_prompt_is_changed_where_it_waits() -> None:
    waiting = queue(prompt("q1"), prompt("q2"))
    waiting.edit(waiting.find("q1"), [Text("other")])
    assert [entry.content for entry in waiting.entries] == [[Text("other")], [Text("q2")]]
    assert len(waiting) == 2
