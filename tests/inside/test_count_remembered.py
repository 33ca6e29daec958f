"""Prompts that an agent still knows.

The function gets any two lists of prompts, also those that no agent repeats.
"""

from __future__ import annotations

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
