"""Prompts that an agent still knows.

The function gets any two lists of prompts, also those that no agent repeats.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.model.remembered import count_remembered


@given(st.lists(st.text()), st.data())
def test_what_is_repeated_is_remembered_and_nothing_more_than_was_prompted(
    prompts: list[str], data: st.DataObject
) -> None:
    assert count_remembered(prompts, prompts) == len(prompts)
    repeated = data.draw(st.lists(st.text() | st.sampled_from(prompts or [""])))
    assert 0 <= count_remembered(prompts, repeated) <= len(prompts)
    assert count_remembered([text for text in prompts if text.strip()], []) == 0


@pytest.mark.parametrize(
    ("prompts", "repeated", "count"),
    [
        (["ok", "go on"], ["look at this, it is going on", "again"], 0),
        (["hi"], ["<context>this</context>"], 0),
        (["yes", "do it all"], ["do it all yesterday"], 1),
        (["1"], ["<time>2026-11-27</time>"], 0),
        (["hi", "fix it"], ["<query>\nhi\n</query>", "fix", " it", "go on"], 2),
        (["hi", "go", "on"], ["h", "i", "go", "on"], 3),
        (["!ls"], ["then!ls"], 1),
        (["fix it", "fix it", "fix it"], ["fix it", "so:\n\nfix   it"], 2),
        (["é?"], ["é", "?"], 1),
        (["a long prompt that is cut"], ["a long prompt th", "at is cut", "and more"], 1),
    ],
)
def test_a_short_prompt_is_remembered_only_as_whole_words(
    prompts: list[str], repeated: list[str], count: int
) -> None:
    assert count_remembered(prompts, repeated) == count
