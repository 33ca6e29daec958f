"""Agents that a cancel has broken: which ends of the following turns show it.

The judgement gets every sequence of ends; an agent that breaks in each way does not exist.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.model.after_cancel import TABLE, PromptEnd, Readiness, prompt_end
from agentrt.events import (
    Item,
    ItemClosed,
    ItemOpened,
    Outcome,
    Task,
    TaskChanged,
    Text,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import SessionState
from inside.model import AfterCancel

E = PromptEnd


def ended(*ends: PromptEnd) -> AfterCancel:
    process = AfterCancel()
    for end in ends:
        if process.ended(end):
            break
    return process


def test_each_end_has_a_next_state_until_the_process_is_broken() -> None:
    assert set(TABLE) == set(Readiness) - {Readiness.BROKEN}
    assert all(set(row) == set(PromptEnd) for row in TABLE.values())


CANCELLED = (E.STOPPED, E.CANCELLED_UNASKED)


@given(st.lists(st.sampled_from([end for end in PromptEnd if end not in CANCELLED])))
def test_a_process_of_which_no_turn_was_cancelled_is_never_found_broken(
    ends: list[PromptEnd],
) -> None:
    assert ended(*ends).readiness is Readiness.SOUND


@given(st.lists(st.sampled_from(PromptEnd)))
def test_a_second_turn_in_a_row_that_the_agent_cancels_shows_that_it_is_broken(
    ends: list[PromptEnd],
) -> None:
    assert ended(*ends, *[E.CANCELLED_UNASKED] * 2).readiness is Readiness.BROKEN


@given(st.lists(st.sampled_from([E.ANSWERED, E.NO_OUTPUT])))
def test_a_turn_that_the_agent_cancels_shows_nothing_alone(ends: list[PromptEnd]) -> None:
    process = ended(*ends, E.CANCELLED_UNASKED, E.ANSWERED, E.CANCELLED_UNASKED, E.ANSWERED)
    assert process.readiness is Readiness.WATCHED


@pytest.mark.parametrize("end", [end for end in E if end not in (E.STOPPED, E.ANSWERED, E.UNCLEAR)])
def test_the_turn_after_a_cancel_shows_that_a_process_is_broken(end: PromptEnd) -> None:
    assert ended(E.ANSWERED, E.STOPPED, E.STOPPED, end).readiness is Readiness.BROKEN


@pytest.mark.parametrize("end", PromptEnd)
def test_a_process_that_has_answered_since_is_broken_only_if_it_answers_earlier_prompts(
    end: PromptEnd,
) -> None:
    broken = ended(E.STOPPED, E.ANSWERED, E.ANSWERED, end).readiness is Readiness.BROKEN
    assert broken is (end is E.EARLIER_PROMPT)


class Talk:
    """A session's state, turn by turn."""

    def __init__(self) -> None:
        self.state = SessionState()
        self._ids = iter(range(1, 1_000))

    def turn(
        self, prompt: str, *answer: str, outcome: Outcome | None = "completed", tool: bool = False
    ) -> str:
        """A turn with this prompt and these texts; `outcome` is None while it runs."""
        turn = f"t{next(self._ids)}"
        self._apply(TurnStarted(turn, "user", [Text(prompt)]))
        self._item(turn, "user", content=[Text(prompt)])
        if tool:
            self._item(turn, "tool", tool=ToolCall(call="c1"))
        for text in answer:
            item = self._item(turn, "text", status="running")
            self._apply(TextDelta(item, text), ItemClosed(item, "completed"))
        if outcome is not None:
            self._apply(TurnEnded(turn=turn, outcome=outcome))
        return turn

    def _item(self, turn: str, type: str, **fields: object) -> str:
        id = f"i{next(self._ids)}"
        given = {"id": id, "type": type, "turn": turn, "status": "completed", **fields}
        self._apply(ItemOpened(Item(**given)))  # type: ignore[arg-type]
        return id

    def _apply(self, *events: object) -> None:
        for event in events:
            self.state.apply(event)  # type: ignore[arg-type]

    def end(
        self,
        prompt: str,
        *answer: str,
        outcome: Outcome = "completed",
        tool: bool = False,
        echoes: tuple[str, ...] = (),
    ) -> PromptEnd:
        turn = self.turn(prompt, *answer, outcome=None, tool=tool)
        return prompt_end(self.state, turn, outcome, echoes)


