"""The fuzzer's targets with bytes of Hypothesis's; `nox -s fuzz` makes better ones, and more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .targets import TARGETS

SLOW = {"acp_session": 8, "claude_session": 8}
"""Examples where each is a whole session; of the others there are more."""


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_undeclared_is_raised_and_no_cut_matters(name: str) -> None:
    @settings(max_examples=SLOW.get(name, settings().max_examples // 2))
    @given(st.binary(max_size=60) | st.binary(min_size=60, max_size=300))
    def any_bytes(data: bytes) -> None:
        TARGETS[name](data)

    any_bytes()
