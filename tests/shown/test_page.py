"""The pages of the reference about an agent's messages are made of the drivers of today."""

from __future__ import annotations

import pytest

from .page import MADE, PAGES


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_the_page_is_what_the_driver_does(name: str) -> None:
    """If it differs: `python -m shown.page`, in `tests/`."""
    assert (PAGES / name).read_text() == MADE[name]()