LONG = "The capital of France is"


def stopped(answer: str = LONG) -> Talk:
    talk = Talk()
    talk.turn("how old is it?", "It is ten years old.", "I think.")
    talk.turn("which city?", answer, outcome="cancelled")
    return talk


def test_an_agent_that_works_in_the_background_may_end_a_turn_without_output() -> None:
    talk = stopped()
    talk.state.apply(TaskChanged(Task(id="b1")))
    assert talk.end("and Italy?") is E.ANSWERED
    assert talk.end("and Greece?", echoes=("which city?",)) is E.EARLIER_PROMPT
    talk.state.apply(TaskChanged(Task(id="b1", status="completed")))
    assert talk.end("and Spain?") is E.NO_OUTPUT


def test_an_agent_that_reports_on_background_work_may_end_a_turn_without_output() -> None:
    talk = stopped()
    turn = talk.turn("is it done?", outcome=None)
    assert prompt_end(talk.state, turn, "completed", (), reported_task=True) is E.ANSWERED


def test_a_new_answer_is_an_answer() -> None:
    assert stopped().end("and Italy?", "Rome.") is E.ANSWERED


def test_an_end_without_output_is_no_answer_but_to_a_command() -> None:
    assert stopped().end("and Italy?") is E.NO_OUTPUT
    assert stopped().end("and Italy?", " ", "\n\t") is E.NO_OUTPUT
    assert stopped().end("and Italy?", tool=True) is E.ANSWERED
    assert stopped().end("/compact") is E.ANSWERED
    assert stopped().end("and Italy?", outcome="refused") is E.ANSWERED


@pytest.mark.parametrize(
    "answer",
    [
        ("It is ten years old.", "I think."),  # the last complete answer
        ("It is ten years\nold. I think.",),  # in other pieces
        (LONG,),  # what the cancelled turn said
        (LONG, "Paris."),  # and what it was going to say
    ],
)
def test_the_answer_of_an_earlier_turn_is_recognized(answer: tuple[str, ...]) -> None:
    assert stopped().end("and Italy?", *answer) is E.EARLIER_ANSWER
    assert stopped().end("and Italy?", *answer, tool=True) is E.ANSWERED  # it did something


def test_the_same_answer_to_the_same_prompt_is_an_answer() -> None:
    assert stopped().end("which city?", LONG, "Paris.") is E.ANSWERED


def test_a_common_beginning_of_a_few_characters_is_not_a_repetition() -> None:
    assert stopped("I will").end("and Italy?", "I will look.") is E.ANSWERED
    assert stopped("I will").end("and Italy?", "I will") is E.UNCLEAR


def test_a_short_answer_may_be_right_twice_and_the_next_turn_decides() -> None:
    talk = Talk()
    talk.turn("is it open?", "Yes.")
    talk.turn("which city?", LONG, outcome="cancelled")
    assert talk.end("is it far?", "Yes.") is E.UNCLEAR
    watch = AfterCancel()
    assert not any(watch.ended(end) for end in (E.STOPPED, E.UNCLEAR, E.UNCLEAR))
    assert watch.ended(E.EARLIER_ANSWER)


def test_an_agent_that_names_an_earlier_prompt_answers_that_one() -> None:
    assert stopped().end("and Italy?", "Paris.", echoes=("which city?",)) is E.EARLIER_PROMPT
    assert stopped().end("and Italy?", "Paris.", echoes=("which ", "city?")) is E.EARLIER_PROMPT
    assert stopped().end("and Italy?", "Rome.", echoes=("and Italy?",)) is E.ANSWERED
    assert stopped().end("and Italy?", "Rome.", echoes=("something else",)) is E.ANSWERED


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_an_answer_that_no_earlier_turn_has_begun_is_an_answer(
    before: str, begun: str, answer: str
) -> None:
    talk = Talk()
    talk.turn("a", before)
    talk.turn("b", begun, outcome="cancelled")
    plain = " ".join(answer.split())
    repeats = any(plain.startswith(" ".join(text.split())) for text in (before, begun))
    if plain and not repeats:
        assert talk.end("c", answer) is E.ANSWERED
