"""Which of codex's turns is the prompt's, when its answer and its beginning come in any order."""

from __future__ import annotations

import pytest

from inside.drivers import CodexTurnInput, CodexTurns, CodexTurnState


def test_a_name_without_a_prompt_interrupts_nothing() -> None:
    assert not CodexTurns().named("a")


def test_a_turn_that_began_ahead_of_the_prompt_s_name_is_codex_s_own() -> None:
    turns = CodexTurns()
    prompt = turns.sent("t1")
    turns.reported_own = True  # an earlier one was
    turns.began("a")
    assert not turns.named("b")
    assert turns.own is not None
    assert (turns.own.id, turns.own.runs, turns.reported_own) == ("a", True, False)
    assert (prompt.id, prompt.state) == ("b", CodexTurnState.TAKEN)


def test_a_cancel_reaches_the_prompt_s_turn_also_where_another_one_began_first() -> None:
    turns = CodexTurns()
    prompt = turns.sent("t1")
    turns.began("a")
    prompt.apply(CodexTurnInput.CANCEL)
    turns.named("b")
    assert prompt.state is CodexTurnState.CANCELLED
    assert turns.began("b") == (prompt, True)


def test_codex_s_own_turn_is_known_when_it_is_named_again_and_not_interrupted() -> None:
    turns = CodexTurns()
    assert turns.reported_own is False
    begun = turns.began("a")
    assert begun is not None
    own, interrupted = begun
    assert not interrupted
    turns.reported_own = True
    assert turns.began("a") == (own, False)
    assert turns.own is own
    assert turns.reported_own
    other = turns.began("b")
    assert other is not None
    assert other[0] is not own
    assert not turns.reported_own


@pytest.mark.parametrize("more", [0, 1])
def test_the_oldest_of_the_turns_that_are_over_is_forgotten(more: int) -> None:
    turns = CodexTurns()
    ids = [str(number) for number in range(64 + more)]
    for id in ids:
        turns.ended(id)
    assert [turns.is_over(id) for id in ids] == [False] * more + [True] * 64


def test_a_turn_s_end_forgets_it() -> None:
    turns = CodexTurns()
    prompt = turns.sent("t1")
    turns.began("a")
    assert turns.ended("a") is prompt
    assert turns.current is None
    turns.began("b")
    turns.ended("b")
    assert (turns.own, turns.began("b")) == (None, None)
