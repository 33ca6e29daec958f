"""A text that grows piece by piece: what a state says of it at any time."""

from __future__ import annotations

import pytest

from agentrt.events import Item, ItemOpened, TextDelta
from agentrt.lowlevel import SessionState

LENGTHENED = 64 * 1024
"""The characters by which a long text grows at least before its pieces are put together."""


def state_of(begun: str = "") -> SessionState:
    state = SessionState()
    state.apply(ItemOpened(Item(id="i1", type="text", text=begun)))
    return state


@pytest.mark.parametrize("pieces", [0, 1, 2, 1023, 1024, 1025, 5000])
def test_growing_text_is_its_pieces_in_order(pieces: int) -> None:
    state, parts = state_of("start "), [f"{n} " for n in range(pieces)]
    for number, part in enumerate(parts):
        state.apply(TextDelta("i1", part))
        if number % 700 == 0:
            assert state.text("i1") == "start " + "".join(parts[: number + 1])
    assert state.text("i1") == "start " + "".join(parts)
    assert state.snapshot("s", "e", 1).items[0].text == state.text("i1")


@pytest.mark.parametrize("size", [1, 1000, LENGTHENED - 1, LENGTHENED, 3 * LENGTHENED])
def test_growing_text_of_any_length_is_its_pieces_in_order(size: int) -> None:
    state, whole = state_of(), ""
    for number in range(40):
        piece = f"{number:>{size}}"
        state.apply(TextDelta("i1", piece))
        whole += piece
        assert state.length("i1") == len(whole)
        assert state.part("i1", len(whole) - 1, len(whole)) == whole[-1]
    assert state.part("i1", size // 2, 2 * size) == whole[size // 2 : 2 * size]
    assert state.text("i1") == whole
